"""The way of a request: read, decide, forward, hand the answer back as it arrives."""

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
from danshari.formats import named
from danshari.proxy.body.outgoing import (
    OFF_HEADER,
    Sending,
    compacted,
    opened,
)
from danshari.proxy.http.env_proxy import Gates
from danshari.proxy.http.headers import (
    AUTOMATIC,
    TOKEN_HEADER,
    answer_headers,
    beginning,
    forwarded,
    has_body,
    unpacked,
)
from danshari.proxy.http.overflow import (
    LARGEST,
    STATUSES,
    Overflow,
    overflow,
)
from danshari.proxy.http.request import (
    Call,
    Gone,
    Receive,
    Scope,
    Send,
    TooLarge,
    until_gone,
)
from danshari.proxy.http.routes import Target, target_of
from danshari.proxy.http.usage_watch import Watch
from danshari.proxy.indexer import Indexer
from danshari.proxy.observe.accounting import Accounts
from danshari.proxy.observe.tracing import Span, span
from danshari.proxy.recall.loop import Exchange
from danshari.proxy.recall.store import Recalls
from danshari.proxy.sessions.lend_credentials import lent
from danshari.proxy.sessions.registry import Keepers
from danshari.proxy.settings import Settings

T = TypeVar("T")
_log = logging.getLogger("danshari.proxy")
_INLINE = 4_000
"""Bytes of a request up to which it is decided on at once; larger ones in a thread, so that streams go on."""


