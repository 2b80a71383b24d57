"""What a review of the proxy found, each as a law with its example."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from danshari_bench.load.traffic import serve_app

from danshari.formats import find_format
from danshari.pipeline.recall import READ_TOOL
from danshari.proxy.app import create_app
from danshari.proxy.server import base_url_of, bind_socket, create_server
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn
from danshari.testing.fake_provider import ScriptedFailure, UpstreamRequest
from tests.wire.test_hidden import RECALL, TOOL, Talk
from tests.wire.test_proxy import PATHS, Client, body_of, make_pair, round_by_round, until, work


def test_a_tenant_never_reads_what_another_archived(tmp_path: Path) -> None:
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        sent = round_by_round(pair, "anthropic", work(8, "anthropic"), x_api_key="tenant-a")
        shown = json.dumps(sent)
        digest = shown.split("archived as ")[1][:12]
        asked = Turn(calls=(Call(name=READ_TOOL, arguments={"id": digest[:8]}),))
        queue = [asked, Turn(text="ok")]
        pair.upstream.script = lambda request: queue.pop(0) if queue else Turn(text="ok")
        body = body_of("anthropic", [{"role": "user", "content": "hi"}], tools=[TOOL["anthropic"]])
        pair.client.post("/v1/messages", body, x_api_key="tenant-b")
        answered = json.dumps(pair.upstream.requests[-1].body)
        assert "nothing recalled" in answered
        assert "compiled module" not in answered


def test_tenants_that_archived_the_same_text_each_find_it(tmp_path: Path) -> None:
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        for tenant in ("tenant-a", "tenant-b"):
            sent = round_by_round(pair, "anthropic", work(8, "anthropic"), x_api_key=tenant)
        digest = json.dumps(sent).split("archived as ")[1][:12]
        for keeper in pair.app.state.keepers.all_branches():
            keeper.compactor._run.track = None  # what still stands in the conversation is found there
            assert "compiled module" in keeper.compactor.run_recall(READ_TOOL, {"id": digest})


def raw_upstream(answers: list[tuple[bytes, bytes]], head: tuple[tuple[bytes, bytes], ...] = ()) -> Any:
    """An upstream that answers with given bytes: (content type, body), one after the other."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        more = True
        while more:
            more = (await receive()).get("more_body", False)
        kind, body = answers.pop(0) if len(answers) > 1 else answers[0]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *head]})
        await send({"type": "http.response.body", "body": body})

    return app


SSE, JSON = b"text/event-stream", b"application/json"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (SSE, b'data: {"choices":[{"delta":{"content":[{"type":"thinking"}]}}]}\n\ndata: [DONE]\n\n'),
        (
            SSE,
            b'data: {"choices":[{"delta":{"tool_calls":[{"index":null,"function":{"name":"x"}}]}}]}\n\ndata: [DONE]\n\n',
        ),
        (SSE, b'data: {"choices":[null]}\n\ndata: {"choices":[{"delta":7}]}\n\nrest without an end'),
        (SSE, b'data: {"choices":[{"index":0,"delta":{"content":"\\ud83d"}}]}\n\ndata: [DONE]\n\n'),
        (JSON, b'{"choices":[null]}'),
        (JSON, b'{"choices":[{"message":{"content":"\xff\xe9"}}]}'),
        (JSON, b'{"choices": 7}'),
        (JSON, b"[]"),
        (JSON, b"no json"),
    ],
)
def test_an_answer_nobody_understands_is_handed_on(kind: bytes, body: bytes) -> None:
    with serve_app(raw_upstream([(kind, body)])) as there:
        app = create_app(Settings(upstreams={"*": there}, archive=":memory:"))
        with serve_app(app) as here:
            asked = body_of("openai-chat", [{"role": "user", "content": "hi"}], tools=[TOOL["openai-chat"]])
            status, _, said = Client(here).post(PATHS["openai-chat"], asked)
            assert status == 200
            assert said == body


def test_a_packed_answer_is_left_packed() -> None:
    packed = gzip.compress(b'{"choices": []}')
    with serve_app(raw_upstream([(JSON, packed)], ((b"content-encoding", b"gzip"),))) as there:
        with serve_app(create_app(Settings(upstreams={"*": there}, archive=":memory:"))) as here:
            asked = body_of("openai-chat", [{"role": "user", "content": "hi"}], tools=[TOOL["openai-chat"]])
            assert Client(here).post(PATHS["openai-chat"], asked)[2] == packed


