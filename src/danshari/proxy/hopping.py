"""One exchange that may hop: the model's recalls are answered here until it says something for the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp

from danshari.proxy.answers import Watch, parsed
from danshari.proxy.calls import Call
from danshari.proxy.headers import answer_headers
from danshari.proxy.hidden.events import Events
from danshari.proxy.plans import Sending
from danshari.proxy.recalls import Recalls
from danshari.proxy.splicing import rendered

Again = Callable[[], Awaitable[aiohttp.ClientResponse | None]]
"""Decides anew with the hops that were added, and sends; None if the upstream cannot be reached."""


class Exchange:
    """Hands an answer back without its recalls; `again` is asked for the next one after each hop."""

    def __init__(self, call: Call, sending: Sending, recalls: Recalls, again: Again) -> None:
        self._call, self._sending, self._recalls, self._again = call, sending, recalls, again
        self.hops = 0

    async def run(self, response: aiohttp.ClientResponse) -> Watch:
        """Hand back what the first answer and those after it say to the client."""
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return await self._streamed(response)
        return await self._whole(response)

    async def _hop(self, turn: Any) -> None:
        assert self._sending.body is not None
        await asyncio.to_thread(self._recalls.answer, self._sending.body.messages, turn, self.hops)
        self.hops += 1

    async def _whole(self, response: aiohttp.ClientResponse) -> Watch:
        """Hand one JSON answer back."""
        shape, earlier = self._recalls.shape, list[Any]()
        while True:
            text = (await response.read()).decode("utf-8", "replace")
            answer = parsed(text.encode())
            turn = shape.turn(answer) if isinstance(answer, dict) and response.status == 200 else None
            if turn is None or not turn.hidden:
                break
            await self._hop(turn)
            following = await self._again() if turn.hop and self.hops <= 5 else None
            if following is None:
                if self._call.status:  # the client was told already
                    return Watch("")
                break
            earlier.append(answer)
            response.close()
            response = following
        if turn is not None and (turn.hidden or earlier):
            text = rendered(text, (0, len(text.rstrip())), answer, shape.visible(answer, earlier))
        body = text.encode("utf-8", "surrogatepass")
        head = [(k, v) for k, v in answer_headers(response) if k != b"content-length"]
        await self._call.start(response.status, [*head, (b"content-length", str(len(body)).encode())])
        await self._call.write(body, more=False)
        watch = Watch(response.headers.get("content-type", ""))
        watch.feed(body)
        watch.close()
        response.close()
        return watch

    async def _streamed(self, response: aiohttp.ClientResponse) -> Watch:
        """Hand a stream back, event by event."""
        shown, watch = self._recalls.shape.stream(), Watch("text/event-stream")
        head = [(k, v) for k, v in answer_headers(response) if k != b"content-length"]
        await self._call.start(response.status, head)
        while True:
            async for event in _events(response):
                if made := shown.feed(event):
                    watch.feed(made)
                    await self._call.write(made)
            turn = shown.end()
            if turn.hidden:
                await self._hop(turn)
            following = await self._again() if turn.hop and self.hops <= 5 else None
            response.close()
            if following is None or not following.headers.get("content-type", "").startswith("text/event-stream"):
                break
            response = following
        closing = shown.closing()
        watch.feed(closing)
        await self._call.write(closing)
        await self._call.write(b"", more=False)
        return watch


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    cut = Events()
    async for chunk in response.content.iter_any():
        for event in cut.feed(chunk):
            yield event
    if rest := cut.rest():
        yield rest
