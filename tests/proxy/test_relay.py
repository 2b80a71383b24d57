"""Nobody can tell that the proxy is there: bytes, headers, events and errors pass as they are."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest
from danshari_bench.load.traffic import serve_app
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from danshari.formats import find_format
from danshari.proxy.app import create_app
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn
from danshari.testing.fake_provider import ScriptedFailure
from tests.support.proxy import JSON, PATHS, SSE, Client, Pair, body_of, make_pair, raw_upstream
from tests.support.recalls import TOOL


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
    parts = list(find_format("anthropic").script.stream(Turn(text="one two"), dict.fromkeys(("fresh", "cached", "written", "output"), 1),
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
    made = json.dumps(find_format("anthropic").script.response(Turn(text="x" * 500), {"fresh": 7, "cached": 2, "written": 0, "output": 5},
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
            assert app.state.sessions.all_branches()[0].totals.billed == {
                "fresh": 7,
                "cached": 2,
                "written": 0,
                "output": 5,
            }


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b"\xff\xfe", b'{"messages":[1,]}', b"null",
                                 b'{"messages":[{"role":"user"}],"messages":[]}', b"[" * 100_000])  # fmt: skip
def test_what_is_no_request_goes_upstream_as_it_is(pair: Pair, raw: bytes) -> None:
    direct, through = (Client(base).post("/v1/messages", raw) for base in (pair.there, pair.here))
    assert through[0] == direct[0]
    assert through[2] == direct[2] or b"msg_" in direct[2]


def test_http_1_0_and_expect(pair: Pair) -> None:
    place, raw = urlsplit(pair.here), json.dumps(body_of("anthropic", [{"role": "user", "content": "hi"}])).encode()
    head = b"POST /v1/messages HTTP/%s\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%s\r\n"
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
        assert "known: anthropic, chatgpt, google, mine, openai" in json.loads(said)["error"]["message"]


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
