"""One exchange that may hop: the model's recalls are answered here until it says something for the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import aiohttp

from danshari.proxy.body.json_patch import rendered
from danshari.proxy.body.outgoing import Sending
from danshari.proxy.http.headers import answer_headers
from danshari.proxy.http.request import Call
from danshari.proxy.http.usage_watch import Watch, parsed
from danshari.proxy.recall.shape import Turn
from danshari.proxy.recall.sse import Events
from danshari.proxy.recall.store import MOST, Hop, Recalls

T = TypeVar("T")
Next = tuple[aiohttp.ClientResponse | None, bytes]
"""An answer, None if there is none, and what was read of it already."""
Again = Callable[[], Awaitable[Next]]
"""Decides anew with the hops that were added, and sends."""
Safely = Callable[[Callable[[], T], T], T]
"""Runs something of ours; on a fault it is counted and the second value holds."""


class Exchange:
    """Hands an answer back without its recalls; `again` is asked for the next one after each hop."""

    def __init__(self, call: Call, sending: Sending, recalls: Recalls, again: Again, safely: Safely[Any]) -> None:
        self._call, self._sending, self._recalls, self._again, self._safely = call, sending, recalls, again, safely
        self._hops: list[Hop] = []
        self.last: Mapping[str, Any] = {}
        """The usage of the last answer alone."""

    async def run(self, response: aiohttp.ClientResponse) -> Watch:
        """Hand back what the first answer and those after it say to the client."""
        streams = response.headers.get("content-type", "").startswith("text/event-stream")
        return await (self._streamed(response) if streams else self._whole(response))

    async def _next(self, turn: Turn | None) -> Next:
        """Answer the recalls of an answer; give the next one if the proxy alone could answer."""
        if turn is None or not turn.hidden or not turn.ended:
            return None, b""
        assert self._sending.body is not None
        messages, number, recalls = self._sending.body.messages, len(self._hops), self._recalls
        hop = await asyncio.to_thread(self._safely, lambda: recalls.answer(messages, turn, number), None)
        if hop is None:
            return None, b""
        self._hops.append(hop)
        return await self._again() if turn.hop and number <= MOST else (None, b"")

    def _forget(self) -> None:
        """Take the hops back: the client was told of a failure, and will ask anew."""
        for hop in self._hops:
            self._recalls.forget(hop)

    async def _whole(self, response: aiohttp.ClientResponse) -> Watch:
        """Hand one JSON answer back; as it is, unless something was hidden."""
        shape, earlier, turn, head = self._recalls.shape, list[Any](), None, b""
        while True:
            try:
                raw = head + await response.read()
            finally:
                response.close()
            answer = parsed(raw) if response.status == 200 else None
            known = answer if isinstance(answer, dict) else None
            turn = self._safely(lambda known=known: shape.turn(known) if known else None, None)  # type: ignore[misc]
            following, head = await self._next(turn)
            if following is None:
                break
            earlier.append(answer)
            response = following
        if self._call.status:  # the client was told already
            return Watch("")
        if turn is None and earlier:
            await asyncio.to_thread(self._forget)
        if turn is not None and (turn.hidden or earlier):
            text = raw.decode("utf-8", "replace").rstrip()
            shown = self._safely(
                lambda: rendered(text, (0, len(text)), answer, shape.visible(known or {}, earlier)), text
            )
            raw = shown.encode("utf-8", "surrogatepass")
        self.last = (known or {}).get("usage") or {}
        length = (b"content-length", str(len(raw)).encode())
        await self._call.start(response.status, [*_unsized(response), length])
        await self._call.write(raw, more=False)
        watch = Watch(response.headers.get("content-type", ""))
        watch.feed(raw)
        watch.close()
        return watch

    async def _streamed(self, response: aiohttp.ClientResponse) -> Watch:
        """Hand a stream back, event by event; after a fault of ours, the rest as it is."""
        shown: Any = self._safely(self._recalls.shape.stream, None)
        watch = Watch("text/event-stream")
        await self._call.start(response.status, _unsized(response))

        async def tell(made: bytes) -> None:
            if made:
                watch.feed(made)
                await self._call.write(made)

        while True:
            try:
                shown = await self._relayed(response, shown, tell)
            finally:
                response.close()
            if shown is None:
                break
            held = self._safely(shown.held, b"")
            turn = self._safely(shown.end, None)
            following, head_read = await self._next(turn)
            if turn is None or following is None:
                await tell(held if turn is None else self._safely(shown.closing, held))
                self.last = shown.last
                break
            await tell(turn.late)
            response = following
            if response.status != 200 or not response.headers.get("content-type", "").startswith("text/event-stream"):
                await tell(await self._failed(shown, response, head_read))
                break
        await self._call.write(b"", more=False)
        return watch

    async def _relayed(
        self, response: aiohttp.ClientResponse, shown: Any, tell: Callable[[bytes], Awaitable[None]]
    ) -> Any:
        """Show one answer's events; after a fault of ours the rest goes as it is, and None is given."""
        async for event in _events(response):
            made = None if shown is None else self._safely(partial(shown.feed, event), None)
            if made is None and shown is not None:
                await tell(self._safely(shown.held, b""))
                shown = None
            await tell(event if made is None else made)
        return shown

    async def _failed(self, shown: Any, response: aiohttp.ClientResponse, head: bytes) -> bytes:
        """Tell the client that a later answer failed, in its stream's own way, and take the hops back."""
        try:
            body = head + await response.read()
        finally:
            response.close()
        await asyncio.to_thread(self._forget)
        made: bytes = self._safely(lambda: shown.failed(body), b"")
        return made


def _unsized(response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """Give an answer's headers but its length, which what is hidden changes."""
    return [(k, v) for k, v in answer_headers(response) if k != b"content-length"]


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    cut = Events()
    async for chunk in response.content.iter_any():
        for event in cut.feed(chunk):
            yield event
    if rest := cut.rest():
        yield rest
