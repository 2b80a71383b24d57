"""Google's own client through the proxy: answers, sessions, bills, rescues, errors and keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from danshari_bench.load.traffic import serve_app
from google.genai import errors, types

from danshari.core.pricing import Prices
from danshari.proxy.app import create_app
from danshari.proxy.http.request import ClientRequest
from danshari.proxy.http.upstream import choose_upstream
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn
from danshari.testing.fake_provider import ScriptedFailure, ScriptedUpstream, UpstreamRequest
from tests.support.gemini import (
    BASH,
    BUILD,
    LONG,
    MODEL,
    PATH,
    STREAM,
    WIRE,
    ask,
    client_of,
    parts_of,
    playing,
    sent,
    text_of,
)
from tests.support.proxy import JSON, Client, make_pair, raw_upstream, work


@pytest.mark.parametrize("off", [True, False])
@pytest.mark.parametrize("stream", [False, True])
def test_the_client_gets_what_it_gets_without_the_proxy(off: bool, stream: bool) -> None:
    turn = Turn(
        thinking="Think.", text="Some words. " * 12, calls=(BUILD, Call(name="Read", arguments={"path": "ä.py"}))
    )
    picture = types.Part.from_bytes(data=b"\x89PNG\r\n\x1a\n\xff\xfe", mime_type="image/png")
    for pair in make_pair(off=off):
        pair.upstream.script = lambda asked: turn
        seen = []
        for base in (pair.there, pair.here):
            pair.upstream.count = 0  # signatures and ids count requests
            with client_of(base) as client:
                answers = ask(client, [picture, "hi"], stream, system_instruction="Be brief.")
            skipped = {"sdk_http_response", "usage_metadata"}
            seen.append([a.model_dump(exclude=skipped) for a in answers])
        assert seen[0] == seen[1]
        assert text_of(answers) == turn.text
        assert [p.function_call.name for p in parts_of(answers) if p.function_call] == ["Bash", "Read"]
        assert pair.upstream.requests[0].body["contents"] == pair.upstream.requests[1].body["contents"]
        assert not pair.upstream.bills[""].problems


@pytest.mark.parametrize("stream", [False, True])
def test_usage_is_billed_with_what_the_cache_held(stream: bool) -> None:
    upstream = ScriptedUpstream(record=True, prices=Prices(read=0.1, write=1.0, minimum=0))
    for pair in make_pair(upstream=upstream):
        with client_of(pair.here) as client:
            contents = work(8, "gemini")
            reported = [
                ask(client, contents[:cut], stream)[-1].usage_metadata for cut in range(1, len(contents) + 1, 2)
            ]
        (session,) = pair.app.state.sessions.all_branches()
        billed = session.totals.billed
        cached = sum(u.cached_content_token_count or 0 for u in reported)
        assert cached > 0
        assert billed["cached"] == cached
        assert billed["cached"] + billed["fresh"] == sum(u.prompt_token_count for u in reported)
        assert billed["output"] == sum(u.candidates_token_count for u in reported)
        assert session.totals.dollars > 0
        assert session.client.model == MODEL


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_is_one_session_and_long_results_are_shortened_at_first_sight(stream: bool) -> None:
    """The SDK's own chat calls a function and stores streams as one content a piece."""

    def run_build(part: str) -> str:
        """Build a part."""
        return LONG

    for pair in make_pair():
        call = Turn(text="I will build it, and then we shall see what fails. ", calls=(
            Call(name="run_build", arguments={"part": "a"}), Call(name="run_build", arguments={"part": "b"})))  # fmt: skip
        more = Turn(calls=(Call(name="run_build", arguments={"part": "c"}),))
        playing(pair, call, Turn(text="Nothing fails. " * 9), more, Turn(text="Nothing at all. " * 9))
        with client_of(pair.here) as client:
            chat = client.chats.create(model=MODEL, config=types.GenerateContentConfig(tools=[run_build]))
            for word in ("Build a.", "Build it again."):
                told = chat.send_message_stream(word) if stream else [chat.send_message(word)]
                assert "Nothing" in "".join(chunk.text or "" for chunk in told)
        assert len(pair.upstream.requests) == 4
        assert not pair.upstream.bills[""].problems
        (session,) = pair.app.state.sessions.all_branches()
        assert session.totals.requests == 4
        assert session.totals.edits >= 2
        assert session.totals.after < session.totals.before
        for asked, later in zip(pair.upstream.requests, pair.upstream.requests[1:], strict=False):
            before, after = asked.body["contents"], later.body["contents"]
            assert after[: len(before)] == before, "what was sent stays as it was sent"
        assert all(len(json.dumps(c)) < len(LONG) for c in sent(pair))


@pytest.mark.parametrize("stream", [False, True])
def test_a_context_too_long_is_compacted_and_sent_again(stream: bool) -> None:
    text = "The input token count ({}) exceeds the maximum number of tokens allowed ({})."
    for pair in make_pair(recall="off"):
        refused = ScriptedFailure(status=400, text=text.format(90_000, 12_000))
        with client_of(pair.here) as client:
            contents = work(40, "gemini")
            playing(pair, refused)
            assert text_of(ask(client, contents, stream)) == "ok"
        first, second = pair.upstream.requests
        assert len(second.raw) < len(first.raw) / 2
        (session,) = pair.app.state.sessions.all_branches()
        assert session.totals.rescues == 1
        assert session.limit == 12_000
        assert not pair.upstream.bills[""].problems


