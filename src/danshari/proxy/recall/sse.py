"""Server-sent events one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from danshari.proxy.body.json_patch import dumped
from danshari.proxy.http.usage_watch import blank, data_of, parsed


class Events:
    """Cuts bytes into events."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take bytes in; give the events that are whole, with their blank line."""
        self._held += chunk
        while (at := blank(self._held)) is not None:
            event = bytes(self._held[: at[1]])
            del self._held[: at[1]]
            yield event

    def rest(self) -> bytes:
        """Give what is left at the end."""
        return bytes(self._held)


def value_of(event: bytes) -> Any:
    """Read an event's JSON; None if it holds none."""
    return parsed(data_of(event))


def written(event: bytes, value: Mapping[str, Any]) -> bytes:
    """Write an event with another value; its other lines stay."""
    lines = [line for line in event.replace(b"\r\n", b"\n").strip(b"\n").split(b"\n") if not line.startswith(b"data:")]
    made = b"data: " + dumped(dict(value)).encode("utf-8")
    return b"\n".join([*lines, made]) + b"\n\n"