@pytest.mark.parametrize("format_name", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_later_answer_that_fails_is_a_failure(format_name: str, stream: bool) -> None:
    """The client learns of it and asks anew; the hop is taken back, and no word of the client's is lost."""
    for pair in make_pair():
        talk = Talk(pair, format_name)
        talk.start()
        answers: list[Any] = [Turn(text="Let me look.", calls=(RECALL,)), ScriptedFailure(status=529, text="busy now")]
        pair.upstream.script = lambda asked, answers=answers: answers.pop(0) if answers else Turn(text="ok")
        body = body_of(format_name, talk.messages, tools=[TOOL[format_name]], stream=stream, store=False)
        status, _, said = pair.client.post(PATHS[format_name], body)
        assert b"busy now" in said
        assert status == (200 if stream else 529)
        assert b"message_stop" not in said
        assert b"response.completed" not in said
        talk.ask(Turn(text="IMPORTANT ANSWER"))
        assert "archived passages" not in json.dumps(talk.sent())


def test_a_broken_answer_makes_no_hop() -> None:
    events = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n'
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t",'
        b'"name":"recall_search","input":{}}}\n\n'
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    )
    with serve_app(raw_upstream([(SSE, events)])) as there:
        app = create_app(Settings(upstreams={"*": there}, archive=":memory:"))
        with serve_app(app) as here:
            body = body_of("anthropic", [{"role": "user", "content": "hi"}], tools=[TOOL["anthropic"]], stream=True)
            said = Client(here).post("/v1/messages", body)[2]
            assert said.endswith(b'"message":"busy"}}\n\n')
            assert b"recall" not in said
            assert app.state.keepers.all_branches()[0].recalls.hops == []


def test_a_call_in_the_last_chunk_is_hidden_too() -> None:
    """Some servers send the calls and the reason to stop in one chunk."""
    call = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "recall_search", "arguments": '{"query": "x"}'},
    }
    first = {
        "id": "a",
        "choices": [{"index": 0, "delta": {"content": "Wait.", "tool_calls": [call]}, "finish_reason": "tool_calls"}],
    }
    second = {"id": "b", "choices": [{"index": 0, "delta": {"content": " Done."}, "finish_reason": "stop"}]}
    answers = [(SSE, b"data: " + json.dumps(v).encode() + b"\n\ndata: [DONE]\n\n") for v in (first, second)]
    with serve_app(raw_upstream(answers)) as there:
        with serve_app(create_app(Settings(upstreams={"*": there}, archive=":memory:"))) as here:
            body = body_of("openai-chat", [{"role": "user", "content": "hi"}], tools=[TOOL["openai-chat"]], stream=True)
            said = Client(here).post(PATHS["openai-chat"], body)[2]
            assert b"recall" not in said
            assert b"Wait." in said
            assert said.index(b"Wait.") < said.index(b" Done.") < said.index(b"[DONE]")


def test_hidden_calls_stand_behind_their_reasoning() -> None:
    own = Call(name="Bash", arguments={"command": "make"}, id="own_1")
    for pair in make_pair():
        talk = Talk(pair, "openai-responses")
        talk.start()
        said = talk.ask(Turn(thinking="Both.", calls=(RECALL, own)))
        talk.messages = [
            *talk.messages,
            *said["output"],
            {"type": "function_call_output", "call_id": "own_1", "output": "ok"},
        ]
        talk.ask(Turn(text="Done."))
        kinds = [item.get("type") for item in talk.sent()][-5:]
        assert kinds == ["reasoning", "function_call", "function_call_output", "function_call", "function_call_output"]


def test_the_session_learns_from_the_last_request_alone() -> None:
    for pair in make_pair():
        talk = Talk(pair, "anthropic")
        talk.start()
        before = pair.app.state.keepers.all_branches()[0].compactor.session.calibration.reported
        talk.ask(*[Turn(calls=(RECALL,)) for _ in range(4)], Turn(text="Done."))
        after = pair.app.state.keepers.all_branches()[0].compactor.session.calibration.reported
        assert after < 3 * before + 20_000
        billed = pair.app.state.keepers.all_branches()[0].figures.billed
        assert billed["output"] >= 20 * 5


def test_a_request_without_tools_gets_none() -> None:
    for pair in make_pair():
        talk = Talk(pair, "openai-chat")
        talk.start()
        pair.client.post(PATHS["openai-chat"], body_of("openai-chat", talk.messages))
        assert "tools" not in pair.upstream.requests[-1].body


