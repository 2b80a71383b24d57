"""Looks at an answer as it goes by: what was billed, whether it ended. Nothing is held up or changed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

LARGEST = 32_000_000
"""Bytes of one event or of an answer in one piece beyond which it is not looked at."""
READABLE = ("", "identity", "gzip", "deflate")
"""Content encodings that can be looked into."""


class Watch:
    """Reads an answer's usage while its bytes pass."""

    def __init__(self, content_type: str, encoding: str = "") -> None:
        self.usage: dict[str, Any] = {}
        """As the provider reported it, merged over the events of a stream."""
        self.error: Any = None
        """The last error object that was seen."""
        self.finished = False
        """Whether the stream said that it is complete."""
        self._streams = content_type.startswith("text/event-stream")
        self._held = bytearray()
        self._readable = encoding in READABLE
        self._unpack = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes."""
        if not self._readable or len(self._held) > LARGEST:
            return
        if self._unpack is not None:
            try:
                chunk = self._unpack.decompress(chunk)
            except zlib.error:
                self._readable = False
                return
        self._held += chunk
        if self._streams:
            for event in self._events():
                self._event(event)

    def close(self) -> None:
        """Say that no more bytes come."""
        if self._readable and not self._streams and self._held:
            self._value(parsed(bytes(self._held)))
            self.finished = True

    def _events(self) -> Iterator[bytes]:
        """Take complete events off what is held."""
        while (at := blank(self._held)) is not None:
            event = bytes(self._held[: at[0]])
            del self._held[: at[1]]
            yield event

    def _event(self, event: bytes) -> None:
        if b"usage" not in event and b"error" not in event and b"message_stop" not in event and b"[DONE]" not in event:
            return
        data = data_of(event)
        if data == b"[DONE]":
            self.finished = True
            return
        value = parsed(data)
        if isinstance(value, dict):
            self.finished = self.finished or value.get("type") in ("message_stop", "response.completed")
        self._value(value)

    def _value(self, value: Any) -> None:
        if not isinstance(value, Mapping):
            return
        for holder in (value, value.get("message"), value.get("response")):
            if isinstance(holder, Mapping):
                if isinstance(usage := holder.get("usage"), Mapping):
                    self.usage.update({k: v for k, v in usage.items() if v is not None})
                if holder.get("error"):
                    self.error = holder["error"]


def blank(held: bytearray) -> tuple[int, int] | None:
    """Find the end of the first event: where its text ends and where the next one begins."""
    found = [(at, at + len(mark)) for mark in (b"\n\n", b"\r\n\r\n", b"\r\r") if (at := held.find(mark)) >= 0]
    return min(found, default=None)


def data_of(event: bytes) -> bytes:
    """Join an event's data lines."""
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def parsed(data: bytes) -> Any:
    """Read JSON; None for anything else."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
