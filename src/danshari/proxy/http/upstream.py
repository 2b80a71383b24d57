"""Choose the upstream of a request, send it there with the right headers, and relay its response."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from danshari.data.agents import SESSION_HEADER
from danshari.data.vendors import foreign_mark, load_vendors
from danshari.errors import ArgumentError
from danshari.formats import FORMATS
from danshari.formats.sse import EventSplitter, event_data
from danshari.proxy.http.request import CONNECTION_HEADERS, UPGRADE_HEADER, ClientGone, ClientRequest
from danshari.proxy.http.usage_watch import READABLE_ENCODINGS, UsageWatch
from danshari.proxy.observe.metrics import ProxyMetrics
from danshari.proxy.settings import Settings

UPSTREAM_HEADER, TOKEN_HEADER, OFF_HEADER = "x-danshari-upstream", "x-danshari-token", "x-danshari"
NAMED_UPSTREAM_PATH = "/to/"
"""A path `/to/NAME/…` goes to the upstream of that name, as `/…`."""
CATCH_ALL_UPSTREAM = "*"
"""Name of the upstream that takes whatever names none."""
AUTOMATIC_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the HTTP client would add by itself."""
_OWN_HEADERS = {name.encode() for name in (UPSTREAM_HEADER, TOKEN_HEADER, OFF_HEADER, SESSION_HEADER, UPGRADE_HEADER)}
_DROPPED_HEADERS = CONNECTION_HEADERS | _OWN_HEADERS | {b"host", b"expect"}
_DOUBLED_VERSION = re.compile(r"\A/v1/v1/")
"""What a client asks for that adds the version to a base URL which has it already."""
OPENING_EVENTS = tuple(mark for wire in FORMATS.values() for mark in wire.api.opening_events)
"""Marks of the events that only say that an answer has begun."""
OPENING_SECONDS = 0.5
"""Seconds that the opening of a stream is held back: a refusal follows it at once."""
_log = logging.getLogger("danshari.proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTarget:
    """The upstream of one request: its name and the full URL."""

    name: str
    url: str


def default_upstreams() -> dict[str, str]:
    """Return the providers' own addresses by name."""
    others = {vendor.name: vendor.address for vendor in load_vendors().values() if vendor.address}
    return {**{wire.api.vendor: wire.api.base_url for wire in FORMATS.values()}, **others}


def choose_upstream(request: ClientRequest, upstreams: Mapping[str, str]) -> UpstreamTarget:
    """Choose the upstream: by header, else by path, else the catch-all, else by whose the request is.

    Raises ArgumentError for a name that is not known, and for a request that would take a path or a key to the address
    of another vendor than its own.
    """
    name, path = request.headers.get(UPSTREAM_HEADER, ""), _DOUBLED_VERSION.sub("/v1/", request.path)
    if not name and path.startswith(NAMED_UPSTREAM_PATH):
        name, _, rest = path.removeprefix(NAMED_UPSTREAM_PATH).partition("/")
        path = f"/{rest}"
    known = {**default_upstreams(), **upstreams}
    if name and name not in known:
        raise ArgumentError(f"there is no upstream {name!r}; known: {', '.join(sorted(known))}")
    name = name or (CATCH_ALL_UPSTREAM if CATCH_ALL_UPSTREAM in known else _find_owner(request, path, known))
    if name not in upstreams:
        vendor = load_vendors()[name]
        if found := foreign_mark(vendor, request.headers):
            raise ArgumentError(
                f"the {found[0]} is for {found[1].title}, and would go to {known[name]}: nothing was sent. "
                f"{_how_to_configure(found[1].name, path)}"
            )
        path = vendor.path_at_address(path)
    shown = urlsplit(known[name]).netloc if name == CATCH_ALL_UPSTREAM else name
    return UpstreamTarget(name=shown, url=join_url(known[name], path) + (f"?{request.query}" if request.query else ""))


def _find_owner(request: ClientRequest, path: str, known: Mapping[str, str]) -> str:
    """Return the name of the upstream whose vendor a request's marks and path show.

    Raises ArgumentError if that vendor has no address here, or if the path is nobody's that is known.
    """
    vendors = load_vendors()
    implied = request.implied_format.api.vendor
    order = sorted(vendors.values(), key=lambda vendor: vendor.name != implied)
    marked = [vendor for vendor in order if not vendor.marks.isdisjoint(request.headers)]
    owner = next(iter([*marked, *(vendor for vendor in order if vendor.owns_path(path))]), None)
    if owner is not None and owner.name in known:
        return owner.name
    whose = f"a request to {owner.title}" if owner is not None else "of no provider that is known by its paths"
    name = owner.name if owner is not None else "mine"
    raise ArgumentError(f"{path} is {whose}: nothing was sent. {_how_to_configure(name, path)}")


def _how_to_configure(name: str, path: str) -> str:
    """Return what to do about a request that no configured upstream takes."""
    return (
        f"Start danshari with --upstream URL (takes every request), "
        f"or with --upstream {name}=URL and send to {NAMED_UPSTREAM_PATH}{name}{path}"
    )


def join_url(base: str, path: str) -> str:
    """Join a base URL and a path; a version segment such as `v1` that both contain is written once."""
    base = base.rstrip("/")
    last = base.rpartition("/")[2]
    if last[:1] == "v" and last[1:2].isdigit() and path.startswith(f"/{last}/"):
        path = path.removeprefix(f"/{last}")
    return base + path


def upstream_headers(request: ClientRequest, changed: Mapping[str, str], *, encodings: str) -> list[tuple[str, str]]:
    """Return the headers to send upstream: all but those of the connection and the proxy's own.

    `changed` are headers to set. `encodings` limits `accept-encoding`: `any`; `readable`: what the proxy can read,
    because it reads billed usage from the response; `plain`: uncompressed, because it may hide parts of it.
    """
    named = {part.strip().lower().encode() for part in request.headers.get("connection", "").split(",")}
    skipped = _DROPPED_HEADERS | named | {name.encode() for name in changed}
    if request.wire is not None:
        skipped |= {b"content-length"}
    sent = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in request.raw_headers if k not in skipped]
    if encodings != "any":
        limit = _readable_encodings if encodings == "readable" else lambda _: "identity"
        sent = [(k, limit(v) if k == "accept-encoding" else v) for k, v in sent]
    return sent + list(changed.items())