def test_credentials_of_the_machine_stay_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text("default login me password s3cret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for pair in make_pair():
        assert (
            pair.client.post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "a"}]), x_api_key="k")[0]
            == 200
        )
        assert "authorization" not in pair.upstream.requests[-1].headers
        assert (
            pair.client.post(
                "/v1/messages", body_of("anthropic", [{"role": "user", "content": "a"}]), authorization="Bearer k"
            )[0]
            == 200
        )
        assert pair.upstream.requests[-1].headers["authorization"] == "Bearer k"


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/responses/r1?stream=true"), ("POST", "/v1/embeddings")])
def test_other_paths_let_the_upstream_go_too(method: str, path: str) -> None:
    reached, left = threading.Event(), threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await raw_upstream([(JSON, b"")])(scope, receive, send)
            return
        more = True
        while more:
            more = (await receive()).get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", SSE)]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        reached.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    with serve_app(slow) as there, serve_app(create_app(Settings(upstreams={"*": there}, archive=":memory:"))) as here:
        place = urlsplit(here)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
        connection.request(method, path, b"{}" if method == "POST" else None)
        answer = connection.getresponse()
        assert reached.wait(10)
        answer.close()
        connection.close()
        assert left.wait(10), "the upstream was not let go"


def test_nothing_waits_on_the_loop_while_the_archive_is_locked(tmp_path: Path) -> None:
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        messages = work(6, "anthropic")
        round_by_round(pair, "anthropic", messages[:-1])
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            answered: list[int] = []
            asking = threading.Thread(target=lambda: answered.append(
                Client(pair.here).post("/v1/messages", body_of("anthropic", work(7, "anthropic")))[0]))  # fmt: skip
            asking.start()
            for _ in range(10):
                begun = time.monotonic()
                client = pair.client
                client.connection.request("GET", "/healthz")
                assert client.connection.getresponse().read() == b"ok\n"
                assert time.monotonic() - begun < 1
        finally:
            other.execute("ROLLBACK")
            other.close()
        asking.join(20)
        assert answered == [200]


def test_a_switch_of_the_model_does_not_wait_on_the_loop(tmp_path: Path) -> None:
    """While a hand-over is being written, everything else goes on."""
    policy = tmp_path / "small.toml"
    policy.write_text('extends = "balanced"\nactive = 0.04\nmajor = 0.05\nadmit_over = 0\nsummary_seconds = 4\n')
    writing, go = threading.Event(), threading.Event()

    def script(asked: UpstreamRequest) -> Any:
        if b"hand-over" in asked.raw[-6000:] and not go.is_set():
            writing.set()
            return Turn(text="{}"), ScriptedFailure(stall=2.5)
        return Turn(text="ok")

    for pair in make_pair(policy=str(policy), handover="model"):
        pair.upstream.script = script
        messages = work(40, "anthropic")
        asking = threading.Thread(target=lambda: round_by_round(pair, "anthropic", messages))
        asking.start()
        assert writing.wait(60)
        other = {**body_of("anthropic", messages[:21]), "model": "claude-haiku-4-5"}
        switching = threading.Thread(target=lambda: Client(pair.here).post("/v1/messages", other))
        switching.start()
        begun = time.monotonic()
        client = pair.client
        client.connection.request("GET", "/healthz")
        client.connection.getresponse().read()
        assert time.monotonic() - begun < 1.5
        go.set()
        asking.join(120)
        switching.join(30)


def test_branches_are_found_again_after_a_restart(tmp_path: Path) -> None:
    """Whichever branch comes first after a restart, each goes on with its own ledger."""
    one = work(20, "openai-chat")
    two = [*one[:21], {"role": "user", "content": "Do it another way."}, *one[21:]]
    sent: dict[str, Any] = {}
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        sent["one"] = round_by_round(pair, "openai-chat", one)
        sent["two"] = round_by_round(pair, "openai-chat", two, start=22)
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        for name, messages in (("two", two), ("one", one)):
            pair.client.post(PATHS["openai-chat"], body_of("openai-chat", messages))
            assert json.loads(pair.upstream.requests[-1].raw)["messages"] == sent[name], name
    assert find_format("openai-chat").check(sent["two"]) == []


