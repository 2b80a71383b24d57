"""Recalls that the proxy answers itself: taken out of what the client sees, put back into what the model sees.

One file a format. A format says what of an answer is hidden, how a stream is shown without it, and in what shape the
hidden call and its result go upstream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from danshari.pipeline.recall import READ, SEARCH

NAMES = frozenset((SEARCH, READ))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """One recall that a model asked for."""

    id: str
    name: str
    arguments: str
    """JSON text."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One answer of the model, taken apart."""

    hidden: list[Hidden] = field(default_factory=list)
    others: bool = False
    """Whether it holds calls that are the client's to answer."""
    messages: list[Any] = field(default_factory=list)
    """The answer as it would stand in a request, hidden calls included."""
    ended: bool = True
    """Whether it ended as an answer with calls does; a broken or cut one is no hop."""
    late: bytes = b""
    """What the client sees of the event that ended it, where the provider says both in one."""

    @property
    def hop(self) -> bool:
        """Whether the proxy alone can answer it."""
        return bool(self.hidden) and not self.others and self.ended


class Stream(Protocol):
    """Shows a stream without what is hidden, over as many answers as it takes."""

    def feed(self, event: bytes) -> bytes:
        """Take one event (without its blank line) in; give what the client sees of it."""

    def end(self) -> Turn:
        """Give the answer that just ended; what ended it is held back."""

    def closing(self) -> bytes:
        """Give what ends the client's stream."""

    def held(self) -> bytes:
        """Give what was held back so far, as it came: for when we fail."""

    def failed(self, body: bytes) -> bytes:
        """Tell an error that the provider answered a later request with, as an event of the stream."""

    @property
    def last(self) -> Mapping[str, Any]:
        """The usage of the last answer alone."""


class Shown:
    """What streams of every format keep: usage by answer, and the events that end one."""

    def __init__(self) -> None:
        self._usages: list[dict[str, Any]] = []
        self._held: list[tuple[bytes, Any]] = []
        self._answers = 0

    def _close(self, turn: Turn) -> None:
        """Note that an answer ended: what its end was, whether anything was hidden so far, whether the client stops."""
        self._answers += 1
        self._closing, self._hid = self._held, bool(turn.hidden) or self._answers > 1
        self._stops = not turn.others

    @property
    def last(self) -> Mapping[str, Any]:
        """The usage of the last answer alone."""
        return self._usages[-1] if self._usages else {}

    def held(self) -> bytes:
        """Give what was held back so far, as it came."""
        return b"".join(event for event, _ in self._held)


class Shape(Protocol):
    """What a format knows of hidden calls."""

    def stream(self) -> Stream:
        """Begin to show a stream."""

    def turn(self, answer: Mapping[str, Any]) -> Turn:
        """Take an answer in one piece apart."""

    def visible(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Give an answer without what is hidden, its usage added up with that of earlier answers."""

    def results(self, turn: Turn, texts: Sequence[str]) -> list[Any]:
        """Give the messages that carry the results of the hidden calls."""

    def rest(self, messages: Sequence[Any], at: int, turns: Sequence[Turn]) -> list[Any]:
        """Take out of the client's answer at `at` what earlier answers of its turn said: they stand before it."""

    def merged(self, messages: Sequence[Any], at: int, turn: Turn, results: Sequence[Any]) -> list[Any]:
        """Put hidden calls and results beside the client's own calls, which stand in the message at `at`."""


def summed(usages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add usage reports up, field by field; what is no number is the last one's."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, value in usage.items():
            before = total.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                parts = [part for part in (before, value) if isinstance(part, Mapping)]
                total[name] = summed(parts) if isinstance(value, Mapping) else value
            else:
                total[name] = value + (before if isinstance(before, int | float) else 0)
    return total


def shapes() -> dict[str, Shape]:
    """Give the formats by name."""
    from danshari.proxy.recall.anthropic import Anthropic
    from danshari.proxy.recall.openai_chat import Chat
    from danshari.proxy.recall.openai_responses import Responses

    return {"anthropic": Anthropic(), "openai-chat": Chat(), "openai-responses": Responses()}
