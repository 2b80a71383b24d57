"""A scripted upstream, the proxy before it, a plain client, and sessions to send."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from danshari_bench.load.traffic import serve_app

from danshari.formats import find_format
from danshari.proxy.app import create_app
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn, conversation
from danshari.testing.fake_provider import ScriptedUpstream
from tests.support.waiting import PATIENCE

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
    """A request body as a client of this format would write it."""
    return {
        "model": "claude-opus-4-5" if format_name == "anthropic" else "gpt-5",
        find_format(format_name).key: messages,
        **more,
    }


OPEN: list[http.client.HTTPConnection] = []


class Client:
    """Plain requests, byte for byte."""

    def __init__(self, base: str) -> None:
        place = urlsplit(base)
        self.connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        OPEN.append(self.connection)

    def post(
        self, path: str, body: Any, *, once_sent: Callable[[], None] | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a body; give status, headers and body of the answer. `once_sent` is called before it is read."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        self.connection.request("POST", path, raw, sent)
        if once_sent:
            once_sent()
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
        """A new connection to the proxy."""
        return Client(self.here)

    def get(self, path: str) -> bytes:
        """One of the proxy's own pages."""
        connection = self.client.connection
        connection.request("GET", path)
        answer = connection.getresponse()
        try:
            return answer.read()
        finally:
            answer.close()

    def metric(self, name: str, **labels: str) -> float:
        found = self.app.state.relay.counts.registry.get_sample_value(f"danshari_{name}", labels)
        return found or 0.0


class HeldUpstream(ScriptedUpstream):
    """An upstream that holds the requests `holds` picks until `released` is set."""

    def __init__(self, holds: Callable[[bytes], bool], **options: Any) -> None:
        super().__init__(record=True, **options)
        self.holds, self.held, self.released = holds, threading.Event(), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Read the body first; whoever holds it back hands it on as it came."""
        if scope["type"] == "lifespan":
            await super().__call__(scope, receive, send)
            return
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        raw = b"".join(parts)
        if self.holds(raw) and not self.released.is_set():
            self.held.set()
            await asyncio.to_thread(self.released.wait, PATIENCE)

        async def replayed() -> Any:
            return {"type": "http.request", "body": raw, "more_body": False}

        await super().__call__(scope, replayed, send)


def make_pair(*, upstream: ScriptedUpstream | None = None, **settings: Any) -> Iterator[Pair]:
    """Serve an upstream and a proxy with these settings before it, until the iterator goes on."""
    upstream = upstream or ScriptedUpstream(record=True)
    with serve_app(upstream) as there:
        app = create_app(Settings(**{"upstreams": {"*": there}, "archive": ":memory:", **settings}))
        with serve_app(app) as here:
            yield Pair(upstream, there, here, app)


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
