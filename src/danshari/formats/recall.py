"""Recall calls that the proxy answers: hidden from the client, re-inserted into requests to the model.

Every provider's folder has a module `recall` with a `RecallFormat`. It knows which parts of a response to hide, how
to filter a stream, and how the hidden call and its result look in a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from danshari.core.recall_tools import RECALL_TOOL_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenCall:
    """A recall call of the model that the client does not see."""

    id: str
    name: str
    arguments: str
    """JSON text."""


@dataclass(slots=True, kw_only=True)
class ResponseParts:
    """One model response, split into hidden recall calls and the rest."""

    hidden: list[HiddenCall] = field(default_factory=list)
    others: bool = False
    """Whether it holds calls that are the client's to answer."""
    messages: list[Any] = field(default_factory=list)
    """The answer as it would stand in a request, hidden calls included."""
    ended: bool = True
    """Whether it ended as an answer with calls does; a broken or cut one is no hop."""
    late: bytes = b""
    """What the client sees of the event that ended it, where the provider says both in one."""

    @property
    def is_hop(self) -> bool:
        """Whether the response ended normally with recall calls and no call that the client must answer."""
        return bool(self.hidden) and not self.others and self.ended


class StreamFilter(Protocol):
    """Filters hidden calls out of an event stream that may span several model responses."""

    def feed(self, event: bytes) -> bytes:
        """Read one event (without its blank line); return the bytes to show to the client."""

    def end_response(self) -> ResponseParts:
        """Return the response that just ended; its end events are held back."""

    def closing_events(self) -> bytes:
        """Return the events that end the client's stream."""

    def pending_events(self) -> bytes:
        """Return the events held back so far, unchanged; used after an internal error."""

    def error_event(self, body: bytes) -> bytes:
        """Return a provider's error to a later request as a stream event."""

    @property
    def last(self) -> Mapping[str, Any]:
        """The usage of the last response alone."""


class BaseStreamFilter:
    """Base of the stream filters: usage per response, and the events held back at its end."""

    def __init__(self) -> None:
        self._usages: list[dict[str, Any]] = []
        self._held: list[tuple[bytes, Any]] = []
        self._answers = 0

    def _record_end(self, turn: ResponseParts) -> None:
        """Record the end of a response: its end events, and whether the turn stops or goes on.

        Also records whether anything was hidden so far.
        """
        self._answers += 1
        self._closing, self._hid = self._held, bool(turn.hidden) or self._answers > 1
        self._stops = not turn.others

    @property
    def last(self) -> Mapping[str, Any]:
        """The usage of the last response alone."""
        return self._usages[-1] if self._usages else {}

    def closing_events(self) -> bytes:
        """Return the events that end the client's stream; `_closing_event` mends each if anything was hidden."""
        return b"".join(self._closing_event(*held) if self._hid else held[0] for held in self._closing)

    def _closing_event(self, event: bytes, value: Any) -> bytes:
        """Return an end event as the client should see it, with the usage of all responses."""
        raise NotImplementedError

    def pending_events(self) -> bytes:
        """Return the events held back so far, unchanged."""
        return b"".join(event for event, _ in self._held)


class RecallFormat(Protocol):
    """How one format represents hidden recall calls."""

    def stream_filter(self) -> StreamFilter:
        """Return a filter for a new stream."""

    def parse_response(self, answer: Mapping[str, Any]) -> ResponseParts:
        """Split a non-streamed response."""

    def visible_response(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a response without hidden calls; content and usage of earlier responses are included."""

    def result_messages(self, turn: ResponseParts, texts: Sequence[str]) -> list[Any]:
        """Return the messages that carry the results of the hidden calls."""

    def remove_earlier(self, messages: Sequence[Any], at: int, turns: Sequence[ResponseParts]) -> list[Any]:
        """Remove from the assistant message at index `at` the content of earlier responses in the same turn.

        Those responses are inserted before it as messages of their own.
        """

    def merge_hop(self, messages: Sequence[Any], at: int, turn: ResponseParts, results: Sequence[Any]) -> list[Any]:
        """Add hidden calls and results to the client's own calls, which are in the message at index `at`."""


def may_become_recall(name: str) -> bool:
    """Return whether the beginning of a call's name may be that of a recall tool."""
    return any(tool.startswith(name) for tool in RECALL_TOOL_NAMES)


def sum_usage_fields(usages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up usage reports field by field; of a field that is no number, the last value is kept."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items():
            before = total.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                parts = [part for part in (before, value) if isinstance(part, Mapping)]
                total[name] = sum_usage_fields(parts) if isinstance(value, Mapping) else value
            else:
                total[name] = value + (before if isinstance(before, int | float) else 0)
    return total