def test_a_clients_words_are_no_metric() -> None:
    for pair in make_pair():
        field = {"context_management": {"edits": [{"type": "my-secret-one"}]}}
        _, headers, _ = pair.client.post("/v1/messages", {**body_of("anthropic", work(3, "anthropic")), **field})
        assert "my-secret-one" not in str(headers)
        client = pair.client
        client.connection.request("GET", "/metrics")
        assert b"my-secret-one" not in client.connection.getresponse().read()


def test_what_was_written_is_not_kept_for_ever() -> None:
    for pair in make_pair():
        round_by_round(pair, "anthropic", work(30, "anthropic"))
        body = pair.app.state.keepers.all_branches()[0].body
        assert len(body.written) <= len(body.messages)
        until(lambda: pair.metric("running") == 0)


def test_a_refusal_after_a_hop_keeps_its_words() -> None:
    for pair in make_pair():
        for stream in (False, True):
            talk = Talk(pair, "anthropic")
            talk.start()
            answers: list[Any] = [
                Turn(calls=(RECALL,)),
                ScriptedFailure(status=400, text="your credit balance is too low"),
            ]
            pair.upstream.script = lambda asked, answers=answers: answers.pop(0) if answers else Turn(text="ok")
            body = body_of("anthropic", talk.messages, tools=[TOOL["anthropic"]], stream=stream)
            assert b"credit balance" in pair.client.post("/v1/messages", body)[2]


