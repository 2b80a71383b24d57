"""The phase a task is in, judged by what the agent does: explore, locate, repair or verify.

Every round votes by its calls. An edit or a test run changes the phase at once. Reading and
searching change it only when two rounds in a row do so, so that one look back does not interrupt a
repair.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Literal, get_args

from danshari.analysis.tools import ToolAction
from danshari.core.items import Item
from danshari.core.text import lazy_pattern

Phase = Literal["explore", "locate", "repair", "verify"]
PHASES: tuple[Phase, ...] = get_args(Phase)
_TEST = lazy_pattern(
    r"\b(?:pytest|unittest|tox|nox|go test|go vet|cargo (?:test|check)|jest|vitest|mocha|rspec|phpunit|ctest"
    r"|(?:npm|yarn|pnpm|bun)(?: run)? (?:test|lint|build)|mvn \S*(?:test|verify)|gradlew? \S*test|dotnet test"
    r"|make (?:test|check|lint)|mypy|ruff|eslint|tsc|golangci-lint|runtests)\b"
)
_DECISIVE = ("repair", "verify")
"""Votes that turn the phase at once."""


class PhaseTracker:
    """The phase of every round with calls; extended as rounds finish, never recomputed."""

    __slots__ = ("_acts", "_at", "_files", "_items", "_pending", "_turns", "_votes", "by_turn")

    def __init__(
        self, items: Sequence[Item], acts: Mapping[int, ToolAction], turns: Sequence[int], pending: Container[int]
    ) -> None:
        self._items, self._acts, self._turns, self._pending = items, acts, turns, pending
        self._at = 0
        self._votes: list[Phase] = []
        self._files: set[str] = set()
        self.by_turn: dict[int, Phase] = {}
        """Turn of a round with calls → phase it ended in."""

    def phase_at(self, turn: int) -> Phase:
        """Return the phase of a turn; a turn without calls has the phase of the round before."""
        self._grow()
        while turn > 0 and turn not in self.by_turn:
            turn -= 1
        return self.by_turn.get(turn, "explore")

    def rounds_in_phase(self) -> int:
        """Return how many rounds the present phase has lasted."""
        self._grow()
        found = list(self.by_turn.values())
        count = 0
        while count < len(found) and found[-1 - count] == found[-1]:
            count += 1
        return count

    def _grow(self) -> None:
        """Assign a phase to every round whose results have all arrived."""
        while len(self.by_turn) < len(self._turns):
            turn, start = self._turns[len(self.by_turn)], self._at
            end = start
            while end < len(self._items) and self._items[end].turn <= turn:
                end += 1
            if any(at in self._pending for at in range(start, end)):
                return
            vote = self._vote(start, end)
            before = next(reversed(self.by_turn.values()), vote)
            turned = vote in _DECISIVE or not self._votes or self._votes[-1] == vote
            self._votes.append(vote)
            self.by_turn[turn] = vote if turned else before
            self._at = end

    def _vote(self, start: int, end: int) -> Phase:
        """Return the phase that the calls of a round point to; the strongest call decides."""
        vote: Phase = "explore"
        for at in range(start, end):
            act = self._acts.get(at)
            if act is None:
                continue
            if act.kind in ("edit", "write"):
                return "repair"
            if act.kind == "run" and _TEST.search(act.command):
                vote = "verify"
            elif vote == "explore" and act.kind in ("read", "search") and act.path:
                vote = "locate" if act.path in self._files or act.start > 1 else vote
            if act.path:
                self._files.add(act.path)
        return vote
