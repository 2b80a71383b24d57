"""A scripted upstream: answers in every wire format, rejects invalid requests, bills a simulated cache.

An ASGI application, so it runs behind any server or inside a test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.core.pricing import Prices
from danshari.formats import FORMATS, Format, find_format
from danshari.formats.script import Turn, TurnUsage
from danshari.replay.prompt_cache import PrefixCache

OK_TURN = Turn(text="ok")
UpstreamReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]
UpstreamSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamRequest:
    """One received request."""

    path: str
    format: str
    headers: Mapping[str, str]
    raw: bytes
    body: Mapping[str, Any]
    number: int
    """Requests before this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedFailure:
    """A scripted failure: an error status, a broken or delayed response, or garbage events."""

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


UpstreamScript = Callable[[UpstreamRequest], Turn | ScriptedFailure | tuple[Turn, ScriptedFailure]]


@dataclass(slots=True, kw_only=True)
class SessionBill:
    """What one session was billed."""

    requests: int = 0
    units: float = 0.0
    """Input tokens times their multiplier."""
    refused: int = 0
    problems: list[str] = field(default_factory=list)


class ScriptedUpstream:
    """Answers requests by a script, which may be changed at any time."""

    def __init__(
        self, script: UpstreamScript = lambda _: OK_TURN, *, prices: Prices | None = None, family: str = "o200k",
        window: int = 0, check: bool = True, record: bool = False, delay: float = 0.0, family_of: bool = False,
    ) -> None:  # fmt: skip
        """Set up the upstream.

        `window` is the largest request in tokens (0: unlimited), `check` rejects requests that break format
        rules, `record` keeps all requests, `delay` is seconds before an answer, `family_of` counts tokens
        by the request's model.
        """
        self.script, self.window, self.check, self.record, self.delay = script, window, check, record, delay
        self.prices, self.family, self.family_of = prices, family, family_of
        self.forgiven: set[tuple[str, str]] = set()
        """(rule, text) of problems that are not refused: those of recordings which broke a rule themselves."""
        self.requests: list[UpstreamRequest] = []
        """Every request, if `record`."""
        self.bills: dict[str, SessionBill] = {}
        """By the header `x-session`, else one for all."""
        self.count = self.running = self.left = 0
        """Requests so far, those running, and those whose client left."""
        self._caches: dict[str, PrefixCache] = {}

    async def __call__(self, scope: MutableMapping[str, Any], receive: UpstreamReceive, send: UpstreamSend) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _handle_lifespan(receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        raw = await _read_body(receive)
        path = str(scope["path"])
        wire = next((wire for wire in FORMATS.values() if wire.api.matches_path(path)), None)
        if scope["method"] != "POST" or wire is None:
            said = json.dumps({"path": path, "method": scope["method"], "bytes": len(raw)}).encode()
            await _send_json(send, 200, said, ((b"x-upstream", b"other"),))
            return
        self.running += 1
        try:
            await self._respond(path, wire, headers, raw, send)
        except (asyncio.CancelledError, ConnectionError):
            self.left += 1
            raise
        finally:
            self.running -= 1

    async def _respond(
        self, path: str, wire: Format, headers: Mapping[str, str], raw: bytes, send: UpstreamSend
    ) -> None:
        """Validate and bill one request, then send the scripted answer or failure."""
        try:
            body = json.loads(raw)
        except ValueError:
            await _send_error(send, wire, 400, "the body is no JSON")
            return
        asked = UpstreamRequest(path=path, format=wire.name, headers=headers, raw=raw, body=body, number=self.count)
        self.count += 1
        if self.record:
            self.requests.append(asked)
        usage, problem = self._bill_request(asked)
        if problem:
            await _send_error(send, wire, 400, problem)
            return
        found = self.script(asked)
        turn, trouble = (
            found
            if isinstance(found, tuple)
            else (OK_TURN, found)
            if isinstance(found, ScriptedFailure)
            else (found, ScriptedFailure())
        )
        if trouble.stall or self.delay:
            await asyncio.sleep(trouble.stall or self.delay)
        if trouble.status:
            await _send_error(send, wire, trouble.status, trouble.text, trouble.headers)
            return
        model = wire.api.model_of(path, body)
        if wire.api.is_stream(path, body):
            events = list(wire.script.stream(turn, usage, model=model, number=asked.number))
            await _send_stream(send, events, trouble)
        else:
            made = json.dumps(wire.script.response(turn, usage, model=model, number=asked.number)).encode()
            await _send_json(send, 200, made, cut=trouble.cut)

    def _bill_request(self, asked: UpstreamRequest) -> tuple[TurnUsage, str]:
        """Bill a request and return its usage and the reason a provider would reject it (empty: none)."""
        wire = find_format(asked.format)
        messages = asked.body.get(wire.key)
        name = asked.headers.get("x-session", "")
        bill = self.bills.setdefault(name, SessionBill())
        bill.requests += 1
        if not isinstance(messages, list):
            return {"fresh": 10, "cached": 0, "written": 0, "output": 5}, ""
        problems = wire.check(messages) if self.check else []
        problems = [p for p in problems if (p.rule, p.text) not in self.forgiven]
        if problems:
            bill.refused += 1
            bill.problems.append(str(problems[0]))
            return {}, str(problems[0])
        return self._price_request(wire, name, bill, messages, asked)

    def _price_request(
        self, wire: Format, name: str, bill: SessionBill, messages: Sequence[Any], asked: UpstreamRequest
    ) -> tuple[TurnUsage, str]:
        """Simulate the cache for a request, add its cost to the bill and return usage and rejection."""
        row = data.find_model(wire.api.model_of(asked.path, asked.body) or None)
        family = row.family if self.family_of else self.family
        cache = self._caches.setdefault(name, PrefixCache(wire, data.load_estimator(family)))
        cache.forget_sizes()
        sent = cache.send(messages)
        if self.window and sent.tokens > self.window:
            bill.refused += 1
            return {}, f"prompt is too long: {sent.tokens:.0f} tokens > {self.window} maximum"
        prices = self.prices or row.prices
        bill.units += sent.cost(prices)
        hit = round(sent.hit_tokens(prices))
        return {"fresh": 0, "cached": hit, "written": round(sent.tokens) - hit, "output": 20}, ""


async def _handle_lifespan(receive: UpstreamReceive, send: UpstreamSend) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _read_body(receive: UpstreamReceive) -> bytes:
    parts, more = [], True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _send_json(
    send: UpstreamSend, status: int, body: bytes, extra: Sequence[tuple[bytes, bytes]] = (), cut: int = -1
) -> None:
    length = str(len(body)).encode()
    head = [(b"content-type", b"application/json"), (b"content-length", length), (b"request-id", b"req_1"), *extra]
    await send({"type": "http.response.start", "status": status, "headers": head})
    if cut >= 0:
        await send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        raise ConnectionResetError("the script breaks off here")
    await send({"type": "http.response.body", "body": body})


async def _send_error(
    send: UpstreamSend, wire: Format, status: int, text: str, extra: Sequence[tuple[str, str]] = ()
) -> None:
    body = wire.api.render_error(status, text)
    await _send_json(send, status, body, [(k.encode(), v.encode()) for k, v in extra])


async def _send_stream(send: UpstreamSend, events: Sequence[bytes], trouble: ScriptedFailure) -> None:
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
