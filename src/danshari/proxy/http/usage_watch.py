"""Read token usage, errors and completion from a response while its bytes pass through unchanged."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

MAX_WATCHED_BYTES = 32_000_000
"""Bytes of one event or of an answer in one piece beyond which it is not looked at."""
READABLE_ENCODINGS = ("", "identity", "gzip", "deflate")
"""Content encodings that can be looked into."""


class UsageWatch:
    """Reads the usage of one response while its bytes pass, streamed or in one piece."""

    def __init__(self, content_type: str, encoding: str = "") -> None:
        self.usage: dict[str, Any] = {}
        """As the provider reported it, merged over the events of a stream."""
        self.error: Any = None
        """The last error object that was seen."""
        self.finished = False
        """Whether the stream said that it is complete."""
        self._streams = content_type.startswith("text/event-stream")
        self._held = bytearray()
        self._readable = encoding in READABLE_ENCODINGS
        self._unpack = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes."""
        if not self._readable or len(self._held) > MAX_WATCHED_BYTES:
            return
        if self._unpack is not None:
            try:
                chunk = self._unpack.decompress(chunk)
            except zlib.error:
                self._readable = False
                return
        self._held += chunk
        if self._streams:
            for event in self._take_events():
                self._read_event(event)

    def close(self) -> None:
        """Signal the end of the response; a JSON response is parsed here."""
        if self._readable and not self._streams and self._held:
            self._read_usage(parse_json_or_none(bytes(self._held)))
            self.finished = True

    def _take_events(self) -> Iterator[bytes]:
        """Remove complete events from the buffer and yield them."""
        while (at := find_event_end(self._held)) is not None:
            event = bytes(self._held[: at[0]])
            del self._held[: at[1]]
            yield event

    def _read_event(self, event: bytes) -> None:
        """Read one server-sent event; events that cannot hold usage, an error or the end are skipped unparsed."""
        if b"usage" not in event and b"error" not in event and b"message_stop" not in event and b"[DONE]" not in event:
            return
        data = event_data(event)
        if data == b"[DONE]":
            self.finished = True
            return
        value = parse_json_or_none(data)
        if isinstance(value, dict):
            self.finished = self.finished or value.get("type") in ("message_stop", "response.completed")
        self._read_usage(value)

    def _read_usage(self, value: Any) -> None:
        """Merge the usage and the error of a parsed event or response."""
        if not isinstance(value, Mapping):
            return
        for holder in (value, value.get("message"), value.get("response")):
            if isinstance(holder, Mapping):
                if isinstance(usage := holder.get("usage"), Mapping):
                    self.usage.update({k: v for k, v in usage.items() if v is not None})
                if holder.get("error"):
                    self.error = holder["error"]


def find_event_end(held: bytearray) -> tuple[int, int] | None:
    """Find the blank line after the first event; return where it starts and ends, or None."""
    found = [(at, at + len(mark)) for mark in (b"\n\n", b"\r\n\r\n", b"\r\r") if (at := held.find(mark)) >= 0]
    return min(found, default=None)


def event_data(event: bytes) -> bytes:
    """Return an event's data lines, joined by newlines."""
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def parse_json_or_none(data: bytes) -> Any:
    """Parse JSON; return None for anything else."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
