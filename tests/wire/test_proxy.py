"""The proxy on real sockets: nobody can tell that it is there, and what it changes extends what it sent before."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import random
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
import pytest
from danshari_bench.load.proxies import free_port, start_server
from danshari_bench.load.traffic import serve_app
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danshari.archive import maintenance as keeping
from danshari.archive.location import open_archive
from danshari.archive.sqlite import SqliteArchive
from danshari.errors import ArgumentError
from danshari.formats import find_format
from danshari.proxy.app import create_app
from danshari.proxy.body.body import read_body
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn, conversation
from danshari.testing import fake_responses as speaking
from danshari.testing.fake_provider import ScriptedFailure, ScriptedUpstream, UpstreamRequest

PATHS = {"anthropic": "/v1/messages", "openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses"}


def work(rounds: int, format_name: str) -> list[Any]:
    """A session whose output is long enough to be squeezed at first sight."""
    turns = [
        Turn(
            thinking=f"Round {n}." if n % 3 == 0 else "",
            text=f"Looking at part {n}.",
            calls=(Call(name="Bash", arguments={"command": f"make part_{n}"}, result="\n".join(
                f"[{n}.{k}] compiled module_{n}_{k} without a warning" for k in range(120))),),
        )
        for n in range(rounds)
    ]  # fmt: skip
    return conversation(format_name, "Build every part and tell me what fails.", turns)


def body_of(format_name: str, messages: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "model": "claude-opus-4-5" if format_name == "anthropic" else "gpt-5",
        find_format(format_name).key: messages,
        **more,
    }


OPEN: list[http.client.HTTPConnection] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


class Client:
    """Plain requests, byte for byte."""

    def __init__(self, base: str) -> None:
        place = urlsplit(base)
        self.connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        OPEN.append(self.connection)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], bytes]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.connection.request("POST", path, raw, sent)
        answer = self.connection.getresponse()
        try:
            return answer.status, dict(answer.headers), answer.read()
        finally:
            answer.close()


class Pair:
    """An upstream and a proxy before it."""

    def __init__(self, upstream: ScriptedUpstream, there: str, here: str, app: Any) -> None:
        self.upstream, self.there, self.here, self.app = upstream, there, here, app

    @property
    def client(self) -> Client:
        return Client(self.here)

    def metric(self, name: str, **labels: str) -> float:
        found = self.app.state.relay.counts.registry.get_sample_value(f"danshari_{name}", labels)
        return found or 0.0


@pytest.fixture
def pair() -> Iterator[Pair]:
    yield from make_pair()


def make_pair(**settings: Any) -> Iterator[Pair]:
    upstream = ScriptedUpstream(record=True)
    with serve_app(upstream) as there:
        app = create_app(Settings(**{"upstreams": {"*": there}, "archive": ":memory:", **settings}))
        with serve_app(app) as here:
            yield Pair(upstream, there, here, app)


# ── nobody can tell ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("format_name", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_bytes_go_through_unchanged_when_nothing_is_edited(pair: Pair, format_name: str, stream: bool) -> None:
    turn = Turn(thinking="So.", text="über " * 30, calls=(Call(name="Read", arguments={"path": "ä.py"}),))
    pair.upstream.script = lambda asked: turn
    odd = '{ "max_tokens":1e2, "unknown":[1.50, "\\u00e9"], "model":"gpt-5","stream":%s,\n "%s": [ {"role":"user","content":"hi  \\u2026"} ] }'
    raw = (odd % (str(stream).lower(), find_format(format_name).key)).encode()
    direct = Client(pair.there).post(PATHS[format_name], raw)
    through = pair.client.post(PATHS[format_name] + "?beta=true", raw, x_odd="Ab C", anthropic_beta="one,two")
    first, second = pair.upstream.requests[-2:]
    assert second.raw == raw
    assert second.headers["x-odd"] == "Ab C"
    assert second.headers["anthropic-beta"] == "one,two"
    assert not any(name.startswith("x-danshari") for name in second.headers)
    assert "user-agent" not in second.headers, "nothing is added that the client did not send"
    expected = direct[2].replace(f"{first.number:06d}".encode(), f"{second.number:06d}".encode())
    assert through[0] == direct[0]
    assert len(through[2]) == len(expected)
    own = {k: v for k, v in through[1].items() if not k.startswith("x-danshari")}
    assert {k.lower() for k in own} == {k.lower() for k in direct[1]}


def test_other_paths_and_methods_pass_untouched(pair: Pair) -> None:
    client = pair.client
    for path in ("/v1/messages/count_tokens?beta=true", "/v1/models", "/v1/files", "/anything/at%20all?q=%2F"):
        status, headers, said = client.post(path, b"\x00\x01binary" * 1000)
        assert status == 200
        assert headers["x-upstream"] == "other"
        assert json.loads(said)["bytes"] == 8000
    client.connection.request("HEAD", "/v1/models")
    answer = client.connection.getresponse()
    answer.read()
    assert answer.status == 200
    client.connection.request("GET", "/v1/models?limit=1")
    assert json.loads(client.connection.getresponse().read())["method"] == "GET"


@pytest.mark.parametrize("policy", ["off", "balanced"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_official_sdks_get_what_they_get_without_it(policy: str, stream: bool) -> None:
    turn = Turn(thinking="Think.", text="Some words. " * 12, calls=(
        Call(name="Read", arguments={"path": "a.py"}), Call(name="Bash", arguments={"command": "ls"})))  # fmt: skip
    for pair in make_pair(**({"off": True} if policy == "off" else {"policy": policy})):
        pair.upstream.script = lambda asked: turn
        seen = [sdk_answers(base, stream) for base in (pair.there, pair.here)]
        assert seen[0] == seen[1]


def sdk_answers(base: str, stream: bool) -> list[Any]:
    """One answer of each API through its SDK, without ids and sizes that count requests."""
    picture = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    ask = [{"role": "user", "content": [{"type": "image", "source": picture}, {"type": "text", "text": "hi"}]}]
    with (
        anthropic.Anthropic(base_url=base, api_key="k", max_retries=0) as claude,
        openai.OpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as gpt,
    ):
        return sdk_calls(claude, gpt, ask, stream)


def sdk_calls(claude: anthropic.Anthropic, gpt: openai.OpenAI, ask: Any, stream: bool) -> list[Any]:
    thinking: Any = {"type": "enabled", "budget_tokens": 1024}
    options: Any = {"model": "claude-opus-4-5", "max_tokens": 4000, "messages": ask, "thinking": thinking}
    if stream:
        with claude.messages.stream(**options) as events:
            message = events.get_final_message()
        chunks = list(
            gpt.chat.completions.create(model="gpt-5", stream=True, messages=[{"role": "user", "content": "hi"}])
        )
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        calls = [c.choices[0].delta.tool_calls for c in chunks if c.choices and c.choices[0].delta.tool_calls]
        kinds = [e.type for e in gpt.responses.create(model="gpt-5", stream=True, input="hi there")]
        return [strip(message.content), message.stop_reason, text, len(calls), kinds]
    message = claude.messages.create(**options)
    chat = gpt.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "hi"}]).choices[0]
    output = gpt.responses.create(model="gpt-5", input=[{"role": "user", "content": "hi"}]).output
    return [strip(message.content), message.stop_reason, strip([chat.message]), strip(output)]


def strip(values: Any) -> str:
    made = [v.model_dump(exclude={"id", "call_id", "signature"}) for v in values]
    for value in made:
        for call in value.get("tool_calls") or ():
            call.pop("id")
    return json.dumps(made)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
def test_errors_pass_as_they_are(pair: Pair, status: int) -> None:
    pair.upstream.script = lambda asked: ScriptedFailure(
        status=status, text="no luck", headers=(("retry-after", "7"), ("set-cookie", "a=1"), ("set-cookie", "b=2"))
    )
    direct = Client(pair.there).post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "hi"}]))
    through = pair.client.post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "hi"}]))
    assert through[0] == direct[0] == status
    assert through[2] == direct[2]
    assert through[1]["retry-after"] == "7"


def test_events_arrive_as_they_are_sent(pair: Pair) -> None:
    """An event reaches the client while the next one is still held back upstream."""
    gate = asyncio.Event()
    parts = list(speaking.render_stream("anthropic", Turn(text="one two"), dict.fromkeys(("fresh", "cached", "written", "output"), 1),
                                 model="m", number=1))  # fmt: skip
    loops: list[asyncio.AbstractEventLoop] = []

    async def slowly(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await pair.upstream(scope, receive, send)
            return
        loops.append(asyncio.get_running_loop())
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": parts[0], "more_body": True})
        await gate.wait()
        await send({"type": "http.response.body", "body": b"".join(parts[1:])})

    with (
        serve_app(slowly) as there,
        serve_app(create_app(Settings(upstreams={"*": there}, archive=":memory:"))) as here,
    ):
        client = Client(here)
        client.connection.request("POST", "/v1/messages", json.dumps(body_of("anthropic", [{"role": "user", "content": "x"}], stream=True)),
                                  {"content-type": "application/json"})  # fmt: skip
        answer = client.connection.getresponse()
        assert answer.read1() == parts[0]
        loops[0].call_soon_threadsafe(gate.set)
        assert answer.read() == b"".join(parts[1:])


def test_a_compressed_answer_is_handed_on_and_its_usage_is_read(pair: Pair) -> None:
    made = json.dumps(speaking.render_response("anthropic", Turn(text="x" * 500), {"fresh": 7, "cached": 2, "written": 0, "output": 5},
                                      model="claude-opus-4-5", number=1)).encode()  # fmt: skip

    async def packed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await pair.upstream(scope, receive, send)
            return
        await receive()
        accepted = dict(scope["headers"])[b"accept-encoding"]
        head = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip"), (b"x-accepted", accepted)]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": gzip.compress(made)})

    with serve_app(packed) as there:
        app = create_app(Settings(upstreams={"*": there}, archive=":memory:"))
        with serve_app(app) as here:
            _, headers, said = Client(here).post(
                "/v1/messages",
                body_of("anthropic", [{"role": "user", "content": "x"}]),
                accept_encoding="br, gzip, zstd",
            )
            assert headers["x-accepted"] == "gzip", "only what can be looked into"
            assert gzip.decompress(said) == made
            assert app.state.keepers.all_branches()[0].figures.billed == {
                "fresh": 7,
                "cached": 2,
                "written": 0,
                "output": 5,
            }


# ── edits ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("format_name", PATHS)
def test_requests_extend_each_other_except_at_committed_edits(pair: Pair, format_name: str) -> None:
    """One hundred rounds: what goes upstream is valid, smaller, and begins with what went before, byte for byte."""
    messages, wire, client = work(100, format_name), find_format(format_name), pair.client
    cuts = [n for n, m in enumerate(messages) if n and wire.begins_turn(m, messages[n - 1])]
    edits = []
    for cut in cuts:
        status, headers, said = client.post(PATHS[format_name], body_of(format_name, messages[:cut], max_tokens=100))
        assert status == 200, said
        edits.append(int(headers["x-danshari-edits"]))
    sent = [asked.raw for asked in pair.upstream.requests]
    assert not pair.upstream.bills[""].problems
    whole = len(json.dumps(body_of(format_name, messages[: cuts[-1]])))
    assert len(sent[-1]) < 0.6 * whole
    for before, after, fresh in zip(sent, sent[1:], edits[1:], strict=False):
        old = json.loads(before)[wire.key]
        same = json.loads(after)[wire.key][: len(old)] == old
        assert same or fresh, "only a commit may change what was sent"
        if same:
            body = read_body(before.decode(), wire.key)
            assert after.startswith(before[: len(body.text[: body.places[-1][1]].encode())])


def test_a_cache_mark_that_moves_does_not_move_the_session(pair: Pair) -> None:
    """Claude Code marks the last user message; once the mark is gone a lone text becomes a plain string."""
    messages, client = work(30, "anthropic"), pair.client
    names = set()
    for cut in range(1, len(messages), 2):
        sent = json.loads(json.dumps(messages[:cut]))
        first = sent[0]["content"][0]["text"]
        if cut > 1:
            sent[0]["content"] = first
        sent[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        status, headers, said = client.post("/v1/messages", body_of("anthropic", sent), x_claude_code_session_id="abc")
        assert status == 200, said
        names.add(headers["x-danshari-session"])
        last = json.loads(pair.upstream.requests[-1].raw)["messages"][-1]["content"][-1]
        assert last["cache_control"] == {"type": "ephemeral"}
    assert len(names) == 1
    assert pair.app.state.keepers.all_branches()[0].figures.edits > 10


def test_sessions_are_told_apart(pair: Pair) -> None:
    client, one = pair.client, work(4, "openai-chat")
    other = conversation("openai-chat", "Write a poem.", [Turn(text="Roses.", user="More.")])

    def name(messages: list[Any], **headers: str) -> str:
        return client.post("/v1/chat/completions", body_of("openai-chat", messages), **headers)[1]["x-danshari-session"]

    first = name(one[:3], authorization="Bearer a")
    assert name(one[:3], authorization="Bearer a") == first, "a retry"
    assert name(one[:5], authorization="Bearer a") == first, "the next request"
    assert name(other, authorization="Bearer a") != first, "another conversation"
    assert name(one[:5], authorization="Bearer b") != first, "another tenant"
    assert name(one[:5], authorization="Bearer a", session_id="x") != first, "a client's own key"
    assert len(pair.app.state.keepers.all_branches()) == 4


def round_by_round(pair: Pair, format_name: str, messages: list[Any], start: int = 1, **headers: str) -> list[Any]:
    """Send every request of a session; give the messages as they went upstream last."""
    wire = find_format(format_name)
    cuts = [n for n, m in enumerate(messages) if n >= start and wire.begins_turn(m, messages[n - 1])]
    client = pair.client
    for cut in [*cuts, len(messages)]:
        status, told, said = client.post(PATHS[format_name], body_of(format_name, messages[:cut]), **headers)
        assert status == 200, said
        assert "x-danshari-fault" not in told, told
    client.connection.close()
    sent: list[Any] = json.loads(pair.upstream.requests[-1].raw)[wire.key]
    return sent


def test_a_fork_takes_over_what_was_decided(pair: Pair) -> None:
    messages = work(20, "openai-chat")
    sent = round_by_round(pair, "openai-chat", messages)
    assert sent != messages
    fork = [*messages[:21], {"role": "user", "content": "Do it another way."}]
    _, headers, _ = pair.client.post("/v1/chat/completions", body_of("openai-chat", fork))
    assert headers["x-danshari-session"].count("-") == 2
    again = json.loads(pair.upstream.requests[-1].raw)["messages"]
    assert again[:21] == sent[:21]
    assert again != fork
    pair.client.post("/v1/chat/completions", body_of("openai-chat", messages))
    assert json.loads(pair.upstream.requests[-1].raw)["messages"] == sent, "the first branch stands"


@pytest.mark.parametrize("format_name", PATHS)
def test_a_restart_changes_no_byte(tmp_path: Path, format_name: str) -> None:
    messages = work(24, format_name)
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        sent = round_by_round(pair, format_name, messages)
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        _, headers, _ = pair.client.post(PATHS[format_name], body_of(format_name, messages))
        assert headers["x-danshari-edits"] == "0"
        assert json.loads(pair.upstream.requests[-1].raw)[find_format(format_name).key] == sent != messages


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"previous_response_id": "resp_1"}, "the provider holds the history (previous_response_id)"),
        ({"conversation": "conv_1"}, "the provider holds the history (conversation)"),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 9}]},
            "the provider edits the context itself",
        ),
        ({"input": "only a text"}, "no list of messages"),
    ],
)
def test_what_the_provider_keeps_is_passed_through_and_said(pair: Pair, field: dict[str, Any], why: str) -> None:
    raw = json.dumps({**body_of("openai-responses", work(12, "openai-responses")), **field}).encode()
    _, headers, _ = pair.client.post("/v1/responses", raw)
    assert headers["x-danshari-untouched"].startswith(why)
    assert pair.upstream.requests[-1].raw == raw


def test_claude_codes_own_clearing_of_thinking_is_no_reason(pair: Pair) -> None:
    field = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
    _, headers, _ = pair.client.post("/v1/messages", {**body_of("anthropic", work(12, "anthropic")), **field})
    assert int(headers["x-danshari-edits"]) > 0


def test_switched_off_for_one_request(pair: Pair) -> None:
    raw = json.dumps(body_of("anthropic", work(12, "anthropic"))).encode()
    _, headers, _ = pair.client.post("/v1/messages", raw, x_danshari="off")
    assert headers["x-danshari-untouched"] == "switched off"
    assert pair.upstream.requests[-1].raw == raw
    assert "x-danshari" not in pair.upstream.requests[-1].headers


def test_a_request_too_long_is_compacted_and_sent_again() -> None:
    for pair in make_pair():
        messages = work(40, "openai-chat")
        pair.upstream.window = 18_000
        for cut in range(2, len(messages) + 1, 2):
            status, _, said = pair.client.post("/v1/chat/completions", body_of("openai-chat", messages[:cut]))
            assert status == 200, (cut, said)
        assert pair.metric("rescues_total") >= 1
        assert pair.app.state.keepers.all_branches()[0].figures.rescues >= 1


def test_an_overflow_that_nothing_helps_against_stays_the_providers_own(pair: Pair) -> None:
    pair.upstream.script = lambda asked: ScriptedFailure(
        status=400, text="prompt is too long: 300000 tokens > 200000 maximum"
    )
    direct = Client(pair.there).post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "hi"}]))
    through = pair.client.post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "hi"}]))
    assert through[0] == 400
    assert through[2] == direct[2]


# ── faults and limits ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fault_of_ours_costs_the_client_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("danshari.proxy.relay.compact_request", broken)
    raw = json.dumps(body_of("anthropic", work(12, "anthropic"))).encode()
    status, headers, _ = pair.client.post("/v1/messages", raw)
    assert status == 200
    assert headers["x-danshari-fault"] == "RuntimeError: a bug"
    assert pair.upstream.requests[-1].raw == raw
    assert pair.metric("faults_total", where="deciding") == 1


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b"\xff\xfe", b'{"messages":[1,]}', b"null",
                                 b'{"messages":[{"role":"user"}],"messages":[]}', b"[" * 100_000])  # fmt: skip
def test_what_is_no_request_goes_upstream_as_it_is(pair: Pair, raw: bytes) -> None:
    direct, through = (Client(base).post("/v1/messages", raw) for base in (pair.there, pair.here))
    assert through[0] == direct[0]
    assert through[2] == direct[2] or b"msg_" in direct[2]


def test_limits_are_said_in_the_providers_own_shape() -> None:
    for pair in make_pair(largest=1000, body_seconds=0.3):
        status, _, said = pair.client.post("/v1/messages", b"x" * 2000)
        assert status == 413
        assert json.loads(said)["error"]["type"] == "request_too_large"
        status, _, said = pair.client.post("/v1/chat/completions", b"x" * 2000)
        assert "danshari" in json.loads(said)["error"]["message"]
        place = urlsplit(pair.here)
        with socket.create_connection((place.hostname, place.port)) as slow:  # a client that never sends its body
            slow.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc")
            said = b""
            while b"did not arrive" not in said:
                said += slow.recv(10_000)


def test_http_1_0_and_expect(pair: Pair) -> None:
    place, raw = urlsplit(pair.here), json.dumps(body_of("anthropic", [{"role": "user", "content": "hi"}])).encode()
    head = b"POST /v1/messages HTTP/%s\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n"
    with socket.create_connection((place.hostname, place.port)) as old:
        old.sendall(head % (b"1.0", len(raw), b"") + raw)
        said = b""
        while part := old.recv(65_536):
            said += part
        assert b"200 OK" in said.split(b"\r\n")[0]
        assert said.endswith(b"}")
    with socket.create_connection((place.hostname, place.port)) as polite:
        polite.sendall(head % (b"1.1", len(raw), b"expect: 100-continue\r\n"))
        assert b"100 Continue" in polite.recv(1000)
        polite.sendall(raw)
        assert b"200 OK" in polite.recv(65_536)


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_breaks_off_breaks_off(pair: Pair, stream: bool) -> None:
    pair.upstream.script = lambda asked: (Turn(text="word " * 100), ScriptedFailure(cut=5))
    body = body_of("anthropic", [{"role": "user", "content": "hi"}], stream=stream)
    for base in (pair.there, pair.here):
        with pytest.raises((http.client.IncompleteRead, ConnectionError, http.client.BadStatusLine)):
            Client(base).post("/v1/messages", body)
    assert pair.metric("broken_total", how="broke off") == 1
    pair.upstream.script = lambda asked: Turn(text="fine")
    assert pair.client.post("/v1/messages", body)[0] == 200


def test_events_that_are_none_pass_too(pair: Pair) -> None:
    pair.upstream.script = lambda asked: (Turn(text="word " * 20), ScriptedFailure(garbage=True))
    body = body_of("anthropic", [{"role": "user", "content": "hi"}], stream=True)
    assert b"{not json" in pair.client.post("/v1/messages", body)[2]
    assert pair.app.state.keepers.all_branches()[0].figures.billed["output"] == 20


def test_nobody_there_and_nobody_answering() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        for pair in make_pair(upstreams={"*": f"http://127.0.0.1:{unused.getsockname()[1]}"}):
            status, _, said = pair.client.post(
                "/v1/messages", body_of("anthropic", [{"role": "user", "content": "hi"}])
            )
            assert status == 502
            assert json.loads(said)["error"]["type"] == "api_error"
    for pair in make_pair(idle_seconds=0.3):
        pair.upstream.script = lambda asked: (Turn(), ScriptedFailure(stall=3))
        assert pair.client.post("/v1/responses", body_of("openai-responses", work(1, "openai-responses")))[0] == 504


def test_a_client_that_leaves_takes_the_upstream_along(pair: Pair) -> None:
    reached = threading.Event()

    def script(asked: UpstreamRequest) -> Any:
        reached.set()
        return Turn(), ScriptedFailure(stall=20)

    pair.upstream.script = script
    client = pair.client
    client.connection.request("POST", "/v1/messages", json.dumps(body_of("anthropic", [{"role": "user", "content": "hi"}])),
                              {"content-type": "application/json"})  # fmt: skip
    assert reached.wait(10)
    client.connection.close()
    until(lambda: pair.metric("disconnects_total") == 1)
    until(lambda: pair.metric("running") == 0)


def until(true: Any, seconds: float = 10) -> None:
    waited = threading.Event()
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to pass"
        waited.wait(0.02)


def test_beyond_loopback_a_token_is_needed() -> None:
    with pytest.raises(ArgumentError, match="token"):
        create_app(Settings(host="0.0.0.0"))
    for pair in make_pair(token="s3cret"):
        body = body_of("anthropic", [{"role": "user", "content": "hi"}])
        assert pair.client.post("/v1/messages", body)[0] == 401
        assert pair.client.post("/v1/messages", body, x_danshari_token="wrong")[0] == 401
        assert pair.client.post("/v1/messages", body, x_danshari_token="s3cret")[0] == 200
        assert "x-danshari-token" not in pair.upstream.requests[-1].headers
        client = pair.client
        client.connection.request("GET", "/status.json")
        answer = client.connection.getresponse()
        answer.read()
        assert answer.status == 401


def test_upstreams_by_header_by_path_and_by_format() -> None:
    for pair in make_pair(upstreams={"anthropic": "http://127.0.0.1:9", "openai": "http://127.0.0.1:9"}):
        pair.app.state.settings.upstreams["mine"] = pair.there + "/v1"  # a base that holds the version itself
        body = body_of("openai-chat", [{"role": "user", "content": "hi"}])
        assert pair.client.post("/to/mine/v1/chat/completions", body)[0] == 200
        assert pair.upstream.requests[-1].path == "/v1/chat/completions"
        assert pair.client.post("/v1/chat/completions", body, x_danshari_upstream="mine")[0] == 200
        assert pair.client.post("/v1/chat/completions", body)[0] == 502
        status, _, said = pair.client.post("/to/nowhere/v1/chat/completions", body)
        assert status == 400
        assert "known: anthropic, mine, openai" in json.loads(said)["error"]["message"]


def test_a_full_disk_does_not_stop_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        pair.app.state.keepers._archive.run_query(lambda base: base.execute("PRAGMA max_page_count = 1"))
        raw = json.dumps(body_of("anthropic", work(12, "anthropic"))).encode()
        status, headers, _ = pair.client.post("/v1/messages", raw)
        assert status == 200
        assert "full" in headers["x-danshari-fault"]
        assert pair.upstream.requests[-1].raw == raw


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_credential_and_no_content_reaches_log_metrics_or_archive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Content stands in the archive, masked where the policy says so; a credential stands nowhere."""
    policy = tmp_path / "masked.toml"
    policy.write_text('extends = "balanced"\nmask_archive = true\n')
    key, secret = "sk-ant-api03-" + "Q" * 40, "ghp_" + "Z" * 36
    messages = work(12, "anthropic")
    messages[2]["content"][0]["content"] += f"\nexport TOKEN={secret}"
    with caplog.at_level("INFO", logger="danshari"):
        for pair in make_pair(archive=str(tmp_path / "a.db"), policy=str(policy)):
            round_by_round(pair, "anthropic", messages, x_api_key=key, authorization=f"Bearer {key}")
            client = pair.client
            for path in ("/metrics", "/status.json", "/"):
                client.connection.request("GET", path)
                page = client.connection.getresponse().read().decode()
                assert key not in page
                assert "module_3_7" not in page
            assert pair.app.state.keepers.all_branches()[0].figures.edits
    logged = " ".join(record.getMessage() for record in caplog.records if record.name == "danshari.proxy")
    assert '"tokens_before"' in logged
    assert key not in logged
    assert "module_3_7" not in logged
    with open_archive(tmp_path / "a.db") as archive:
        texts = "".join(keeping.export_archive(archive))
    stored = b"".join(p.read_bytes() for p in tmp_path.glob("a.db*"))
    for what in (key, secret):
        assert what not in texts
        assert what.encode() not in stored
    assert "module_3_7" in texts


