"""The ASGI application that compacts a request, sends it upstream and relays the response as it arrives."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from danshari.errors import ArgumentError
from danshari.formats import find_format
from danshari.proxy.body.outgoing import (
    OFF_HEADER,
    OutgoingRequest,
    compact_request,
    read_request_body,
)
from danshari.proxy.http.env_proxy import EnvironmentProxies
from danshari.proxy.http.headers import (
    AUTOMATIC_HEADERS,
    TOKEN_HEADER,
    decompress_beginning,
    has_body,
    read_beginning,
    response_headers,
    upstream_headers,
)
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
from danshari.proxy.http.routes import UpstreamTarget, choose_upstream
from danshari.proxy.http.usage_watch import UsageWatch
from danshari.proxy.indexer import BackgroundIndexer
from danshari.proxy.observe.accounting import UsageRecorder
from danshari.proxy.observe.tracing import TraceSpan, trace_request
from danshari.proxy.recall.loop import RecallLoop
from danshari.proxy.recall.store import SessionRecalls
from danshari.proxy.sessions.lend_credentials import connect_client_model
from danshari.proxy.sessions.registry import SessionRegistry
from danshari.proxy.settings import Settings

_T = TypeVar("_T")
_log = logging.getLogger("danshari.proxy")
_MAX_INLINE_BYTES = 4_000
"""Bytes of a request up to which it is decided on at once; larger ones in a thread, so that streams go on."""


class Relay:
    """The ASGI application that forwards requests; one HTTP client serves all upstreams."""

    def __init__(
        self, settings: Settings, keepers: SessionRegistry, accounts: UsageRecorder, indexer: BackgroundIndexer
    ) -> None:
        self.settings, self.keepers, self.accounts, self.indexer = settings, keepers, accounts, indexer
        self.counts = accounts.counts
        self._running = 0
        self._client: aiohttp.ClientSession | None = None
        self._gates = EnvironmentProxies()

    async def open(self) -> None:
        """Create the connection pool; call it on the event loop that serves."""
        waits = aiohttp.ClientTimeout(
            total=None, sock_connect=self.settings.connect_seconds, sock_read=self.settings.idle_seconds
        )
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(), timeout=waits, auto_decompress=False, trust_env=False,
            skip_auto_headers=AUTOMATIC_HEADERS, max_line_size=65_536, max_field_size=65_536, read_bufsize=262_144,
        )  # fmt: skip

    async def close(self) -> None:
        """Close the connection pool."""
        await self.indexer.close()
        if self._client is not None:
            await self._client.close()
            await asyncio.sleep(0)  # closed transports let go of their sockets on the loop's next turn

    async def __call__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Handle one request, within the limit on concurrent requests."""
        call = ClientRequest(scope, receive, send)
        if self._running >= self.settings.concurrency:
            await call.refuse(503, f"{self._running} requests are running already: try again shortly")
            return
        self._running += 1
        self.counts.running.inc()
        try:
            await self._answer(call)
        finally:
            self._running -= 1
            self.counts.running.dec()
            self.counts.requests.labels(call.format if call.route else "other", str(call.status)).inc()

    async def _answer(self, call: ClientRequest) -> None:
        """Check the token and handle a request within its limits; errors are sent in the provider's format."""
        if not self.is_authorized(call.headers):
            await call.refuse(401, f"send this proxy's token as {TOKEN_HEADER}")
            return
        try:
            target = choose_upstream(call.path, call.query, call.headers, self.settings.upstreams)
            if call.route is None:
                if not has_body(call):
                    await call.body(0, self.settings.body_seconds)
                await run_until_disconnect(
                    call, self._pass_through(call, target, OutgoingRequest(data=b""), call.parts())
                )
                return
            raw = await call.body(self.settings.largest, self.settings.body_seconds)
            await run_until_disconnect(call, self._compact_and_send(call, target, raw))
        except ArgumentError as error:
            await call.refuse(400, str(error))
        except BodyTooLarge:
            await call.refuse(413, f"the request has more than {self.settings.largest:,} bytes")
        except TimeoutError:
            await call.refuse(400, f"the request's body did not arrive within {self.settings.body_seconds:g} seconds")
        except ClientGone:
            self.counts.disconnects.inc()

    def is_authorized(self, headers: dict[str, str]) -> bool:
        """Return whether the headers carry the token, or none is required."""
        token = self.settings.token
        return not token or hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), token.encode())

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _compact_and_send(self, call: ClientRequest, target: UpstreamTarget, raw: bytes) -> None:
        """Compact a request, record the time and the decision, send it, and relay the response."""
        started = time.perf_counter()
        sending = await self._decide(call, target, raw)
        self.counts.deciding.observe(time.perf_counter() - started)
        self._report_decision(call, sending)
        model = str(sending.body.values.get("model") or "") if sending.body else ""
        with trace_request(call.format, model) as traced:
            await self._send_and_relay(call, target, sending, traced)

    async def _send_and_relay(
        self, call: ClientRequest, target: UpstreamTarget, sending: OutgoingRequest, traced: TraceSpan
    ) -> None:
        """Send a request and relay its response; retry once, compacted harder, if the provider finds it too long."""
        if sending.result is not None:
            before, after = sending.result.before, sending.result.after
            traced.set(danshari__tokens_before=before, danshari__tokens_after=after,
                       danshari__edits=len(sending.result.edits), danshari__fault=sending.fault or None)  # fmt: skip
        response, head = await self._send_with_rescue(call, target, sending)
        if response is None:
            return
        try:
            recalls = sending.keeper.recalls if sending.keeper is not None else None
            plain = response.headers.get("content-encoding", "identity") == "identity"
            if recalls is not None and recalls.offered and plain and not sending.fault and response.status == 200:
                watch = await self._relay_with_recalls(call, target, sending, recalls, response)
            else:
                watch = await self._relay_response(call, response, sending, head)
            traced.set(http__response__status_code=response.status)
            traced.set_usage(watch.usage)
        finally:
            response.close()

    def _reason_not_to_read(self, call: ClientRequest, raw: bytes) -> str:
        """Return why a request is passed through without being parsed; "" if it is parsed."""
        if self.settings.off or call.headers.get(OFF_HEADER, "").strip().lower() == "off":
            return "switched off"
        if len(raw) > self.settings.follow:
            return "too large to be read"
        if call.headers.get("content-encoding", "identity").lower() != "identity":
            return "a compressed body"
        kind = call.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        return "" if kind.endswith("json") else "not JSON"

    async def _decide(self, call: ClientRequest, target: UpstreamTarget, raw: bytes) -> OutgoingRequest:
        """Decide what to send upstream; on any internal error, the client's own bytes."""
        why = self._reason_not_to_read(call, raw)
        if why:
            return OutgoingRequest(data=raw, untouched=why)
        assert call.route is not None
        sending = OutgoingRequest(data=raw)
        async with self._fail_open(sending, "deciding"):
            body = await _run_by_size(len(raw), read_request_body, raw, call.route, self.keepers.find_similar_body(raw))
            if isinstance(body, str):
                return OutgoingRequest(data=raw, untouched=body)
            wire = find_format(call.route.format)
            sending.keeper, sending.body = await self.keepers.find(wire, body, call.headers), body
            async with sending.keeper.lock, connect_client_model(self._client, call, target, sending):
                await _run_by_size(self._decision_size(sending), compact_request, sending, call.headers, self.settings)
        return sending

    def _decision_size(self, sending: OutgoingRequest) -> int:
        """Return a size in bytes that selects where to run the decision: inline or in a thread.

        Whatever may wait for a model or the archive counts as larger than `_MAX_INLINE_BYTES`.
        """
        keeper, values = sending.keeper, sending.body.values if sending.body is not None else {}
        recalls = keeper.recalls if keeper is not None else None
        stored = recalls is not None and (recalls.offered or (recalls.offered is None and values.get("tools")))
        waits = keeper is not None and (keeper.door is not None or keeper.source is not None or stored)
        return _MAX_INLINE_BYTES + 1 if waits else len(sending.data)

    @contextlib.asynccontextmanager
    async def _fail_open(self, sending: OutgoingRequest, where: str) -> AsyncIterator[None]:
        """On any internal error, log and count it and fall back to the previous request body."""
        before = sending.data
        try:
            yield
        except Exception as fault:  # noqa: BLE001  (the one place: a client is served whatever happens to us)
            _log.exception("danshari failed open")
            self.counts.faults.labels(where).inc()
            sending.data, sending.fault = before, f"{type(fault).__name__}: {fault}"

    def _report_decision(self, call: ClientRequest, sending: OutgoingRequest) -> None:
        """Report a decision in the response headers, the metrics and the session's totals."""
        if sending.untouched:
            self.counts.untouched.labels(sending.untouched).inc()
            call.add_header("untouched", sending.untouched)
            return
        if sending.fault:
            call.add_header("fault", sending.fault)
        if sending.keeper is not None and sending.result is not None:
            result = sending.result
            call.add_header("session", sending.keeper.name)
            call.add_header("tokens-before", result.before)
            call.add_header("tokens-after", result.after)
            call.add_header("edits", len(result.edits))
            self.accounts.record_decision(sending.keeper, result)

    # ── upstream ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _send_upstream(
        self,
        call: ClientRequest,
        target: UpstreamTarget,
        sending: OutgoingRequest,
        parts: AsyncIterator[bytes] | None = None,
    ) -> aiohttp.ClientResponse | None:
        """Send a request upstream; return None if the upstream is unreachable, after telling the client.

        Raises the error instead if the response to the client has already begun.
        """
        assert self._client is not None
        headers = upstream_headers(call, sending)
        data = sending.data if parts is None else parts if has_body(call) else None
        try:
            return await self._client.request(
                call.method, URL(target.url, encoded=True), data=data, headers=headers, allow_redirects=False,
                proxy=self._gates.proxy_for(target.url),
            )  # fmt: skip
        except TimeoutError:
            self.counts.broken.labels("timeout").inc()
            if call.status:
                raise
            await call.refuse(504, f"the upstream {target.name!r} did not answer in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if call.left:
                raise ClientGone from None
            self.counts.broken.labels("unreachable").inc()
            if call.status:
                raise
            await call.refuse(502, f"the upstream {target.name!r} cannot be reached: {type(error).__name__}")
        return None

    async def _pass_through(
        self, call: ClientRequest, target: UpstreamTarget, sending: OutgoingRequest, parts: AsyncIterator[bytes]
    ) -> None:
        """Pass a request through unchanged, streaming its body."""
        response = await self._send_upstream(call, target, sending, parts)
        if response is not None:
            try:
                await self._relay_response(call, response, sending)
            finally:
                response.close()

    async def _send_with_rescue(
        self, call: ClientRequest, target: UpstreamTarget, sending: OutgoingRequest
    ) -> tuple[aiohttp.ClientResponse | None, bytes]:
        """Send a request, and once more compacted harder if the provider finds it too long.

        Returns the response and the bytes of its body that were already read.
        """
        response = await self._send_upstream(call, target, sending)
        if response is None or response.status not in OVERFLOW_STATUSES or sending.keeper is None:
            return response, b""
        head = await read_beginning(response, MAX_ERROR_BYTES)
        found = parse_overflow(
            response.status, decompress_beginning(head, response.headers.get("content-encoding", ""))
        )
        if found is None:
            return response, head
        better = await self._rescue(call, target, sending, response, found)
        return better, head if better is response else b""

    async def _rescue(
        self,
        call: ClientRequest,
        target: UpstreamTarget,
        sending: OutgoingRequest,
        refused: aiohttp.ClientResponse,
        found: ContextOverflow,
    ) -> aiohttp.ClientResponse | None:
        """Force a compaction and send the request once more.

        Returns the provider's own error response if compaction changes nothing.
        """
        keeper, before = sending.keeper, sending.data
        assert keeper is not None
        async with (
            self._fail_open(sending, "rescue"),
            keeper.lock,
            connect_client_model(self._client, call, target, sending),
        ):
            again = partial(compact_request, refused=found)
            await _run_by_size(self._decision_size(sending), again, sending, call.headers, self.settings)
        if sending.data == before:
            return refused
        refused.close()
        self.counts.rescues.inc()
        keeper.figures.rescues += 1
        call.extra.clear()
        call.add_header("rescued", "the provider refused the context as too long; it was compacted and sent again")
        self._report_decision(call, sending)
        return await self._send_upstream(call, target, sending)

    async def _relay_with_recalls(
        self,
        call: ClientRequest,
        target: UpstreamTarget,
        sending: OutgoingRequest,
        recalls: SessionRecalls,
        response: aiohttp.ClientResponse,
    ) -> UsageWatch:
        """Relay a response and answer its recall calls in the proxy."""
        keeper = sending.keeper
        assert keeper is not None

        async def send_again() -> tuple[aiohttp.ClientResponse | None, bytes]:
            """Compact with the new hops and send the request again."""
            async with self._fail_open(sending, "recall"), keeper.lock:
                await _run_by_size(_MAX_INLINE_BYTES + 1, compact_request, sending, call.headers, self.settings)
            self.counts.recalls.inc()
            keeper.figures.recalls += 1
            return await self._send_with_rescue(call, target, sending)

        with self._propagate_disconnect():
            exchange = RecallLoop(call, sending, recalls, send_again, self._safely)
            watch = await exchange.run(response)
        self.accounts.record_response(keeper, watch, response.status, last=exchange.last)
        self.indexer.schedule()
        return watch

    def _safely(self, work: Callable[[], _T], otherwise: _T) -> _T:
        """Run response processing; on an internal error, log and count it and return `otherwise`."""
        try:
            return work()
        except Exception:  # noqa: BLE001  (likewise: an answer is handed on whatever happens to us)
            _log.exception("danshari failed open")
            self.counts.faults.labels("answer").inc()
            return otherwise

    @contextlib.contextmanager
    def _propagate_disconnect(self) -> Iterator[None]:
        """Break the client's connection if the upstream's broke."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.counts.broken.labels("broke off").inc()
            _log.warning("the upstream broke off: %s", type(error).__name__)
            raise ConnectionResetError("the upstream broke off") from None

    async def _relay_response(
        self, call: ClientRequest, response: aiohttp.ClientResponse, sending: OutgoingRequest, head: bytes = b""
    ) -> UsageWatch:
        """Relay the response as it arrives; `head` are bytes of its body that were already read.

        If the upstream breaks off, the client's connection is broken too.
        """
        watch = UsageWatch(response.headers.get("content-type", ""), response.headers.get("content-encoding", ""))
        await call.start(response.status, response_headers(response))
        with self._propagate_disconnect():
            if head:
                watch.feed(head)
                await call.write(head)
            async for chunk in response.content.iter_any():
                watch.feed(chunk)
                await call.write(chunk)
        await call.write(b"", more=False)
        watch.close()
        if sending.keeper is not None:
            self.accounts.record_response(sending.keeper, watch, response.status)
            self.indexer.schedule()
        return watch


async def _run_by_size(size: int, work: Callable[..., _T], *arguments: Any) -> _T:
    """Run small work inline, larger work in a thread so that streams are not held up.

    `size` is in bytes.
    """
    return work(*arguments) if size <= _MAX_INLINE_BYTES else await asyncio.to_thread(work, *arguments)
