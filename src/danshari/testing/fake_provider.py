"""A scripted upstream: answers in every wire shape, refuses what providers refuse, simulates the cache and its bill.

An ASGI application, so that it runs behind any server, in a process of its own or inside a test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.core.pricing import Prices
from danshari.formats import Format, named
from danshari.replay.prompt_cache import PrefixCache
from danshari.summarizers.endpoint import PATHS
from danshari.testing import Turn
from danshari.testing import fake_responses as speaking

OK = Turn(text="ok")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came in."""

    path: str
    format: str
    headers: Mapping[str, str]
    raw: bytes
    body: Mapping[str, Any]
    number: int
    """Requests before this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something other than an answer."""

    status: int = 0
    """Answer this status with `text`; 0: no."""
    text: str = ""
    cut: int = -1
    """Break off after so many events; -1: no."""
    stall: float = 0.0
    """Seconds to wait before the first byte."""
    garbage: bool = False
    """Send events that are none in the middle of the stream."""
    headers: tuple[tuple[str, str], ...] = ()


Script = Callable[[Asked], Turn | Trouble | tuple[Turn, Trouble]]


@dataclass(slots=True, kw_only=True)
class Bill:
    """What one session was billed."""

    requests: int = 0
    units: float = 0.0
    """Input tokens times their multiplier."""
    refused: int = 0
    problems: list[str] = field(default_factory=list)


class ScriptedUpstream:
    """Answers by a script; the script may be changed at any time."""

    def __init__(
        self, script: Script = lambda _: OK, *, prices: Prices | None = None, family: str = "o200k",
        window: int = 0, check: bool = True, record: bool = False, delay: float = 0.0, family_of: bool = False,
    ) -> None:  # fmt: skip
        self.script, self.window, self.check, self.record, self.delay = script, window, check, record, delay
        self.prices, self.family, self.family_of = prices, family, family_of
        self.forgiven: set[tuple[str, str]] = set()
        """(rule, text) of problems that are not refused: those of recordings which broke a rule themselves."""
        self.requests: list[Asked] = []
        """Every request, if `record`."""
        self.bills: dict[str, Bill] = {}
        """By the header `x-session`, else one for all."""
        self.count = self.running = self.left = 0
        """Requests so far, those running, and those whose client left."""
        self._caches: dict[str, PrefixCache] = {}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        raw = await _read(receive)
        path = str(scope["path"])
        wire = next((name for name, suffix in PATHS.items() if path.endswith(suffix)), "")
        if scope["method"] != "POST" or not wire:
            said = json.dumps({"path": path, "method": scope["method"], "bytes": len(raw)}).encode()
            await _whole(send, 200, said, ((b"x-upstream", b"other"),))
            return
        self.running += 1
        try:
            await self._answer(path, wire, headers, raw, send)
        except (asyncio.CancelledError, ConnectionError):
            self.left += 1
            raise
        finally:
            self.running -= 1

    async def _answer(self, path: str, wire: str, headers: Mapping[str, str], raw: bytes, send: Send) -> None:
        try:
            body = json.loads(raw)
        except ValueError:
            await _error(send, wire, 400, "the body is no JSON")
            return
        asked = Asked(path=path, format=wire, headers=headers, raw=raw, body=body, number=self.count)
        self.count += 1
        if self.record:
            self.requests.append(asked)
        usage, problem = self._billed(asked)
        if problem:
            await _error(send, wire, 400, problem)
            return
        found = self.script(asked)
        turn, trouble = (
            found if isinstance(found, tuple) else (OK, found) if isinstance(found, Trouble) else (found, Trouble())
        )
        if trouble.stall or self.delay:
            await asyncio.sleep(trouble.stall or self.delay)
        if trouble.status:
            await _error(send, wire, trouble.status, trouble.text, trouble.headers)
            return
        model = str(body.get("model", ""))
        if body.get("stream"):
            await _streamed(send, list(speaking.stream(wire, turn, usage, model=model, number=asked.number)), trouble)
        else:
            made = json.dumps(speaking.answer(wire, turn, usage, model=model, number=asked.number)).encode()
            await _whole(send, 200, made, cut=trouble.cut)

    def _billed(self, asked: Asked) -> tuple[speaking.Usage, str]:
        """Book a request: give its usage, and what a provider would refuse it for."""
        wire = named(asked.format)
        messages = asked.body.get(wire.key)
        name = asked.headers.get("x-session", "")
        bill = self.bills.setdefault(name, Bill())
        bill.requests += 1
        if not isinstance(messages, list):
            return {"fresh": 10, "cached": 0, "written": 0, "output": 5}, ""
        problems = wire.check(messages) if self.check else []
        problems = [p for p in problems if (p.rule, p.text) not in self.forgiven]
        if problems:
            bill.refused += 1
            bill.problems.append(str(problems[0]))
            return {}, str(problems[0])
        return self._priced(wire, name, bill, messages, asked)

    def _priced(
        self, wire: Format, name: str, bill: Bill, messages: Sequence[Any], asked: Asked
    ) -> tuple[speaking.Usage, str]:
        row = data.model(str(asked.body.get("model") or "") or None)
        family = row.family if self.family_of else self.family
        cache = self._caches.setdefault(name, PrefixCache(wire, data.estimator(family)))
        cache.forget()
        sent = cache.send(messages)
        if self.window and sent.tokens > self.window:
            bill.refused += 1
            return {}, f"prompt is too long: {sent.tokens:.0f} tokens > {self.window} maximum"
        prices = self.prices or row.prices
        bill.units += sent.cost(prices)
        hit = round(sent.hit(prices))
        return {"fresh": 0, "cached": hit, "written": round(sent.tokens) - hit, "output": 20}, ""


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _read(receive: Receive) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _whole(
    send: Send, status: int, body: bytes, extra: Sequence[tuple[bytes, bytes]] = (), cut: int = -1
) -> None:
    length = str(len(body)).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", length), (b"request-id", b"req_1"), *extra]
    await send({"type": "http.response.start", "status": status, "headers": head})
    if cut >= 0:
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        raise ConnectionResetError("the script breaks off here")
    await send({"type": "http.response.body", "body": body})


async def _error(send: Send, wire: str, status: int, text: str, extra: Sequence[tuple[str, str]] = ()) -> None:
    kind = {429: "rate_limit_error", 529: "overloaded_error", 400: "invalid_request_error"}.get(status, "api_error")
    error: dict[str, Any] = {"type": kind, "message": text}
    body = (
        {"type": "error", "error": error} if wire == "anthropic" else {"error": {**error, "param": None, "code": None}}
    )
    await _whole(send, status, json.dumps(body).encode(), [(k.encode(), v.encode()) for k, v in extra])


async def _streamed(send: Send, events: Sequence[bytes], trouble: Trouble) -> None:
    head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    head += [(k.encode(), v.encode()) for k, v in trouble.headers]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for n, part in enumerate(events):
        if n == trouble.cut:
            raise ConnectionResetError("the script breaks off here")
        if trouble.garbage and n == 2:
            await send({"type": "http.response.body", "body": b"data: {not json\n\n: a comment\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
