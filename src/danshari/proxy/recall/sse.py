"""Split a byte stream into server-sent events, and read and rewrite their data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from danshari.proxy.body.json_patch import dump_compact_json
from danshari.proxy.http.usage_watch import event_data, find_event_end, parse_json_or_none


class EventSplitter:
    """Splits bytes into server-sent events."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Read bytes; yield the events that are complete, with their blank line."""
        self._held += chunk
        while (at := find_event_end(self._held)) is not None:
            event = bytes(self._held[: at[1]])
            del self._held[: at[1]]
            yield event

    def remainder(self) -> bytes:
        """Return the bytes after the last complete event."""
        return bytes(self._held)


def event_value(event: bytes) -> Any:
    """Return an event's parsed JSON; None if it holds none."""
    return parse_json_or_none(event_data(event))


def replace_event_data(event: bytes, value: Mapping[str, Any]) -> bytes:
    """Return an event with other JSON data; its other lines are kept."""
    lines = [line for line in event.replace(b"\r\n", b"\n").strip(b"\n").split(b"\n") if not line.startswith(b"data:")]
    made = b"data: " + dump_compact_json(dict(value)).encode("utf-8")
    return b"\n".join([*lines, made]) + b"\n\n"
