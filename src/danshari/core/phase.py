"""Which phase a task is in, told from what the agent does: explore, locate, repair or verify (seed 3).

Every round votes by its calls. An edit or a test run turns the phase at once; looking around turns it only when two
rounds in a row do, so that one look back while repairing does not.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from danshari.core.facts import Facts

Phase = Literal["explore", "locate", "repair", "verify"]
PHASES: tuple[Phase, ...] = get_args(Phase)
_TEST = re.compile(
    r"\b(?:pytest|unittest|tox|nox|go test|go vet|cargo (?:test|check)|jest|vitest|mocha|rspec|phpunit|ctest"
    r"|(?:npm|yarn|pnpm|bun)(?: run)? (?:test|lint|build)|mvn \S*(?:test|verify)|gradlew? \S*test|dotnet test"
    r"|make (?:test|check|lint)|mypy|ruff|eslint|tsc|golangci-lint|runtests)\b"
)
_STRONG = ("repair", "verify")
"""Votes that turn the phase at once."""


class Phases:
    """The phase of every round with calls; grown, never recomputed."""

    __slots__ = ("_at", "_facts", "_files", "_votes", "by_turn")

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._at = 0
        self._votes: list[Phase] = []
        self._files: set[str] = set()
        self.by_turn: dict[int, Phase] = {}
        """Turn of a round with calls → phase it ended in."""

    def at(self, turn: int) -> Phase:
        """Give the phase of a turn; a turn without calls is in that of the round before."""
        self._grow()
        while turn > 0 and turn not in self.by_turn:
            turn -= 1
        return self.by_turn.get(turn, "explore")

    def since(self) -> int:
        """Give how many rounds the present phase has lasted."""
        self._grow()
        found = list(self.by_turn.values())
        count = 0
        while count < len(found) and found[-1 - count] == found[-1]:
            count += 1
        return count

    def _grow(self) -> None:
        """Take in every round whose results are there."""
        turns = self._facts.call_turns
        while self._at < len(turns):
            turn = turns[self._at]
            if turn >= self._facts.turn and self._facts.pending:
                return
            self._votes.append(self._vote(turn))
            vote, last = self._votes[-1], self._votes[-2:]
            turned = vote in _STRONG or not self._at or last[0] == vote
            self.by_turn[turn] = vote if turned else self.by_turn[turns[self._at - 1]]
            self._at += 1

    def _vote(self, turn: int) -> Phase:
        """Say what a round looks like: the most telling of its calls decides."""
        facts, vote = self._facts, "explore"
        for at in range(facts.before(turn), facts.before(turn + 1)):
            act = facts.acts.get(at)
            if act is None:
                continue
            if act.kind in ("edit", "write"):
                return "repair"
            if act.kind == "run" and _TEST.search(act.command):
                vote = "verify"
            elif vote == "explore" and act.kind in ("read", "search") and act.path:
                known = act.path in self._files
                vote = "locate" if known or act.start > 1 else vote
            if act.path:
                self._files.add(act.path)
        return vote  # type: ignore[return-value]
