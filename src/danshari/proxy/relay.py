"""The ASGI application that compacts a request, sends it upstream and relays the response as it arrives."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypeVar

import aiohttp

from danshari.errors import ArgumentError
from danshari.proxy.access import refusal
from danshari.proxy.deciding import RequestDecider, outgoing_headers, run_by_size
from danshari.proxy.http.overflow import (
    MAX_ERROR_BYTES,
    OVERFLOW_STATUSES,
    ContextOverflow,
    parse_overflow,
    parse_stream_overflow,
)
from danshari.proxy.http.request import (
    AsgiReceive,
    AsgiScope,
    AsgiSend,
    BodyTooLarge,
    ClientGone,
    ClientRequest,
    run_until_disconnect,
)
from danshari.proxy.http.upstream import (
    UpstreamClient,
    UpstreamTarget,
    choose_upstream,
    decompress_beginning,
    read_beginning,
    read_stream_opening,
    upstream_headers,
)
from danshari.proxy.http.usage_watch import UsageWatch
from danshari.proxy.indexer import BackgroundIndexer
from danshari.proxy.observe.accounting import TraceSpan, UsageRecorder, trace_request
from danshari.proxy.recall.loop import RecallLoop
from danshari.proxy.recall.store import SessionRecalls
from danshari.proxy.sessions.registry import SessionRegistry
from danshari.proxy.sessions.session import OutgoingRequest
from danshari.proxy.settings import Settings

_T = TypeVar("_T")
_log = logging.getLogger("danshari.proxy")
_MAX_INLINE_BYTES = 4_000
"""Bytes of a request up to which it is decided on at once; larger ones in a thread, so that streams go on."""


class Relay:
    """The ASGI application that forwards requests; one HTTP client serves all upstreams."""

    def __init__(
        self, settings: Settings, sessions: SessionRegistry, recorder: UsageRecorder, indexer: BackgroundIndexer
    ) -> None:
        self.settings, self.sessions, self.recorder, self.indexer = settings, sessions, recorder, indexer
        self.metrics = recorder.metrics
        self.upstream = UpstreamClient(settings, recorder.metrics)
        self.decider = RequestDecider(settings, sessions, recorder, self.upstream)
        self._running = 0

    async def open(self) -> None:
        """Create the connection pool; call it on the event loop that serves."""
        await self.upstream.open()

    async def close(self) -> None:
        """Stop indexing and close the connection pool."""
        await self.indexer.close()
        await self.upstream.close()

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Handle one request, within the limit on concurrent requests."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "this proxy speaks HTTP only"})
            return
        request = ClientRequest(scope, receive, send)
        if self._running >= self.settings.concurrency:
            await request.refuse(503, f"{self._running} requests are running already: try again shortly")
            return
        self._running += 1
        self.metrics.running.inc()
        try:
            await self._answer(request)
        finally:
            self._running -= 1
            self.metrics.running.dec()
            self.metrics.requests.labels(request.wire.name if request.wire else "other", str(request.status)).inc()

    async def _answer(self, request: ClientRequest) -> None:
        """Check who asks, and handle a request within its limits; errors are sent in the provider's format."""
        if refused := refusal(self.settings, request.headers):
            await request.refuse(*refused)
            return
        if request.wants_websocket:
            await request.refuse(426, "this proxy speaks HTTP only: send the request as a POST")
            return
        try:
            target = choose_upstream(request, self.settings.upstreams)
            if request.wire is None:
                if not request.has_body:
                    await request.body(0, self.settings.body_seconds)
                await run_until_disconnect(request, self._pass_through(request, target))
                return
            raw = await request.body(self.settings.largest, self.settings.body_seconds)
            await run_until_disconnect(request, self._compact_and_send(request, target, raw))
        except ArgumentError as error:
            await request.refuse(400, str(error))
        except BodyTooLarge:
            await request.refuse(413, f"the request has more than {self.settings.largest:,} bytes")
        except TimeoutError:
            await request.refuse(
                400, f"the request's body did not arrive within {self.settings.body_seconds:g} seconds"
            )
        except ClientGone:
            self.metrics.disconnects.inc()

    async def _pass_through(self, request: ClientRequest, target: UpstreamTarget) -> None:
        """Pass a request through unchanged, streaming its body."""
        headers = upstream_headers(request, {}, encodings="any")
        response = await self.upstream.send(request, target, headers, request.parts() if request.has_body else None)
        if response is not None:
            try:
                await self.upstream.relay(request, response, UsageWatch(None, ""))
            finally:
                response.close()

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _compact_and_send(self, request: ClientRequest, target: UpstreamTarget, raw: bytes) -> None:
        """Compact a request, record the decision and how long it took (seconds), send it, and relay the response."""
        started = time.perf_counter()
        outgoing = await self.decider.decide(request, target, raw)
        self.metrics.deciding.observe(time.perf_counter() - started)
        self.decider.report(request, outgoing)
        assert request.wire is not None
        with trace_request(request.wire, outgoing.model) as span:
            await self._send_and_relay(request, target, outgoing, span)

    # ── upstream ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _send_and_relay(
        self, request: ClientRequest, target: UpstreamTarget, outgoing: OutgoingRequest, span: TraceSpan
    ) -> None:
        """Send a request and relay its response; retry once, compacted harder, if the provider finds it too long."""
        if outgoing.result is not None:
            before, after = outgoing.result.before, outgoing.result.after
            span.set(danshari__tokens_before=before, danshari__tokens_after=after,
                     danshari__edits=len(outgoing.result.edits), danshari__fault=outgoing.fault or None)  # fmt: skip
        response, head = await self._send_with_rescue(request, target, outgoing)
        if response is None:
            return
        try:
            recalls = outgoing.session.recalls if outgoing.session is not None else None
            plain = response.headers.get("content-encoding", "identity") == "identity"
            if recalls is not None and recalls.offered and plain and not outgoing.fault and response.status == 200:
                watch = await self._relay_with_recalls(request, target, outgoing, recalls, (response, head))
            else:
                watch = await self._relay_response(request, response, outgoing, head)
            span.set(http__response__status_code=response.status)
            assert request.wire is not None
            span.set_usage(watch.usage, request.wire)
        finally:
            response.close()

    async def _send_with_rescue(
        self, request: ClientRequest, target: UpstreamTarget, outgoing: OutgoingRequest
    ) -> tuple[aiohttp.ClientResponse | None, bytes]:
        """Send a request, and once more compacted harder if the provider finds it too long.

        Returns the response and the bytes of its body that were already read.
        """
        response = await self._send(request, target, outgoing)
        if response is None or outgoing.session is None:
            return response, b""
        if response.status == 200 and response.headers.get("content-type", "").startswith("text/event-stream"):
            return await self._watch_opening(request, target, outgoing, response)
        if response.status not in OVERFLOW_STATUSES:
            return response, b""
        head = await read_beginning(response, MAX_ERROR_BYTES)
        encoding = response.headers.get("content-encoding", "")
        found = parse_overflow(response.status, decompress_beginning(head, encoding))
        if found is None:
            return response, head
        better = await self._rescue(request, target, outgoing, response, found)
        return better, head if better is response else b""

    async def _send(
        self, request: ClientRequest, target: UpstreamTarget, outgoing: OutgoingRequest
    ) -> aiohttp.ClientResponse | None:
        """Send a request once, compressed as its client does; None if there is no answer and the client knows."""
        data, compressed = outgoing.data, outgoing.compressed
        if compressed is not None:
            data = await run_by_size(len(data), compressed.write, data)
        return await self.upstream.send(request, target, outgoing_headers(request, outgoing), data)

    async def _watch_opening(
        self,
        request: ClientRequest,
        target: UpstreamTarget,
        outgoing: OutgoingRequest,
        response: aiohttp.ClientResponse,
    ) -> tuple[aiohttp.ClientResponse | None, bytes]:
        """Rescue a stream whose first event tells that the context is too long; return it and what was read of it."""
        if response.headers.get("content-encoding", "identity") != "identity":
            return response, b""
        head, events = await read_stream_opening(response, MAX_ERROR_BYTES)
        found = parse_stream_overflow(events)
        if found is None:
            return response, head
        better = await self._rescue(request, target, outgoing, response, found)
        return better, head if better is response else b""

    async def _rescue(
        self,
        request: ClientRequest,
        target: UpstreamTarget,
        outgoing: OutgoingRequest,
        refused: aiohttp.ClientResponse,
        found: ContextOverflow,
    ) -> aiohttp.ClientResponse | None:
        """Force a compaction and send the request once more.

        Returns the provider's own error response if compaction changes nothing.
        """
        session, before = outgoing.session, outgoing.data
        assert session is not None
        async with self.decider.fail_open(outgoing, "rescue"):
            await self.decider.compact(request, target, outgoing, refused=found)
        if outgoing.data == before:
            return refused
        refused.close()
        self.metrics.rescues.inc()
        session.totals.rescues += 1
        request.extra.clear()
        request.add_header("rescued", "the provider refused the context as too long; it was compacted and sent again")
        self.decider.report(request, outgoing)
        return await self._send(request, target, outgoing)

    async def _relay_with_recalls(
        self,
        request: ClientRequest,
        target: UpstreamTarget,
        outgoing: OutgoingRequest,
        recalls: SessionRecalls,
        first: tuple[aiohttp.ClientResponse, bytes],
    ) -> UsageWatch:
        """Relay a response and answer its recall calls in the proxy; `first` holds it and what was read of it."""
        session, body = outgoing.session, outgoing.body
        assert session is not None
        assert body is not None

        async def send_again() -> tuple[aiohttp.ClientResponse | None, bytes]:
            """Compact with the new hops and send the request again."""
            outgoing.hops = loop.hops
            async with self.decider.fail_open(outgoing, "recall"), session.lock:
                await asyncio.to_thread(session.compact, outgoing, request.headers, self.settings)
            self.metrics.recalls.inc()
            session.totals.recalls += 1
            return await self._send_with_rescue(request, target, outgoing)

        with self.upstream.propagate_disconnect():
            loop = RecallLoop(request, body.messages, recalls, send_again, self._safely)
            watch = await loop.run(*first)
        self.recorder.record_response(session, watch, first[0].status, last=loop.last)
        self.indexer.schedule()
        return watch

    def _safely(self, work: Callable[[], _T], otherwise: _T) -> _T:
        """Run response processing; on an internal error, log and count it and return `otherwise`."""
        try:
            return work()
        except Exception:  # noqa: BLE001  (likewise: an answer is handed on whatever happens to us)
            _log.exception("danshari failed open")
            self.metrics.faults.labels("answer").inc()
            return otherwise

    async def _relay_response(
        self, request: ClientRequest, response: aiohttp.ClientResponse, outgoing: OutgoingRequest, head: bytes
    ) -> UsageWatch:
        """Relay the response as it arrives; `head` are bytes of its body that were already read.

        If the upstream breaks off, the client's connection is broken too.
        """
        api = request.wire.api if request.wire is not None else None
        headers = response.headers
        watch = UsageWatch(api, headers.get("content-type", ""), headers.get("content-encoding", ""))
        await self.upstream.relay(request, response, watch, head)
        if outgoing.session is not None:
            self.recorder.record_response(outgoing.session, watch, response.status)
            self.indexer.schedule()
        return watch
