"""Answer the model's recall calls in the proxy, and relay only what is left for the client to see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import aiohttp

from danshari.formats.recall import ResponseParts
from danshari.formats.sse import EventSplitter, parse_json_or_none
from danshari.proxy.body.json_patch import splice_value
from danshari.proxy.http.request import ClientRequest
from danshari.proxy.http.upstream import response_headers
from danshari.proxy.http.usage_watch import UsageWatch
from danshari.proxy.recall.store import MAX_RECALL_HOPS, RecallHop, SessionRecalls

_T = TypeVar("_T")
NextResponse = tuple[aiohttp.ClientResponse | None, bytes]
"""An answer, None if there is none, and what was read of it already."""
SendAgain = Callable[[], Awaitable[NextResponse]]
"""Decides anew with the hops that were added, and sends."""
RunSafely = Callable[[Callable[[], _T], _T], _T]
"""Runs something of ours; on a fault it is counted and the second value holds."""


class RecallLoop:
    """Relays one response, and answers its recalls until the model produces something for the client.

    Each hop runs the recalls of one response and calls `again`, which compacts and sends the request
    once more.
    """

    def __init__(
        self,
        request: ClientRequest,
        messages: list[Any],
        recalls: SessionRecalls,
        again: SendAgain,
        safely: RunSafely[Any],
    ) -> None:
        self._request, self._messages, self._recalls = request, messages, recalls
        self._again, self._safely, self._api = again, safely, recalls.api
        self.hops: list[RecallHop] = []
        """The recalls that were answered so far."""
        self.last: Mapping[str, Any] = {}
        """The usage of the last answer alone."""

    async def run(self, response: aiohttp.ClientResponse, head: bytes = b"") -> UsageWatch:
        """Relay the first response and those that follow recall hops; return the usage that was read.

        `head` are bytes of the first that were already read.
        """
        streams = response.headers.get("content-type", "").startswith("text/event-stream")
        return await (self._relay_stream(response, head) if streams else self._relay_json(response, head))

    async def _next_response(self, turn: ResponseParts | None) -> NextResponse:
        """Run the recalls of a response; return the next response if the client has no call of its own to answer."""
        if turn is None or not turn.hidden or not turn.ended:
            return None, b""
        messages, number, recalls = self._messages, len(self.hops), self._recalls
        hop = await asyncio.to_thread(self._safely, lambda: recalls.run_hop(messages, turn, number), None)
        if hop is None:
            return None, b""
        self.hops.append(hop)
        return await self._again() if turn.is_hop and number <= MAX_RECALL_HOPS else (None, b"")

    async def _confirm_hops(self, last: ResponseParts | None) -> None:
        """Record which answer the hops led to."""
        if last is not None and self.hops:
            await asyncio.to_thread(self._safely, lambda: self._recalls.confirm(self.hops, last), None)

    def _forget_hops(self) -> None:
        """Remove the stored hops: the client got an error and will send its request again."""
        for hop in self.hops:
            self._recalls.forget(hop)

    async def _relay_json(self, response: aiohttp.ClientResponse, head: bytes) -> UsageWatch:
        """Relay a JSON response; its bytes are unchanged unless something was hidden."""
        format_, earlier, turn = self._recalls.format, list[Any](), None
        while True:
            try:
                raw = head + await response.read()
            finally:
                response.close()
            answer = parse_json_or_none(raw) if response.status == 200 else None
            known = answer if isinstance(answer, dict) else None
            turn = self._safely(lambda known=known: format_.parse_response(known) if known else None, None)  # type: ignore[misc]
            following, head = await self._next_response(turn)
            if following is None:
                await self._confirm_hops(turn)
                break
            earlier.append(answer)
            response = following
        if self._request.status:  # the client was told already
            return UsageWatch(None, "")
        if turn is None and earlier:
            await asyncio.to_thread(self._forget_hops)
        if turn is not None and (turn.hidden or earlier):
            text = raw.decode("utf-8", "replace").rstrip()
            shown = self._safely(
                lambda: splice_value(text, (0, len(text)), answer, format_.visible_response(known or {}, earlier)), text
            )
            raw = shown.encode("utf-8", "surrogatepass")
        self.last = self._api.response_usage(known or {})
        length = (b"content-length", str(len(raw)).encode())
        await self._request.start(response.status, [*_headers_without_length(response), length])
        await self._request.write(raw, more=False)
        watch = UsageWatch(self._api, response.headers.get("content-type", ""))
        watch.feed(raw)
        watch.close()
        return watch

    async def _relay_stream(self, response: aiohttp.ClientResponse, head: bytes) -> UsageWatch:
        """Relay an event stream; after an internal error the remaining events pass through unfiltered."""
        shown: Any = self._safely(self._recalls.format.stream_filter, None)
        watch = UsageWatch(self._api, "text/event-stream")
        await self._request.start(response.status, _headers_without_length(response))

        async def send_to_client(made: bytes) -> None:
            """Send bytes to the client and to the usage watch."""
            if made:
                watch.feed(made)
                await self._request.write(made)

        while True:
            try:
                shown = await self._relay_events(response, head, shown, send_to_client)
            finally:
                response.close()
            if shown is None:
                break
            held = self._safely(shown.pending_events, b"")
            turn = self._safely(shown.end_response, None)
            following, head = await self._next_response(turn)
            if turn is None or following is None:
                await self._confirm_hops(turn)
                await send_to_client(held if turn is None else self._safely(shown.closing_events, held))
                self.last = shown.last
                break
            await send_to_client(turn.late)
            response = following
            if response.status != 200 or not response.headers.get("content-type", "").startswith("text/event-stream"):
                await send_to_client(await self._report_failure(shown, response, head))
                break
        await self._request.write(b"", more=False)
        return watch

    async def _relay_events(
        self, response: aiohttp.ClientResponse, head: bytes, shown: Any, tell: Callable[[bytes], Awaitable[None]]
    ) -> Any:
        """Relay one response's events through the filter; return the filter.

        After an internal error the remaining events pass through unfiltered, and None is returned.
        """
        async for event in _read_events(response, head):
            made = None if shown is None else self._safely(partial(shown.feed, event), None)
            if made is None and shown is not None:
                await tell(self._safely(shown.pending_events, b""))
                shown = None
            await tell(event if made is None else made)
        return shown

    async def _report_failure(self, shown: Any, response: aiohttp.ClientResponse, head: bytes) -> bytes:
        """Remove the stored hops, and return the error of a later response as an event for the client's stream."""
        try:
            body = head + await response.read()
        finally:
            response.close()
        await asyncio.to_thread(self._forget_hops)
        made: bytes = self._safely(lambda: shown.error_event(body), b"")
        return made


def _headers_without_length(response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """Return the response's headers without content-length, which changes when calls are hidden."""
    return [(k, v) for k, v in response_headers(response) if k != b"content-length"]


async def _read_events(response: aiohttp.ClientResponse, head: bytes) -> AsyncIterator[bytes]:
    """Yield the response's server-sent events one by one; `head` was read already."""
    cut = EventSplitter()
    for event in cut.feed(head):
        yield event
    async for chunk in response.content.iter_any():
        for event in cut.feed(chunk):
            yield event
    if rest := cut.remainder():
        yield rest