def test_errors_have_googles_shape(tmp_path: Path) -> None:
    for pair in make_pair(largest=200_000):
        with client_of(pair.here) as client:
            playing(pair, ScriptedFailure(status=429, text="slow down"))
            with pytest.raises(errors.ClientError) as found:
                ask(client, "hi", stream=False)
            assert (found.value.code, found.value.status, found.value.message) == (
                429,
                "RESOURCE_EXHAUSTED",
                "slow down",
            )
            with pytest.raises(errors.ClientError, match="danshari: the request has more than") as found:
                ask(client, "hi" * 200_000, stream=True)
            assert (found.value.code, found.value.status) == (413, "INVALID_ARGUMENT")
    app = create_app(Settings(upstreams={"*": "http://127.0.0.1:9"}, archive=":memory:"))
    with serve_app(app) as here, client_of(here) as client, pytest.raises(errors.ServerError) as failed:
        ask(client, "hi", stream=False)
    assert "danshari" in str(failed.value.message)


def test_keys_in_the_header_and_in_the_url_keep_tenants_apart(caplog: pytest.LogCaptureFixture) -> None:
    body = {"contents": work(1, "gemini")}
    with caplog.at_level("INFO", logger="danshari"):
        for pair in make_pair():
            client = pair.client
            for key in ("AIza-first", "AIza-second", "AIza-first"):
                assert client.post(f"{PATH}?key={key}", body)[0] == 200
                assert client.post(PATH, body, x_goog_api_key=key)[0] == 200
            assert len(pair.app.state.sessions.all_branches()) == 2
            assert len({s.client.tenant for s in pair.app.state.sessions.all_branches()}) == 2
            shown = b"".join(map(pair.get, ("/", "/metrics", "/status.json")))
            assert b"AIza" not in shown
    assert "AIza" not in " ".join(
        record.getMessage() for record in caplog.records if record.name.startswith("danshari")
    )


@pytest.mark.parametrize("headers", [{}, {"x-goog-api-key": "k"}])
def test_a_key_goes_to_google_alone(headers: dict[str, str]) -> None:
    """Requests that are none to a model too, with the key in a header or in the URL."""

    async def unused(*_: Any) -> Any:
        raise AssertionError

    scope = {"method": "GET", "path": "/v1beta/models", "query_string": b"key=k",
             "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}  # fmt: skip
    target = choose_upstream(ClientRequest(scope, unused, unused), {})
    assert target.url == "https://generativelanguage.googleapis.com/v1beta/models?key=k"


def test_a_stream_as_a_list_passes_through_and_is_billed() -> None:
    """Without `alt=sse` the API streams one JSON list."""
    made = [{"candidates": [{"content": {"role": "model", "parts": [{"text": t}]}, "index": 0}],
             "usageMetadata": {"promptTokenCount": 70, "cachedContentTokenCount": 50, "candidatesTokenCount": n,
                               "thoughtsTokenCount": 3, "toolUsePromptTokenCount": 4}}
            for n, t in enumerate(("Hel", "lo."), 1)]  # fmt: skip
    raw = json.dumps(made, indent=1).encode()
    with serve_app(raw_upstream([(JSON, raw)])) as there:
        app = create_app(Settings(upstreams={"*": there}, archive=":memory:"))
        with serve_app(app) as here:
            body = {"contents": [{"parts": [{"text": "hi"}]}], "tools": [BASH]}
            status, headers, said = Client(here).post(STREAM.removesuffix("?alt=sse"), body)
            assert (status, said) == (200, raw)
            assert "x-danshari-fault" not in headers
            (session,) = app.state.sessions.all_branches()
            assert session.recalls.offered is False
            assert session.totals.billed == {"fresh": 24, "cached": 50, "written": 0, "output": 5}


@pytest.mark.parametrize("stream", [False, True])
def test_a_hand_over_is_asked_of_the_clients_model_in_one_piece(tmp_path: Path, stream: bool) -> None:
    """The client's own request may be a stream; the summary goes to the same model, with the same key."""
    policy = tmp_path / "small.toml"
    policy.write_text('extends = "balanced"\nactive = 0.015\nmajor = 0.02\nadmit_over = 0\n')
    for pair in make_pair(policy=str(policy), handover="model", recall="off"):
        asked: list[UpstreamRequest] = []

        def script(request: UpstreamRequest, asked: list[UpstreamRequest] = asked) -> Turn:
            if b"hand-over" not in request.raw[-6000:]:
                return Turn(text="ok")
            asked.append(request)
            return Turn(text=json.dumps({"add": {"conclusions": ["module_3_7 compiled without a warning."]}}))

        pair.upstream.script = script
        contents = work(24, "gemini")
        cuts = [n for n, m in enumerate(contents) if n and WIRE.begins_turn(m, contents[n - 1])]
        with client_of(pair.here, key="own-key") as client:
            for cut in cuts:
                ask(client, contents[:cut], stream)
        assert asked
        assert {a.path.rpartition(":")[2] for a in asked} == {"generateContent"}
        assert {a.headers.get("x-goog-api-key") for a in pair.upstream.requests} == {"own-key"}
        (session,) = pair.app.state.sessions.all_branches()
        written = [str(h.to_dict()) for h in session.compactor.session.handovers]
        assert any("module_3_7 compiled without a warning." in text for text in written)
