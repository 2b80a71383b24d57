"""Read compressed request bodies, and write them back in the encoding they came in."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]

from danshari.proxy.http.request import BodyTooLarge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_GZIP, _ZLIB_OR_GZIP = 31, 47


class _Coding(NamedTuple):
    """One content coding (RFC 9110, 8.4.1)."""

    decode: Callable[[bytes, int], bytes]
    """(bytes, most bytes of the result) → the result; raises BodyTooLarge or ValueError."""
    encode: Callable[[bytes], bytes]


def _inflate(data: bytes, most: int) -> bytes:
    """Decompress gzip or deflate; some clients send deflate without its frame."""
    for wbits in (_ZLIB_OR_GZIP, -zlib.MAX_WBITS):
        reader = zlib.decompressobj(wbits=wbits)
        try:
            read = reader.decompress(data, most + 1)
        except zlib.error:
            continue
        return _complete(read, most, ended=reader.eof)
    raise ValueError("no gzip or deflate data")


def _unzstd(data: bytes, most: int) -> bytes:
    reader = zstd.ZstdDecompressor()
    try:
        read = reader.decompress(data, max_length=most + 1)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from None
    return _complete(read, most, ended=reader.eof)


def _unbrotli(data: bytes, most: int) -> bytes:
    reader = brotli.Decompressor()
    try:
        read = bytes(reader.process(data, output_buffer_limit=most + 1))
        while len(read) <= most and not reader.can_accept_more_data():
            read += bytes(reader.process(b"", output_buffer_limit=most + 1 - len(read)))
    except brotli.error as error:
        raise ValueError(str(error)) from None
    return _complete(read, most, ended=reader.is_finished())


def _complete(read: bytes, most: int, *, ended: bool) -> bytes:
    """Return what was decompressed; raises BodyTooLarge if that is too much, ValueError if the end is missing."""
    if len(read) > most:
        raise BodyTooLarge
    if not ended:
        raise ValueError("the compressed data breaks off")
    return read


def _gzip(data: bytes) -> bytes:
    writer = zlib.compressobj(level=5, wbits=_GZIP)
    return writer.compress(data) + writer.flush()


CODINGS: dict[str, _Coding] = {
    "gzip": _Coding(_inflate, _gzip),
    "x-gzip": _Coding(_inflate, _gzip),
    "deflate": _Coding(_inflate, lambda data: zlib.compress(data, 5)),
    "zstd": _Coding(_unzstd, lambda data: zstd.compress(data, 3)),
    "br": _Coding(_unbrotli, lambda data: bytes(brotli.compress(data, quality=4))),
}
"""Content codings by name, with levels that cost less time than they save on the wire."""


def known_codings(header: str) -> list[str] | None:
    """Return the codings of a `content-encoding` header in the order they were applied; None if one is unknown."""
    names = [name for part in header.lower().split(",") if (name := part.strip()) not in ("", "identity")]
    return names if all(name in CODINGS for name in names) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedBody:
    """A request body as its client compressed it."""

    sent: bytes
    plain: bytes
    codings: tuple[str, ...]
    """In the order of the client's steps."""

    def write(self, data: bytes) -> bytes:
        """Return the bytes to send for a body: the client's own if it did not change, else compressed likewise."""
        if data == self.plain:
            return self.sent
        for name in self.codings:
            data = CODINGS[name].encode(data)
        return data


def read_compressed(data: bytes, header: str, most: int) -> CompressedBody:
    """Read a body compressed as its `content-encoding` header says.

    Raises BodyTooLarge as soon as it has more than `most` bytes, and ValueError if it is damaged.
    """
    codings, plain = known_codings(header) or [], data
    for name in reversed(codings):
        plain = CODINGS[name].decode(plain, most)
    return CompressedBody(sent=data, plain=plain, codings=tuple(codings))
