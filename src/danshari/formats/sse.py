"""Server-sent events: split a byte stream into events, read their JSON, write them with other JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from danshari.core.text import is_valid_text


class EventSplitter:
    """Splits bytes into events as they arrive."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._seen = 0
        """Bytes held in which no event ends."""

    def __len__(self) -> int:
        """Return the bytes held back."""
        return len(self._held)

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Read bytes; yield the events that are complete, each with its blank line."""
        self._held += chunk
        while (at := find_event_end(self._held, self._seen)) is not None:
            event = bytes(self._held[: at[1]])
            del self._held[: at[1]]
            self._seen = 0
            yield event
        self._seen = max(len(self._held) - 3, 0)  # the longest mark but one byte may stand there already

    def remainder(self) -> bytes:
        """Return the bytes after the last complete event."""
        return bytes(self._held)


def find_event_end(held: bytearray, start: int = 0) -> tuple[int, int] | None:
    """Find the blank line after the first event; return where it starts and ends, or None.

    Nothing is looked for before `start`.
    """
    found: tuple[int, int] | None = None
    for mark in (b"\n\n", b"\r\n\r\n", b"\r\r"):
        at = held.find(mark, start, len(held) if found is None else found[1])
        if at >= 0 and (found is None or at < found[0]):
            found = at, at + len(mark)
    return found


def event_data(event: bytes) -> bytes:
    """Return an event's data lines, joined by newlines."""
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def event_value(event: bytes) -> Any:
    """Return an event's parsed JSON; None if it holds none."""
    return parse_json_or_none(event_data(event))


def parse_json_or_none(data: bytes) -> Any:
    """Parse JSON; return None for anything else."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def replace_event_data(event: bytes, value: Mapping[str, Any]) -> bytes:
    """Return an event with other JSON data; its other lines are kept."""
    lines = [line for line in event.replace(b"\r\n", b"\n").strip(b"\n").split(b"\n") if not line.startswith(b"data:")]
    made = b"data: " + dump_compact_json(dict(value)).encode("utf-8")
    return b"\n".join([*lines, made]) + b"\n\n"


def render_event(value: Any, name: str = "") -> bytes:
    """Return a new event as bytes; `name` is its `event:` line, if any."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def dump_compact_json(value: Any) -> str:
    """Serialise a value as the providers' SDKs do: compact and not ASCII-escaped.

    Text with lone surrogates, which UTF-8 cannot encode, is escaped.
    """
    made = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return made if made.isascii() or is_valid_text(made) else json.dumps(value, separators=(",", ":"))
