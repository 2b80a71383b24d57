"""Read token usage, errors and completion from a response while its bytes pass through unchanged."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from danshari.formats.api import ProviderApi
from danshari.formats.sse import EventSplitter, event_data, parse_json_or_none

MAX_WATCHED_BYTES = 32_000_000
"""Bytes of one event or of an answer in one piece beyond which it is not looked at."""
READABLE_ENCODINGS = ("", "identity", "gzip", "deflate")
"""Content encodings that can be looked into."""


class UsageWatch:
    """Reads the usage of one response while its bytes pass, streamed or in one piece.

    `api` knows where the provider reports usage; without one nothing is read.
    """

    def __init__(self, api: ProviderApi | None, content_type: str, encoding: str = "") -> None:
        self.usage: dict[str, Any] = {}
        """As the provider reported it, merged over the events of a stream."""
        self.error: Any = None
        """The last error object that was seen."""
        self.finished = False
        """Whether the stream said that it is complete."""
        self._api = api
        self._streams = content_type.startswith("text/event-stream")
        self._events, self._held = EventSplitter(), bytearray()
        self._readable = api is not None and encoding in READABLE_ENCODINGS
        self._unpack = zlib.decompressobj(wbits=47) if encoding in ("gzip", "deflate") else None

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes."""
        if not self._readable or len(self._held) + len(self._events) > MAX_WATCHED_BYTES:
            return
        if self._unpack is not None:
            try:
                chunk = self._unpack.decompress(chunk)
            except zlib.error:
                self._readable = False
                return
        if not self._streams:
            self._held += chunk
            return
        for event in self._events.feed(chunk):
            self._read_event(event)

    def close(self) -> None:
        """Signal the end of the response; a JSON response is parsed here."""
        if self._readable and not self._streams and self._held:
            value = parse_json_or_none(bytes(self._held))
            for part in value if isinstance(value, list) else [value]:  # a stream without events is a list
                self._read_value(part)
            self.finished = True

    def _read_event(self, event: bytes) -> None:
        """Read one server-sent event; events that cannot hold usage, an error or the end are skipped unparsed."""
        assert self._api is not None
        if not any(mark in event for mark in self._api.usage_marks):
            return
        data = event_data(event)
        if data == b"[DONE]":
            self.finished = True
            return
        value = parse_json_or_none(data)
        if isinstance(value, dict):
            self.finished = self.finished or self._api.ends_stream(value)
        self._read_value(value)

    def _read_value(self, value: Any) -> None:
        """Merge the usage and the error of a parsed event or response."""
        if self._api is None or not isinstance(value, Mapping):
            return
        self.usage.update({k: v for k, v in self._api.response_usage(value).items() if v is not None})
        self.error = self._api.response_error(value) or self.error
