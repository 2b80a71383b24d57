"""Select request and response headers to forward, and read the beginnings of response bodies."""

from __future__ import annotations

import contextlib
import zlib

import aiohttp

from danshari.proxy.body.outgoing import OFF_HEADER, OutgoingRequest
from danshari.proxy.http.request import CONNECTION_HEADERS, ClientRequest
from danshari.proxy.http.routes import UPSTREAM_HEADER
from danshari.proxy.http.usage_watch import READABLE_ENCODINGS
from danshari.proxy.sessions.clients import SESSION_HEADER

TOKEN_HEADER = "x-danshari-token"
AUTOMATIC_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the upstream client would add by itself."""
_OWN_HEADERS = {name.encode() for name in (UPSTREAM_HEADER, TOKEN_HEADER, OFF_HEADER, SESSION_HEADER)}
_DROPPED_HEADERS = CONNECTION_HEADERS | _OWN_HEADERS | {b"host", b"expect"}


def has_body(call: ClientRequest) -> bool:
    """Return whether a request has a body."""
    return "content-length" in call.headers or "transfer-encoding" in call.headers


def upstream_headers(call: ClientRequest, sending: OutgoingRequest) -> list[tuple[str, str]]:
    """Return the headers to send upstream: all but those of the connection and the proxy's own.

    `accept-encoding` is limited to what the proxy can read; uncompressed if recall tools are offered.
    """
    named = {part.strip().lower().encode() for part in call.headers.get("connection", "").split(",")}
    skipped = _DROPPED_HEADERS | named | {name.encode() for name in sending.headers}
    if call.route is not None:
        skipped |= {b"content-length"}
    sent = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in call.raw_headers if k not in skipped]
    if sending.keeper is not None:
        plain = sending.keeper.recalls is not None and bool(sending.keeper.recalls.offered)
        sent = [
            (k, ("identity" if plain else _readable_encodings(v)) if k == "accept-encoding" else v) for k, v in sent
        ]
    return sent + list(sending.headers.items())


def _readable_encodings(accepted: str) -> str:
    """Keep the encodings that the proxy can decompress, because it reads billed usage from the response."""
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


def decompress_beginning(body: bytes, encoding: str) -> bytes:
    """Decompress the beginning of a body as far as it goes; b"" if it is malformed."""
    if encoding not in ("gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(wbits=47).decompress(body)
    except zlib.error:
        return b""