def _readable_encodings(accepted: str) -> str:
    kept = [part for part in accepted.split(",") if part.partition(";")[0].strip().lower() in READABLE_ENCODINGS]
    return ",".join(kept).strip() or "identity"


def response_headers(response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """Return the response's headers but those of the connection; repeated headers are kept."""
    return [(k.lower(), v) for k, v in response.raw_headers if k.lower() not in CONNECTION_HEADERS]


async def read_beginning(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read up to `most` bytes of a response body; less if the upstream breaks off."""
    read = b""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
        while len(read) < most and (part := await response.content.read(most - len(read))):
            read += part
    return read


async def read_stream_opening(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, list[bytes]]:
    """Read a stream up to its first event that tells more than that an answer has begun, or for `OPENING_SECONDS`.

    Returns the bytes read and the events in them; at most about `most` bytes.
    """
    cut, read, events = EventSplitter(), b"", list[bytes]()
    with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
        while len(read) < most:
            async with asyncio.timeout(OPENING_SECONDS if read else None):
                part = await response.content.readany()
            if not part:
                break
            read += part
            events += cut.feed(part)
            if any(event_data(event) and not any(mark in event[:400] for mark in OPENING_EVENTS) for event in events):
                break
    return read, [*events, cut.remainder()]


def decompress_beginning(body: bytes, encoding: str) -> bytes:
    """Decompress the beginning of a body as far as it goes; b"" if it is malformed."""
    if encoding not in ("gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(wbits=47).decompress(body)
    except zlib.error:
        return b""


class UpstreamClient:
    """One connection pool to all upstreams.

    HTTP proxies are taken from the environment; `.netrc` is not read, because it holds credentials.
    """

    def __init__(self, settings: Settings, metrics: ProxyMetrics) -> None:
        self._settings, self._metrics = settings, metrics
        self._client: aiohttp.ClientSession | None = None
        self._proxies = getproxies()
        self._proxy_by_host = lru_cache(maxsize=64)(self._find_proxy)

    async def open(self) -> None:
        """Create the connection pool; call it on the event loop that serves."""
        waits = aiohttp.ClientTimeout(
            total=None, sock_connect=self._settings.connect_seconds, sock_read=self._settings.idle_seconds
        )
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=15, ttl_dns_cache=60),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=waits,
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=AUTOMATIC_HEADERS,
            max_line_size=65_536,
            max_field_size=65_536,
            read_bufsize=262_144,
        )

    async def close(self) -> None:
        """Close the connection pool."""
        if self._client is not None:
            await self._client.close()
            await asyncio.sleep(0)  # closed transports let go of their sockets on the loop's next turn

    async def send(
        self,
        request: ClientRequest,
        target: UpstreamTarget,
        headers: list[tuple[str, str]],
        data: bytes | AsyncIterator[bytes] | None,
    ) -> aiohttp.ClientResponse | None:
        """Send a request upstream; return None if the upstream is unreachable, after telling the client.

        Raises the error instead if the response to the client has already begun.
        """
        assert self._client is not None
        try:
            return await self._client.request(
                request.method,
                URL(target.url, encoded=True),
                data=data,
                headers=headers,
                allow_redirects=False,
                proxy=self._proxy_for(target.url),
            )
        except TimeoutError:
            self._metrics.broken.labels("timeout").inc()
            if request.status:
                raise
            await request.refuse(504, f"the upstream {target.name!r} did not answer in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if request.left:
                raise ClientGone from None
            self._metrics.broken.labels("unreachable").inc()
            if request.status:
                raise
            await request.refuse(502, f"the upstream {target.name!r} cannot be reached: {type(error).__name__}")
        return None

    async def post(self, target: UpstreamTarget, headers: list[tuple[str, str]], body: bytes) -> tuple[int, bytes]:
        """Post a body of the proxy's own; return the status and the response's body, decompressed."""
        assert self._client is not None
        async with self._client.post(URL(target.url, encoded=True), data=body, headers=headers) as answer:
            return answer.status, decompress_beginning(await answer.read(), answer.headers.get("content-encoding", ""))

    async def relay(
        self, request: ClientRequest, response: aiohttp.ClientResponse, watch: UsageWatch, head: bytes = b""
    ) -> None:
        """Relay a response as it arrives, past `watch`; `head` are bytes of its body that were already read."""
        await request.start(response.status, response_headers(response))
        with self.propagate_disconnect():
            if head:
                watch.feed(head)
                await request.write(head)
            async for chunk in response.content.iter_any():
                watch.feed(chunk)
                await request.write(chunk)
        await request.write(b"", more=False)
        watch.close()

    @contextlib.contextmanager
    def propagate_disconnect(self) -> Iterator[None]:
        """Break the client's connection if the upstream's broke."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._metrics.broken.labels("broke off").inc()
            _log.warning("the upstream broke off: %s", type(error).__name__)
            raise ConnectionResetError("the upstream broke off") from None

    def _proxy_for(self, url: str) -> str | None:
        """Return the URL of the HTTP proxy for an upstream URL; None if there is none."""
        parts = urlsplit(url)
        return self._proxy_by_host(parts.scheme, parts.hostname or "") if self._proxies else None

    def _find_proxy(self, scheme: str, host: str) -> str | None:
        """Look the proxy up by scheme, after the exceptions of `no_proxy`."""
        if not host or proxy_bypass(host):
            return None
        return self._proxies.get(scheme) or self._proxies.get("all")