class Relay:
    """The ASGI application that forwards; one client session to all upstreams."""

    def __init__(self, settings: Settings, keepers: Keepers, accounts: Accounts, indexer: Indexer) -> None:
        self.settings, self.keepers, self.accounts, self.indexer = settings, keepers, accounts, indexer
        self.counts = accounts.counts
        self._running = 0
        self._client: aiohttp.ClientSession | None = None
        self._gates = Gates()

    async def open(self) -> None:
        """Make the connection pool; to be called on the loop that serves."""
        waits = aiohttp.ClientTimeout(
            total=None, sock_connect=self.settings.connect_seconds, sock_read=self.settings.idle_seconds
        )
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(), timeout=waits, auto_decompress=False, trust_env=False,
            skip_auto_headers=AUTOMATIC, max_line_size=65_536, max_field_size=65_536, read_bufsize=262_144,
        )  # fmt: skip

    async def close(self) -> None:
        """Close the connection pool."""
        await self.indexer.close()
        if self._client is not None:
            await self._client.close()
            await asyncio.sleep(0)  # closed transports let go of their sockets on the loop's next turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        call = Call(scope, receive, send)
        if self._running >= self.settings.concurrency:
            await call.refuse(503, f"{self._running} requests are running already: try again shortly")
            return
        self._running += 1
        self.counts.running.inc()
        try:
            await self._answered(call)
        finally:
            self._running -= 1
            self.counts.running.dec()
            self.counts.requests.labels(call.format if call.route else "other", str(call.status)).inc()

    async def _answered(self, call: Call) -> None:
        """Answer within the limits; whatever is wrong with the request is said in the provider's own shape."""
        if not self.admits(call.headers):
            await call.refuse(401, f"send this proxy's token as {TOKEN_HEADER}")
            return
        try:
            target = target_of(call.path, call.query, call.headers, self.settings.upstreams)
            if call.route is None:
                if not has_body(call):
                    await call.body(0, self.settings.body_seconds)
                await until_gone(call, self._forward(call, target, Sending(data=b""), call.parts()))
                return
            raw = await call.body(self.settings.largest, self.settings.body_seconds)
            await until_gone(call, self._compacted(call, target, raw))
        except ArgumentError as error:
            await call.refuse(400, str(error))
        except TooLarge:
            await call.refuse(413, f"the request has more than {self.settings.largest:,} bytes")
        except TimeoutError:
            await call.refuse(400, f"the request's body did not arrive within {self.settings.body_seconds:g} seconds")
        except Gone:
            self.counts.disconnects.inc()

    def admits(self, headers: dict[str, str]) -> bool:
        """Say whether a request carries the token, where one is asked for."""
        token = self.settings.token
        return not token or hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), token.encode())

    # ── deciding ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _compacted(self, call: Call, target: Target, raw: bytes) -> None:
        started = time.perf_counter()
        sending = await self._decided(call, target, raw)
        self.counts.deciding.observe(time.perf_counter() - started)
        self._noted(call, sending)
        model = str(sending.body.values.get("model") or "") if sending.body else ""
        with span(call.format, model) as traced:
            await self._exchanged(call, target, sending, traced)

    async def _exchanged(self, call: Call, target: Target, sending: Sending, traced: Span) -> None:
        """Send a request and hand its answer back, rescued once if the provider finds it too long."""
        if sending.result is not None:
            before, after = sending.result.before, sending.result.after
            traced.set(danshari__tokens_before=before, danshari__tokens_after=after,
                       danshari__edits=len(sending.result.edits), danshari__fault=sending.fault or None)  # fmt: skip
        response, head = await self._sent_or_rescued(call, target, sending)
        if response is None:
            return
        try:
            recalls = sending.keeper.recalls if sending.keeper is not None else None
            plain = response.headers.get("content-encoding", "identity") == "identity"
            if recalls is not None and recalls.offered and plain and not sending.fault and response.status == 200:
                watch = await self._hopped(call, target, sending, recalls, response)
            else:
                watch = await self._handed_back(call, response, sending, head)
            traced.set(http__response__status_code=response.status)
            traced.usage(watch.usage)
        finally:
            response.close()

    def _why_not(self, call: Call, raw: bytes) -> str:
        """Say why a request is not even read; "" if it is."""
        if self.settings.off or call.headers.get(OFF_HEADER, "").strip().lower() == "off":
            return "switched off"
        if len(raw) > self.settings.follow:
            return "too large to be read"
        if call.headers.get("content-encoding", "identity").lower() != "identity":
            return "a compressed body"
        kind = call.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        return "" if kind.endswith("json") else "not JSON"

    async def _decided(self, call: Call, target: Target, raw: bytes) -> Sending:
        """Decide what goes upstream; on any fault of ours the client's own bytes do."""
        why = self._why_not(call, raw)
        if why:
            return Sending(data=raw, untouched=why)
        assert call.route is not None
        sending = Sending(data=raw)
        async with self._open_on_fault(sending, "deciding"):
            body = await _run(len(raw), opened, raw, call.route, self.keepers.nearest(raw))
            if isinstance(body, str):
                return Sending(data=raw, untouched=body)
            wire = named(call.route.format)
            sending.keeper, sending.body = await self.keepers.find(wire, body, call.headers), body
            async with sending.keeper.lock, lent(self._client, call, target, sending):
                await _run(self._weight(sending), compacted, sending, call.headers, self.settings)
        return sending

    def _weight(self, sending: Sending) -> int:
        """Give the bytes by which it is chosen where to decide; what may wait for a model or the archive: a thread."""
        keeper, values = sending.keeper, sending.body.values if sending.body is not None else {}
        recalls = keeper.recalls if keeper is not None else None
        stored = recalls is not None and (recalls.offered or (recalls.offered is None and values.get("tools")))
        waits = keeper is not None and (keeper.door is not None or keeper.source is not None or stored)
        return _INLINE + 1 if waits else len(sending.data)

    @contextlib.asynccontextmanager
    async def _open_on_fault(self, sending: Sending, where: str) -> AsyncIterator[None]:
        """Let what was to be sent before go upstream if anything of ours fails; the fault is counted and told."""
        before = sending.data
        try:
            yield
        except Exception as fault:  # noqa: BLE001  (the one place: a client is served whatever happens to us)
            _log.exception("danshari failed open")
            self.counts.faults.labels(where).inc()
            sending.data, sending.fault = before, f"{type(fault).__name__}: {fault}"

    def _noted(self, call: Call, sending: Sending) -> None:
        """Put what was decided into the answer's headers, the metrics and the session's figures."""
        if sending.untouched:
            self.counts.untouched.labels(sending.untouched).inc()
            call.note("untouched", sending.untouched)
            return
        if sending.fault:
            call.note("fault", sending.fault)
        if sending.keeper is not None and sending.result is not None:
            result = sending.result
            call.note("session", sending.keeper.name)
            call.note("tokens-before", result.before)
            call.note("tokens-after", result.after)
            call.note("edits", len(result.edits))
            self.accounts.decided(sending.keeper, result)

    # ── upstream ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _sent(
        self, call: Call, target: Target, sending: Sending, parts: AsyncIterator[bytes] | None = None
    ) -> aiohttp.ClientResponse | None:
        """Send a request on; None if the upstream could not be reached, which the client was told.

        Raises what happened if the answer to the client has begun already.
        """
        assert self._client is not None
        headers = forwarded(call, sending)
        data = sending.data if parts is None else parts if has_body(call) else None
        try:
            return await self._client.request(
                call.method, URL(target.url, encoded=True), data=data, headers=headers, allow_redirects=False,
                proxy=self._gates.of(target.url),
            )  # fmt: skip
        except TimeoutError:
            self.counts.broken.labels("timeout").inc()
            if call.status:
                raise
            await call.refuse(504, f"the upstream {target.name!r} did not answer in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if call.left:
                raise Gone from None
            self.counts.broken.labels("unreachable").inc()
            if call.status:
                raise
            await call.refuse(502, f"the upstream {target.name!r} cannot be reached: {type(error).__name__}")
        return None

    async def _forward(self, call: Call, target: Target, sending: Sending, parts: AsyncIterator[bytes]) -> None:
        """Pass a request through untouched, its body as it arrives."""
        response = await self._sent(call, target, sending, parts)
        if response is not None:
            try:
                await self._handed_back(call, response, sending)
            finally:
                response.close()

    async def _sent_or_rescued(
        self, call: Call, target: Target, sending: Sending
    ) -> tuple[aiohttp.ClientResponse | None, bytes]:
        """Send a request on, and once more if the provider finds it too long; give what was read of the answer too."""
        response = await self._sent(call, target, sending)
        if response is None or response.status not in STATUSES or sending.keeper is None:
            return response, b""
        head = await beginning(response, LARGEST)
        found = overflow(response.status, unpacked(head, response.headers.get("content-encoding", "")))
        if found is None:
            return response, head
        better = await self._rescued(call, target, sending, response, found)
        return better, head if better is response else b""

    async def _rescued(
        self, call: Call, target: Target, sending: Sending, refused: aiohttp.ClientResponse, found: Overflow
    ) -> aiohttp.ClientResponse | None:
        """Compact hard and send once more; where that does not help the client gets the provider's own error."""
        keeper, before = sending.keeper, sending.data
        assert keeper is not None
        async with self._open_on_fault(sending, "rescue"), keeper.lock, lent(self._client, call, target, sending):
            again = partial(compacted, refused=found)
            await _run(self._weight(sending), again, sending, call.headers, self.settings)
        if sending.data == before:
            return refused
        refused.close()
        self.counts.rescues.inc()
        keeper.figures.rescues += 1
        call.extra.clear()
        call.note("rescued", "the provider refused the context as too long; it was compacted and sent again")
        self._noted(call, sending)
        return await self._sent(call, target, sending)

    async def _hopped(
        self, call: Call, target: Target, sending: Sending, recalls: Recalls, response: aiohttp.ClientResponse
    ) -> Watch:
        """Hand an answer back whose recalls are answered here."""
        keeper = sending.keeper
        assert keeper is not None

        async def again() -> tuple[aiohttp.ClientResponse | None, bytes]:
            async with self._open_on_fault(sending, "recall"), keeper.lock:
                await _run(_INLINE + 1, compacted, sending, call.headers, self.settings)
            self.counts.recalls.inc()
            keeper.figures.recalls += 1
            return await self._sent_or_rescued(call, target, sending)

        with self._breaking():
            exchange = Exchange(call, sending, recalls, again, self._safely)
            watch = await exchange.run(response)
        self.accounts.answered(keeper, watch, response.status, last=exchange.last)
        self.indexer.soon()
        return watch

    def _safely(self, work: Callable[[], T], otherwise: T) -> T:
        """Run something of ours that looks at an answer; a fault is counted, and the answer goes on without it."""
        try:
            return work()
        except Exception:  # noqa: BLE001  (likewise: an answer is handed on whatever happens to us)
            _log.exception("danshari failed open")
            self.counts.faults.labels("answer").inc()
            return otherwise

    @contextlib.contextmanager
    def _breaking(self) -> Iterator[None]:
        """Break the client's connection off where the upstream's broke."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.counts.broken.labels("broke off").inc()
            _log.warning("the upstream broke off: %s", type(error).__name__)
            raise ConnectionResetError("the upstream broke off") from None

    async def _handed_back(
        self, call: Call, response: aiohttp.ClientResponse, sending: Sending, head: bytes = b""
    ) -> Watch:
        """Hand the answer back as it arrives; a broken upstream breaks the client's connection off as well.

        `head` was read already.
        """
        watch = Watch(response.headers.get("content-type", ""), response.headers.get("content-encoding", ""))
        await call.start(response.status, answer_headers(response))
        with self._breaking():
            if head:
                watch.feed(head)
                await call.write(head)
            async for chunk in response.content.iter_any():
                watch.feed(chunk)
                await call.write(chunk)
        await call.write(b"", more=False)
        watch.close()
        if sending.keeper is not None:
            self.accounts.answered(sending.keeper, watch, response.status)
            self.indexer.soon()
        return watch


async def _run(size: int, work: Callable[..., T], *arguments: Any) -> T:
    """Run at once what is small, in a thread what would hold other streams up."""
    return work(*arguments) if size <= _INLINE else await asyncio.to_thread(work, *arguments)