# ── hand-overs, spans, chaos ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("format_name", PATHS)
def test_a_hand_over_is_asked_of_the_clients_own_model(tmp_path: Path, format_name: str) -> None:
    """With the client's own key, at the same place, its messages first: the cached prefix is read."""
    policy = tmp_path / "small.toml"
    policy.write_text('extends = "balanced"\nactive = 0.04\nmajor = 0.05\nadmit_over = 0\n')
    said = json.dumps(
        {"add": {"conclusions": ["module_3_7 compiled without a warning."], "next": ["Run make part_3."]}}
    )
    for pair in make_pair(policy=str(policy), handover="model"):
        asked: list[UpstreamRequest] = []

        def script(request: UpstreamRequest, asked: list[UpstreamRequest] = asked) -> Turn:
            if (len(request.raw) > 3000 and b"<transcript" in request.raw) or b"hand-over" in request.raw[-6000:]:
                asked.append(request)
                return Turn(text=said)
            return Turn(text="ok")

        pair.upstream.script = script
        round_by_round(pair, format_name, work(40, format_name), authorization="Bearer own-key")
        assert asked
        assert {a.headers.get("authorization") for a in asked} == {"Bearer own-key"}
        keeper = pair.app.state.keepers.all_branches()[0]
        assert any(
            "module_3_7 compiled without a warning." in str(h.to_dict()) for h in keeper.compactor.session.handovers
        )
        assert keeper.door.post is None, "the key is not kept"


