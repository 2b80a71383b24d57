"""Which phase a task is in, told from what the agent does: explore, locate, repair or verify (seed 3).

Every round votes by its calls; the phase changes when the votes of the newest rounds agree, so that one odd call does
not turn it.
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
_VOTES = 3
"""Newest rounds that vote."""
_NEEDED = 2
"""Votes that turn the phase."""


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
            newest = self._votes[-_VOTES:]
            before = self.by_turn[turns[self._at - 1]] if self._at else newest[-1]
            best = max(PHASES, key=newest.count)
            self.by_turn[turn] = best if newest.count(best) >= _NEEDED else before
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
