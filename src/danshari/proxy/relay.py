"""The ASGI application that compacts a request, sends it upstream and relays the response as it arrives."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import aiohttp

from danshari.errors import ArgumentError
from danshari.proxy.access import refusal
from danshari.proxy.body.body import read_request_body
from danshari.proxy.http.overflow import (
    MAX_ERROR_BYTES,
    OVERFLOW_STATUSES,
    ContextOverflow,
    parse_overflow,
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
    OFF_HEADER,
    UpstreamClient,
    UpstreamTarget,
    choose_upstream,
    decompress_beginning,
    read_beginning,
    upstream_headers,
)
from danshari.proxy.http.usage_watch import UsageWatch
from danshari.proxy.indexer import BackgroundIndexer
from danshari.proxy.observe.accounting import TraceSpan, UsageRecorder, trace_request
from danshari.proxy.recall.loop import RecallLoop
from danshari.proxy.recall.store import SessionRecalls
from danshari.proxy.sessions.registry import SessionRegistry, identify_client
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
        outgoing = await self._decide(request, target, raw)
        self.metrics.deciding.observe(time.perf_counter() - started)
        self._report_decision(request, outgoing)
        assert request.wire is not None
        with trace_request(request.wire, outgoing.model) as span:
            await self._send_and_relay(request, target, outgoing, span)

    def _reason_not_to_read(self, request: ClientRequest, raw: bytes) -> str:
        """Return why a request is passed through without being parsed; "" if it is parsed."""
        if self.settings.off or request.headers.get(OFF_HEADER, "").strip().lower() == "off":
            return "switched off"
        if len(raw) > self.settings.follow:
            return "too large to be read"
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            return "a compressed body"
        if request.headers.get("authorization", "").startswith("AWS4-"):
            return "a signed body"
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        return "" if kind.endswith("json") else "not JSON"

    async def _decide(self, request: ClientRequest, target: UpstreamTarget, raw: bytes) -> OutgoingRequest:
        """Decide what to send upstream; on any internal error, the client's own bytes."""
        why = self._reason_not_to_read(request, raw)
        if why:
            return OutgoingRequest(data=raw, untouched=why)
        assert request.wire is not None
        outgoing = OutgoingRequest(data=raw)
        async with self._fail_open(outgoing, "deciding"):
            similar = self.sessions.find_similar_body(raw)
            body = await _run_by_size(len(raw), read_request_body, raw, request.wire, similar)
            if isinstance(body, str):
                return OutgoingRequest(data=raw, untouched=body)
            client = identify_client(request.wire, request, body.values, self.settings.owner)
            outgoing.session, outgoing.body = await self.sessions.find(client, body), body
            outgoing.model = client.model
            await self._compact(request, target, outgoing)
        return outgoing

    async def _compact(
        self,
        request: ClientRequest,
        target: UpstreamTarget,
        outgoing: OutgoingRequest,
        refused: ContextOverflow | None = None,
    ) -> None:
        """Compact a request under its session's lock; hand-overs may ask the client's own model meanwhile."""
        session, body = outgoing.session, outgoing.body
        assert session is not None
        assert body is not None
        size = _MAX_INLINE_BYTES + 1 if session.may_wait(body.values) else len(outgoing.data)
        async with session.lock, self._client_model_connected(request, target, outgoing):
            await _run_by_size(size, session.compact, outgoing, request.headers, self.settings, refused)

    @contextlib.asynccontextmanager
    async def _client_model_connected(
        self, request: ClientRequest, target: UpstreamTarget, outgoing: OutgoingRequest
    ) -> AsyncIterator[None]:
        """Let the session's summarizer, if it has one, send requests with the client's headers while the block runs."""
        session = outgoing.session
        if session is None or session.client_model is None:
            yield
            return
        headers = self._headers(request, outgoing)
        asked = UpstreamTarget(name=target.name, url=session.wire.api.summary_url(target.url))

        async def post(body: bytes) -> tuple[int, bytes]:
            return await self.upstream.post(asked, headers, body)

        keep = lambda: session.compactor.pending is not None  # noqa: E731
        async with session.client_model.connected(post, outgoing.model, keep):
            yield

    @contextlib.asynccontextmanager
    async def _fail_open(self, outgoing: OutgoingRequest, where: str) -> AsyncIterator[None]:
        """On any internal error, log and count it and fall back to the previous request body."""
        before = outgoing.data
        try:
            yield
        except Exception as fault:  # noqa: BLE001  (the one place: a client is served whatever happens to us)
            _log.exception("danshari failed open")
            self.metrics.faults.labels(where).inc()
            outgoing.data, outgoing.fault = before, f"{type(fault).__name__}: {fault}"

    def _report_decision(self, request: ClientRequest, outgoing: OutgoingRequest) -> None:
        """Report a decision in the response headers, the metrics and the session's totals."""
        if outgoing.untouched:
            self.metrics.count_untouched(outgoing.untouched)
            _log.info("%s", json.dumps({"untouched": outgoing.untouched, "path": request.path}))
            request.add_header("untouched", outgoing.untouched)
            return
        if outgoing.fault:
            request.add_header("fault", outgoing.fault)
        if outgoing.session is not None and outgoing.result is not None:
            result = outgoing.result
            request.add_header("session", outgoing.session.name)
            request.add_header("tokens-before", result.before)
            request.add_header("tokens-after", result.after)
            request.add_header("edits", len(result.edits))
            self.recorder.record_decision(outgoing.session, result)

    # ── upstream ─────────────────────────────────────────────────────────────────────────────────────────────

    def _headers(self, request: ClientRequest, outgoing: OutgoingRequest) -> list[tuple[str, str]]:
        """Return the headers to send upstream."""
        session = outgoing.session
        hides = session is not None and session.recalls is not None and bool(session.recalls.offered)
        encodings = "any" if session is None else "plain" if hides else "readable"
        return upstream_headers(request, outgoing.headers, encodings=encodings)

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
                watch = await self._relay_with_recalls(request, target, outgoing, recalls, response)
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
        headers = self._headers(request, outgoing)
        response = await self.upstream.send(request, target, headers, outgoing.data)
        if response is None or response.status not in OVERFLOW_STATUSES or outgoing.session is None:
            return response, b""
        head = await read_beginning(response, MAX_ERROR_BYTES)
        encoding = response.headers.get("content-encoding", "")
        found = parse_overflow(response.status, decompress_beginning(head, encoding))
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
        async with self._fail_open(outgoing, "rescue"):
            await self._compact(request, target, outgoing, refused=found)
        if outgoing.data == before:
            return refused
        refused.close()
        self.metrics.rescues.inc()
        session.totals.rescues += 1
        request.extra.clear()
        request.add_header("rescued", "the provider refused the context as too long; it was compacted and sent again")
        self._report_decision(request, outgoing)
        return await self.upstream.send(request, target, self._headers(request, outgoing), outgoing.data)

    async def _relay_with_recalls(
        self,
        request: ClientRequest,
        target: UpstreamTarget,
        outgoing: OutgoingRequest,
        recalls: SessionRecalls,
        response: aiohttp.ClientResponse,
    ) -> UsageWatch:
        """Relay a response and answer its recall calls in the proxy."""
        session, body = outgoing.session, outgoing.body
        assert session is not None
        assert body is not None

        async def send_again() -> tuple[aiohttp.ClientResponse | None, bytes]:
            """Compact with the new hops and send the request again."""
            outgoing.hops = loop.hops
            async with self._fail_open(outgoing, "recall"), session.lock:
                await asyncio.to_thread(session.compact, outgoing, request.headers, self.settings)
            self.metrics.recalls.inc()
            session.totals.recalls += 1
            return await self._send_with_rescue(request, target, outgoing)

        with self.upstream.propagate_disconnect():
            loop = RecallLoop(request, body.messages, recalls, send_again, self._safely)
            watch = await loop.run(response)
        self.recorder.record_response(session, watch, response.status, last=loop.last)
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


async def _run_by_size(size: int, work: Callable[..., _T], *arguments: Any) -> _T:
    """Run small work inline, larger work in a thread so that streams are not held up.

    `size` is in bytes.
    """
    return work(*arguments) if size <= _MAX_INLINE_BYTES else await asyncio.to_thread(work, *arguments)