def test_spans_carry_sizes_and_no_content(pair: Pair) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    caught, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(caught))
    trace.set_tracer_provider(provider)
    round_by_round(pair, "anthropic", work(3, "anthropic"), x_api_key="sk-own")
    span = caught.get_finished_spans()[-1]
    attributes = dict(span.attributes or {})
    assert span.name == "chat claude-opus-4-5"
    assert attributes["gen_ai.provider.name"] == "anthropic"
    assert attributes["gen_ai.usage.output_tokens"] == 20
    assert attributes["danshari.tokens_before"] > attributes["danshari.tokens_after"] > 0
    assert "module_1_7" not in str(attributes)
    assert "sk-own" not in str(attributes)


def test_chaos(tmp_path: Path) -> None:
    """Resets, stalls, errors, broken streams, and a proxy that is killed in the middle: what arrives whole is right.

    `DANSHARI_CHAOS` sets the number of requests.
    """
    wanted, draw = int(os.environ.get("DANSHARI_CHAOS", "200")), random.Random(5)
    messages = {name: work(30, name) for name in PATHS}
    ends = {name: turn_ends(name, messages[name]) for name in PATHS}
    place, counted, deaths = dict.fromkeys(PATHS, 0), Counter[str](), 0

    def script(asked: UpstreamRequest) -> Any:
        kind, turn = draw.randrange(8), Turn(text=f"answer {asked.number}.")
        if kind == 0:
            return turn, ScriptedFailure(cut=draw.randrange(4))
        if kind == 1:
            return ScriptedFailure(status=draw.choice([429, 500, 503, 529]), text="busy")
        return (
            (turn, ScriptedFailure(stall=0.4))
            if kind == 2
            else (turn, ScriptedFailure(garbage=True))
            if kind == 3
            else turn
        )

    upstream, archive = ScriptedUpstream(script, record=True), str(tmp_path / "a.db")
    with serve_app(upstream) as there:
        while sum(counted.values()) < wanted:
            port, deaths = free_port(), deaths + 1
            command = [sys.executable, "-m", "danshari", "proxy", "--port", str(port), "--upstream", there, "--log", "off",
                       "--archive", archive]  # fmt: skip
            with start_server(command, port, variables={"DANSHARI_PROXY_IDLE_SECONDS": "0.25"}) as process:
                killer = threading.Timer(
                    draw.uniform(0.5, 2.5) * max(wanted / 200, 1), os.kill, (process, signal.SIGKILL)
                )
                killer.start()
                client = Client(f"http://127.0.0.1:{port}")
                while killer.is_alive() and sum(counted.values()) < wanted:
                    name = draw.choice([*PATHS])
                    body = body_of(name, messages[name][: ends[name][place[name]]], stream=bool(draw.randrange(2)))
                    outcome = attempted(client, PATHS[name], body)
                    counted[outcome] += 1
                    place[name] = min(place[name] + (outcome == "whole"), len(ends[name]) - 1)
                killer.cancel()
    sys.stdout.write(f"{sum(counted.values())} requests, proxy killed {deaths - 1} times: {dict(counted)}\n")
    assert counted["whole"] > wanted / 2
    assert counted["broken"]
    assert not upstream.bills[""].problems
    with SqliteArchive(archive) as held:
        assert not held.notes
        assert keeping.verify_archive(held) == []
    for name in PATHS:
        extends_itself([a for a in upstream.requests if a.format == name], find_format(name).key)


