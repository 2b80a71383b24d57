"""Decide what to send upstream for one request: read it, find its session, compact it under the session's lock."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from danshari.proxy.body.body import read_request_body
from danshari.proxy.http.encoding import known_codings, read_compressed
from danshari.proxy.http.overflow import ContextOverflow
from danshari.proxy.http.request import BodyTooLarge, ClientRequest
from danshari.proxy.http.upstream import OFF_HEADER, UpstreamClient, UpstreamTarget, upstream_headers
from danshari.proxy.observe.accounting import UsageRecorder
from danshari.proxy.sessions.registry import SessionRegistry, identify_client
from danshari.proxy.sessions.session import OutgoingRequest
from danshari.proxy.settings import Settings

_T = TypeVar("_T")
_log = logging.getLogger("danshari.proxy")
_MAX_INLINE_BYTES = 4_000
"""Bytes of a request up to which it is decided on at once; larger ones in a thread, so that streams go on."""


class RequestDecider:
    """Decides on requests; `upstream` is asked where a hand-over wants the client's own model."""

    def __init__(
        self, settings: Settings, sessions: SessionRegistry, recorder: UsageRecorder, upstream: UpstreamClient
    ) -> None:
        self.settings, self.sessions, self.recorder, self.upstream = settings, sessions, recorder, upstream
        self.metrics = recorder.metrics

    def _reason_not_to_read(self, request: ClientRequest, raw: bytes) -> str:
        """Return why a request is passed through without being parsed; "" if it is parsed."""
        if self.settings.off or request.headers.get(OFF_HEADER, "").strip().lower() == "off":
            return "switched off"
        if len(raw) > self.settings.follow:
            return "too large to be read"
        if known_codings(request.headers.get("content-encoding", "")) is None:
            return "an unknown content encoding"
        if request.headers.get("authorization", "").startswith("AWS4-"):
            return "a signed body"
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        return "" if kind.endswith("json") else "not JSON"

    async def decide(self, request: ClientRequest, target: UpstreamTarget, raw: bytes) -> OutgoingRequest:
        """Decide what to send upstream; on any internal error, the client's own bytes."""
        why = self._reason_not_to_read(request, raw)
        if why:
            return OutgoingRequest(data=raw, untouched=why)
        assert request.wire is not None
        outgoing = OutgoingRequest(data=raw)
        if known_codings(coding := request.headers.get("content-encoding", "")):
            try:
                read = await run_by_size(len(raw), read_compressed, raw, coding, self.settings.follow)
            except (ValueError, BodyTooLarge) as error:
                why = str(error) or "too large to be read"
                return OutgoingRequest(data=raw, untouched=f"a compressed body: {why}"[:120])
            raw, outgoing = read.plain, OutgoingRequest(data=read.plain, compressed=read)
        async with self.fail_open(outgoing, "deciding"):
            similar = self.sessions.find_similar_body(raw)
            body = await run_by_size(len(raw), read_request_body, raw, request.wire, similar)
            if isinstance(body, str):
                outgoing.untouched = body
                return outgoing
            client = identify_client(request.wire, request, body.values, self.settings.owner)
            outgoing.session, outgoing.body = await self.sessions.find(client, body), body
            outgoing.model = client.model
            await self.compact(request, target, outgoing)
        return outgoing

    async def compact(
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
            await run_by_size(size, session.compact, outgoing, request.headers, self.settings, refused)

    @contextlib.asynccontextmanager
    async def _client_model_connected(
        self, request: ClientRequest, target: UpstreamTarget, outgoing: OutgoingRequest
    ) -> AsyncIterator[None]:
        """Let the session's summarizer, if it has one, send requests with the client's headers while the block runs."""
        session = outgoing.session
        if session is None or session.client_model is None:
            yield
            return
        headers = [(k, v) for k, v in outgoing_headers(request, outgoing) if k != "content-encoding"]
        asked = UpstreamTarget(name=target.name, url=session.wire.api.summary_url(target.url))

        async def post(body: bytes) -> tuple[int, bytes]:
            return await self.upstream.post(asked, headers, body)

        keep = lambda: session.compactor.pending is not None  # noqa: E731
        async with session.client_model.connected(post, outgoing.model, keep):
            yield

    @contextlib.asynccontextmanager
    async def fail_open(self, outgoing: OutgoingRequest, where: str) -> AsyncIterator[None]:
        """On any internal error, log and count it and fall back to the previous request body."""
        before = outgoing.data
        try:
            yield
        except Exception as fault:  # noqa: BLE001  (the one place: a client is served whatever happens to us)
            _log.exception("danshari failed open")
            self.metrics.faults.labels(where).inc()
            outgoing.data, outgoing.fault = before, f"{type(fault).__name__}: {fault}"

    def report(self, request: ClientRequest, outgoing: OutgoingRequest) -> None:
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
            if not request.is_side:
                self.recorder.record_decision(outgoing.session, result)


def outgoing_headers(request: ClientRequest, outgoing: OutgoingRequest) -> list[tuple[str, str]]:
    """Return the headers to send upstream."""
    session = outgoing.session
    hides = session is not None and session.recalls is not None and bool(session.recalls.offered)
    encodings = "any" if session is None else "plain" if hides else "readable"
    return upstream_headers(request, outgoing.headers, encodings=encodings)


async def run_by_size(size: int, work: Callable[..., _T], *arguments: Any) -> _T:
    """Run small work inline, larger work in a thread so that streams are not held up.

    `size` is in bytes.
    """
    return work(*arguments) if size <= _MAX_INLINE_BYTES else await asyncio.to_thread(work, *arguments)
