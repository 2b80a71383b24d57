"""Headers on their way up and down, and packed beginnings of bodies."""

from __future__ import annotations

import contextlib
import zlib

import aiohttp

from danshari.proxy.body.outgoing import OFF_HEADER, Sending
from danshari.proxy.http.request import HOPS, Call
from danshari.proxy.http.routes import UPSTREAM_HEADER
from danshari.proxy.http.usage_watch import READABLE
from danshari.proxy.sessions.clients import SESSION_HEADER

TOKEN_HEADER = "x-danshari-token"
AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""What the upstream client would add by itself."""
_OURS = {name.encode() for name in (UPSTREAM_HEADER, TOKEN_HEADER, OFF_HEADER, SESSION_HEADER)}
_NEVER = HOPS | _OURS | {b"host", b"expect"}


def has_body(call: Call) -> bool:
    """Say whether a request has a body."""
    return "content-length" in call.headers or "transfer-encoding" in call.headers


def forwarded(call: Call, sending: Sending) -> list[tuple[str, str]]:
    """Give the headers that go on: all but those of the connection and our own."""
    named = {part.strip().lower().encode() for part in call.headers.get("connection", "").split(",")}
    skipped = _NEVER | named | {name.encode() for name in sending.headers}
    if call.route is not None:
        skipped |= {b"content-length"}
    sent = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in call.raw_headers if k not in skipped]
    if sending.keeper is not None:
        plain = sending.keeper.recalls is not None and bool(sending.keeper.recalls.offered)
        sent = [(k, ("identity" if plain else _encodings(v)) if k == "accept-encoding" else v) for k, v in sent]
    return sent + list(sending.headers.items())


def _encodings(accepted: str) -> str:
    """Leave only encodings that can be looked into, for billed usage stands in the answer."""
    kept = [part for part in accepted.split(",") if part.partition(";")[0].strip().lower() in READABLE]
    return ",".join(kept).strip() or "identity"


def answer_headers(response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """Give the answer's headers but those of the connection, as they were spelled, doubles included."""
    return [(k.lower(), v) for k, v in response.raw_headers if k.lower() not in HOPS]


async def beginning(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read the beginning of an answer, up to `most` bytes; what a broken upstream sent so far."""
    read = b""
    with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
        while len(read) < most and (part := await response.content.read(most - len(read))):
            read += part
    return read


def unpacked(body: bytes, encoding: str) -> bytes:
    """Unpack the beginning of a body, as far as it goes."""
    if encoding not in ("gzip", "deflate"):
        return body
    try:
        return zlib.decompressobj(wbits=47).decompress(body)
    except zlib.error:
        return b""
