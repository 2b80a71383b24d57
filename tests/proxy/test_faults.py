"""Faults of ours, of the upstream and of the client; limits, locks and the end of the server."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sqlite3
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from danshari_bench.load.traffic import serve_app

from danshari.proxy.app import create_app
from danshari.proxy.server import base_url_of, bind_socket, create_server
from danshari.proxy.settings import Settings
from danshari.testing import Turn
from danshari.testing.fake_provider import ScriptedFailure, UpstreamRequest
from tests.support.proxy import JSON, SSE, Client, Pair, body_of, make_pair, raw_upstream, round_by_round, work
from tests.support.waiting import PATIENCE, wait_until


def test_a_fault_of_ours_costs_the_client_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a bug")

    monkeypatch.setattr("danshari.proxy.sessions.session.ProxySession.compact", broken)
    raw = json.dumps(body_of("anthropic", work(12, "anthropic"))).encode()
    status, headers, _ = pair.client.post("/v1/messages", raw)
    assert status == 200
    assert headers["x-danshari-fault"] == "RuntimeError: a bug"
    assert pair.upstream.requests[-1].raw == raw
    assert pair.metric("faults_total", where="deciding") == 1


def test_limits_are_said_in_the_providers_own_shape() -> None:
    for pair in make_pair(largest=1000, body_seconds=0.3):
        status, _, said = pair.client.post("/v1/messages", b"x" * 2000)
        assert status == 413
        assert json.loads(said)["error"]["type"] == "request_too_large"
        status, _, said = pair.client.post("/v1/chat/completions", b"x" * 2000)
        assert "danshari" in json.loads(said)["error"]["message"]
        place = urlsplit(pair.here)
        with socket.create_connection((place.hostname, place.port)) as slow:  # a client that never sends its body
            slow.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc")
            said = b""
            while b"did not arrive" not in said:
                said += slow.recv(10_000)


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
    assert pair.app.state.sessions.all_branches()[0].totals.billed["output"] == 20


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
        pair.upstream.script = lambda asked: (Turn(), ScriptedFailure(stall=PATIENCE))
        assert pair.client.post("/v1/responses", body_of("openai-responses", work(1, "openai-responses")))[0] == 504


def test_a_client_that_leaves_takes_the_upstream_along(pair: Pair) -> None:
    reached = threading.Event()

    def script(asked: UpstreamRequest) -> Any:
        reached.set()
        return Turn(), ScriptedFailure(stall=PATIENCE)

    pair.upstream.script = script
    client = pair.client
    client.connection.request("POST", "/v1/messages", json.dumps(body_of("anthropic", [{"role": "user", "content": "hi"}])),
                              {"content-type": "application/json"})  # fmt: skip
    assert reached.wait(PATIENCE)
    client.connection.close()
    wait_until(lambda: pair.metric("disconnects_total") == 1)
    wait_until(lambda: pair.metric("running") == 0)


def test_a_full_disk_does_not_stop_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in make_pair(archive=str(tmp_path / "a.db")):
        pair.app.state.sessions._archive.run_query(lambda base: base.execute("PRAGMA max_page_count = 1"))
        raw = json.dumps(body_of("anthropic", work(12, "anthropic"))).encode()
        status, headers, _ = pair.client.post("/v1/messages", raw)
        assert status == 200
        assert "full" in headers["x-danshari-fault"]
        assert pair.upstream.requests[-1].raw == raw


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
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE)
        connection.request(method, path, b"{}" if method == "POST" else None)
        answer = connection.getresponse()
        assert reached.wait(PATIENCE)
        answer.close()
        connection.close()
        assert left.wait(PATIENCE), "the upstream was not let go"


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
            wait_until(lambda: pair.metric("running") == 1)
            assert [pair.get("/healthz") for _ in range(10)] == [b"ok\n"] * 10
            assert answered == [], "what needs the archive waits, nothing else does"
        finally:
            other.execute("ROLLBACK")
            other.close()
        asking.join(PATIENCE)
        assert answered == [200]


def test_a_running_stream_is_let_finish_at_shutdown() -> None:
    go = threading.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await raw_upstream([(JSON, b"")])(scope, receive, send)
            return
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", SSE)]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.to_thread(go.wait, PATIENCE)
        await send({"type": "http.response.body", "body": b"data: 2\n\n"})

    with serve_app(slow) as there:
        settings = Settings(port=0, upstreams={"*": there}, archive=":memory:", drain_seconds=PATIENCE)
        taken, up = bind_socket(settings), threading.Event()
        server = create_server(settings, ready=up.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        assert up.wait(PATIENCE)
        client = Client(base_url_of(taken))
        client.connection.request("POST", "/v1/messages", b'{"stream": true}', {"content-type": "application/json"})
        answer = client.connection.getresponse()
        assert answer.read1() == b"data: 1\n\n"
        server.should_exit = True
        go.set()
        assert answer.read() == b"data: 2\n\n"
        answer.close()
        client.connection.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
