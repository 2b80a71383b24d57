"""Scripted turns, for tests and demonstrations: what a scripted conversation or provider says, in any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

DELTA_CHARACTERS = 40
"""Characters of one stream delta."""
TurnUsage = dict[str, int]
"""fresh, cached, written and output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call of a scripted turn, with the result it will get. Without a result it stays unanswered."""

    name: str
    arguments: dict[str, Any]
    result: str | None = "ok"
    failed: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A scripted assistant turn: text, thinking, calls, and what the user says after it."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    user: str = ""


class MessageBuilder:
    """Base class that collects messages. Every provider's folder has one for its own format."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def system(self, text: str) -> None:
        """Add a system prompt."""
        raise NotImplementedError

    def user(self, text: str) -> None:
        """Add what the user says."""
        raise NotImplementedError

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Add an assistant turn with its calls, and their results."""
        raise NotImplementedError


class ProviderScript:
    """How one provider words a scripted conversation. Every provider's folder has a module `scripted` with one."""

    builder: type[MessageBuilder]

    def response(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> dict[str, Any]:
        """Return a turn as one JSON response; `number` makes ids unique."""
        raise NotImplementedError

    def stream(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> Iterator[bytes]:
        """Yield a turn as server-sent events."""
        raise NotImplementedError


def split_deltas(text: str) -> list[str]:
    """Split a text into stream deltas."""
    return [text[n : n + DELTA_CHARACTERS] for n in range(0, len(text), DELTA_CHARACTERS)]


def call_ids(turn: Turn, number: int, prefix: str) -> list[str]:
    """Return the ids of a turn's calls."""
    return [call.id or f"{prefix}_{number:04d}_{n}" for n, call in enumerate(turn.calls)]
