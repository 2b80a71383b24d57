"""Bodies as today's clients send them: compressed, with an offer of another protocol, refused inside a stream."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from danshari_bench.load.traffic import serve_app
from hypothesis import given
from hypothesis import strategies as st

from danshari.proxy.http.encoding import CODINGS, read_compressed
from danshari.proxy.http.request import BodyTooLarge
from danshari.proxy.server import base_url_of, bind_socket, create_server
from danshari.proxy.settings import Settings
from tests.support.proxy import JSON, PATHS, SSE, Client, body_of, make_pair, raw_upstream, work
from tests.support.waiting import PATIENCE

ANSWER = {"id": "r", "object": "chat.completion", "choices": [], "usage": {}}


class Recorder:
    """An upstream that keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await raw_upstream([(JSON, b"{}")])(scope, receive, send)
            return
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        self.bodies.append(b"".join(parts))
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", JSON)]})
        await send({"type": "http.response.body", "body": json.dumps(ANSWER).encode()})


def encode(data: bytes, codings: list[str]) -> bytes:
    for name in codings:
        data = CODINGS[name].encode(data)
    return data


codings_of_clients = st.lists(st.sampled_from(sorted(CODINGS)), min_size=1, max_size=2)


@given(data=st.binary(max_size=3000), codings=codings_of_clients)
def test_what_was_compressed_is_read_and_written_in_kind(data: bytes, codings: list[str]) -> None:
    sent = encode(data, codings)
    read = read_compressed(sent, ", ".join(codings).upper(), 10_000)
    assert read.plain == data
    assert read.write(data) == sent
    assert read_compressed(read.write(data + b"!"), ",".join(codings), 10_000).plain == data + b"!"


@given(data=st.binary(max_size=300), codings=codings_of_clients, cut=st.integers(0, 400))
def test_damaged_bodies_are_told_as_such(data: bytes, codings: list[str], cut: int) -> None:
    for raw in (data, encode(data, codings)[:cut]):
        with contextlib.suppress(ValueError, BodyTooLarge):
            assert read_compressed(raw, ",".join(codings), 10_000).plain == data


@pytest.mark.parametrize("name", sorted(CODINGS))
def test_a_bomb_is_not_unpacked(name: str) -> None:
    bomb = encode(bytes(64_000_000), [name])
    with pytest.raises(BodyTooLarge):
        read_compressed(bomb, name, 100_000)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd", "br"])
def test_a_compressed_request_is_compacted_and_sent_on_compressed(coding: str) -> None:
    recorder = Recorder()
    body = json.dumps(body_of("openai-chat", work(8, "openai-chat"))).encode()
    for off in (False, True):
        with serve_app(recorder) as there:
            for pair in make_pair(upstream=recorder, upstreams={"*": there}, off=off):  # type: ignore[arg-type]
                sent = encode(body, [coding])
                status, told, _ = pair.client.post(PATHS["openai-chat"], sent, content_encoding=coding)
        read = read_compressed(recorder.bodies[-1], recorder.headers[-1]["content-encoding"], 10_000_000).plain
        assert status == 200
        assert recorder.headers[-1]["content-encoding"] == coding
        assert (len(read) < len(body)) is not off
        assert (recorder.bodies[-1] == sent) is off
        assert ("x-danshari-untouched" in told) is off


@contextlib.contextmanager
def served(settings: Settings) -> Iterator[str]:
    """Serve the proxy as the command line does; yield its address."""
    taken, ready = bind_socket(settings), threading.Event()
    server = create_server(settings, ready=ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
    thread.start()
    try:
        assert ready.wait(PATIENCE)
        yield base_url_of(taken)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def raw_answer(base: str, data: bytes, pieces: int = 1) -> bytes:
    """Send bytes on a new connection, in several pieces, and return the beginning of the answer."""
    place = urlsplit(base)
    with socket.create_connection((place.hostname, place.port), timeout=PATIENCE) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        step = max(len(data) // pieces, 1)
        for at in range(0, len(data), step):
            line.sendall(data[at : at + step])
        return line.recv(65_536)


@pytest.mark.parametrize("pieces", [1, 7, 60])
@pytest.mark.parametrize("chunked", [False, True])
def test_an_offer_of_another_protocol_costs_no_body(pieces: int, chunked: bool) -> None:
    recorder = Recorder()
    with serve_app(recorder) as there, served(Settings(upstreams={"*": there}, archive=":memory:", port=0)) as here:
        body = json.dumps(body_of("openai-chat", [{"role": "user", "content": "Hello."}])).encode()
        length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
        sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if chunked else body
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk\r\nContent-Type: application/json\r\n"
        )
        for _ in range(2):
            answer = raw_answer(here, head + length + b"\r\n\r\n" + sent, pieces)
            assert answer.startswith(b"HTTP/1.1 200")
            assert json.loads(recorder.bodies[-1]) == json.loads(body)
    assert not {"upgrade", "http2-settings", "x-danshari-upgrade"} & set(recorder.headers[-1])


def test_web_sockets_are_refused_so_that_clients_fall_back() -> None:
    recorder = Recorder()
    with serve_app(recorder) as there, served(Settings(upstreams={"*": there}, archive=":memory:", port=0)) as here:
        head = (
            b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Authorization: Bearer sk-secret\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Version: 13\r\n\r\n"
        )
        assert raw_answer(here, head).startswith(b"HTTP/1.1 426")
        assert Client(here).post("/v1/chat/completions", body_of("openai-chat", []))[0] == 200
    assert [headers for headers in recorder.headers if "sec-websocket-key" in headers] == []


REFUSALS = {
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "too long"}}},
    ],
    "anthropic": [{"type": "error", "error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}],
    "openai-chat": [
        {"error": {"code": 400, "message": "request (9000 tokens) exceeds the available context size (8192"}}
    ],
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_stream_that_begins_with_a_refusal_is_rescued(name: str) -> None:
    refusal = b"".join(b"event: x\ndata: %s\n\n" % json.dumps(event).encode() for event in REFUSALS[name])
    fine = b'event: x\ndata: {"type": "response.output_text.delta", "delta": "fine"}\n\n'
    with serve_app(raw_upstream([(SSE, refusal), (SSE, fine)])) as there:
        for pair in make_pair(upstreams={"*": there}):
            asked = body_of(name, work(12, name), stream=True)
            status, told, said = pair.client.post(PATHS[name], asked)
            assert (status, said) == (200, fine)
            assert "x-danshari-rescued" in told


def test_a_stream_that_begins_as_usual_keeps_its_bytes() -> None:
    usual = b'event: x\ndata: {"type": "response.created"}\n\n: a comment\n\nevent: y\ndata: {"delta": "error"}\n\n'
    with serve_app(raw_upstream([(SSE, usual)])) as there:
        for pair in make_pair(upstreams={"*": there}):
            asked = body_of("openai-responses", work(3, "openai-responses"), stream=True)
            assert pair.client.post(PATHS["openai-responses"], asked)[2] == usual