def turn_ends(name: str, messages: list[Any]) -> list[int]:
    """Where each request of a session ends."""
    return [n for n, m in enumerate(messages) if n and find_format(name).begins_turn(m, messages[n - 1])]


def attempted(client: Client, path: str, body: dict[str, Any]) -> str:
    """Send one request of a chaos run; a whole answer must be one of the upstream's, unaltered."""
    try:
        status, headers, said = client.post(path, body)
    except (http.client.HTTPException, OSError):
        client.connection.close()
        return "broken"
    assert "x-danshari-fault" not in headers, headers
    if status != 200:
        assert status in (429, 500, 503, 504, 529), said
        return str(status)
    text = "".join(re.findall(rb'"(?:text|content|delta)": ?"(answer \d+\.)', said)[0].decode())
    assert re.fullmatch(r"answer \d+\.", text)
    return "whole"


def extends_itself(asked: list[UpstreamRequest], key: str) -> None:
    """A restart, a reset or a stall rewrites nothing: what was squeezed at first sight stays so."""
    before: list[Any] = []
    for request in asked:
        now = request.body[key]
        same = sum(a == b for a, b in zip(before, now, strict=False))
        assert same >= min(len(before), len(now)) - 1, "more than the message in flight changed"
        before = now


FIELDS = st.dictionaries(st.sampled_from(["model", "messages", "input", "stream", "tools", "system", "metadata", "thinking",
                                          "context_management", "previous_response_id", "n", "x"]),
                         st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                                      lambda v: st.lists(v, max_size=3) | st.dictionaries(
                                          st.sampled_from(["role", "content", "type", "text", "id", "name", "tool_calls"]), v, max_size=3),
                                      max_leaves=8), max_size=5)  # fmt: skip


def test_whatever_comes_goes_through(pair: Pair) -> None:
    """Fuzzed bodies, headers and paths: the proxy answers what the upstream answers, and never by a fault of its own."""
    client, direct = pair.client, Client(pair.there)
    pair.upstream.check = False
    pair.upstream.script = lambda asked: Turn(text="ok")

    @given(FIELDS, st.sampled_from([*PATHS.values(), "/v1/messages/", "/x/v1/responses"]),
           st.sampled_from(["application/json", "text/plain", "application/json; charset=utf-8", ""]),
           st.binary(max_size=3))  # fmt: skip
    @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
    def fuzz(fields: dict[str, Any], path: str, kind: str, extra: bytes) -> None:
        raw = json.dumps(fields).encode() + extra
        through = client.post(path, raw, content_type=kind)
        plain = direct.post(path, raw, content_type=kind)
        assert through[0] == plain[0]
        assert "x-danshari-fault" not in through[1], (raw, through[1])
        assert pair.metric("faults_total", where="deciding") == 0

    fuzz()