@pytest.mark.parametrize("broken", ["answer", "stream", "end", "closing"])
def test_a_fault_in_what_hides_recalls_costs_no_word(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def fault(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    where = {"answer": "danshari.proxy.recall.store.SessionRecalls.run_hop", "stream": "danshari.proxy.recall.anthropic.AnthropicRecallFormat.stream_filter",
             "end": "danshari.proxy.recall.anthropic.AnthropicStreamFilter.end_response",
             "closing": "danshari.proxy.recall.anthropic.AnthropicStreamFilter.closing_events"}[broken]  # fmt: skip
    for pair in make_pair():
        talk = Talk(pair, "anthropic")
        talk.start()
        monkeypatch.setattr(where, fault)
        said = talk.ask(
            Turn(text="Let me look.", calls=(RECALL,)) if broken == "answer" else Turn(text="Look."), stream=True
        )
        assert b"ook." in said
        assert said.rstrip().endswith(b'"message_stop"}')
        assert pair.metric("faults_total", where="answer") >= 1


def test_hops_of_both_kinds_in_one_turn_stay_in_order() -> None:
    """First a recall alone, then one beside the client's own call: reasoning stands before its call, always."""
    own = Call(name="Bash", arguments={"command": "make"}, id="own_1")
    for pair in make_pair():
        talk = Talk(pair, "openai-responses")
        talk.start()
        said = talk.ask(Turn(thinking="First.", calls=(RECALL,)), Turn(thinking="Both.", calls=(RECALL, own)))
        talk.messages = [
            *talk.messages,
            *said["output"],
            {"type": "function_call_output", "call_id": "own_1", "output": "ok"},
        ]
        talk.ask(Turn(text="Done."))
        kinds = [item.get("type", "message") for item in talk.sent()][-8:]
        pair_ = ["function_call", "function_call_output"]
        assert kinds == ["reasoning", *pair_, "reasoning", *pair_, *pair_]


@pytest.mark.parametrize("format_name", PATHS)
def test_a_hop_is_not_glued_to_another_answer(format_name: str) -> None:
    own = Call(name="Bash", arguments={"command": "make"}, id="own_1")
    for pair in make_pair():
        talk = Talk(pair, format_name)
        talk.start()
        talk.ask(Turn(calls=(RECALL, own)))
        before = talk.messages
        talk.messages = [*before, *said_only(format_name, "Never mind."), talk.wire.user_message("Go on.")]
        talk.ask(Turn(text="Done."))
        assert "archived passages" not in json.dumps(talk.sent())


def said_only(format_name: str, text: str) -> list[Any]:
    if format_name == "openai-responses":
        return [
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            }
        ]
    return [{"role": "assistant", "content": text}]


# ── what the issue lists and no other test holds ─────────────────────────────────────────────────────────────────


def test_bound_thinking_brings_its_field_and_its_beta(tmp_path: Path) -> None:
    """Once an edit changed what thinking is bound to, every later request asks the provider to drop it."""
    policy = tmp_path / "hint.toml"
    policy.write_text('extends = "literal"\nthinking = "hint"\n')
    for pair in make_pair(policy=str(policy)):
        thinking = {"type": "enabled", "budget_tokens": 2048}
        messages, asked = work(14, "anthropic"), list[UpstreamRequest]()
        for cut in range(1, len(messages) + 1, 2):
            body = {**body_of("anthropic", messages[:cut], thinking=thinking), "model": "claude-fable-5-2"}
            pair.client.post("/v1/messages", body, anthropic_beta="own-beta-1")
            asked.append(pair.upstream.requests[-1])
        hinted = [a for a in asked if "block_binding" in a.body["thinking"]]
        assert hinted
        assert asked[-len(hinted) :] == hinted, "from the first such edit on, always"
        for request in asked:
            assert request.body["thinking"]["budget_tokens"] == 2048
            beta = "own-beta-1,thinking-binding-controls-2026-08-01" if request in hinted else "own-beta-1"
            assert request.headers["anthropic-beta"] == beta


def test_a_client_that_leaves_while_a_hand_over_is_written(tmp_path: Path) -> None:
    policy = tmp_path / "small.toml"
    policy.write_text('extends = "balanced"\nactive = 0.04\nmajor = 0.05\nadmit_over = 0\nsummary_seconds = 3\n')
    writing = threading.Event()

    def script(asked: UpstreamRequest) -> Any:
        if b"hand-over" in asked.raw[-6000:]:
            writing.set()
            return Turn(text="{}"), ScriptedFailure(stall=1.5)
        return Turn(text="ok")

    for pair in make_pair(policy=str(policy), handover="model"):
        pair.upstream.script = script
        messages = work(40, "anthropic")
        for cut in range(2, len(messages), 2):
            client = Client(pair.here)
            client.connection.request("POST", "/v1/messages", json.dumps(body_of("anthropic", messages[:cut])),
                                      {"content-type": "application/json"})  # fmt: skip
            if writing.is_set():
                client.connection.close()
                break
            asking = threading.Thread(target=lambda client=client: answered(client))
            asking.start()
            while asking.is_alive() and not writing.is_set():
                asking.join(0.02)
            if writing.is_set():
                client.connection.sock.shutdown(2)  # type: ignore[union-attr]
                asking.join(10)
                break
        assert writing.is_set()
        until(lambda: pair.metric("running") == 0)
        assert pair.client.post("/v1/messages", body_of("anthropic", messages))[0] == 200
        assert not pair.upstream.bills[""].problems


def answered(client: Client) -> None:
    try:
        client.connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return


def test_headers_sent_twice_arrive_twice() -> None:
    seen: list[Any] = []

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            seen.append([v for k, v in scope["headers"] if k == b"x-twice"])
        await raw_upstream([(JSON, b"{}")], ((b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")))(scope, receive, send)

    with (
        serve_app(noting) as there,
        serve_app(create_app(Settings(upstreams={"*": there}, archive=":memory:"))) as here,
    ):
        connection = Client(here).connection
        connection.putrequest("POST", "/v1/messages")
        for name, value in (
            ("x-twice", "1"),
            ("x-twice", "2"),
            ("content-length", "2"),
            ("content-type", "application/json"),
        ):
            connection.putheader(name, value)
        connection.endheaders(b"{}")
        answer = connection.getresponse()
        answer.read()
        assert seen == [[b"1", b"2"]]
        assert answer.headers.get_all("set-cookie") == ["a=1", "b=2"]


def test_a_running_stream_is_let_finish_at_shutdown() -> None:
    go = threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await raw_upstream([(JSON, b"")])(scope, receive, send)
            return
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", SSE)]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.to_thread(go.wait, 10)
        await send({"type": "http.response.body", "body": b"data: 2\n\n"})

    with serve_app(slow) as there:
        settings = Settings(port=0, upstreams={"*": there}, archive=":memory:", drain_seconds=10)
        taken, up = bind_socket(settings), threading.Event()
        server = create_server(settings, ready=up.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        assert up.wait(10)
        client = Client(base_url_of(taken))
        client.connection.request("POST", "/v1/messages", b'{"stream": true}', {"content-type": "application/json"})
        answer = client.connection.getresponse()
        assert answer.read1() == b"data: 1\n\n"
        server.should_exit = True
        go.set()
        assert answer.read() == b"data: 2\n\n"
        answer.close()
        client.connection.close()
        thread.join(20)
        assert not thread.is_alive()
