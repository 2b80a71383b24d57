"""What a view must still show besides references: user words, rules, files, failures, todo, test status.

Extracted from the session alone, at chosen rounds; the scorer checks whether a contender's view
still shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.analysis.facts import is_failure_output
from danshari.analysis.lines import select_telling_lines
from danshari.core.text import parse_arguments
from danshari.replay.line_index import argument_texts
from danshari.replay.references import SessionNeeds

STATE_INTERVAL = 5
"""Rounds between two looks at state, and between two snapshots."""
PASTE_CHARACTERS = 8_000
"""Characters; a longer user text is an outsized paste, not words."""
_TEST = re.compile(
    r"\b(?:pytest|py\.test|unittest|go test|cargo (?:test|nextest)|jest|vitest|mocha|npm (?:run )?test|yarn test"
    r"|pnpm test|runtests|tox|ctest|phpunit|rspec|mise run test|make test)\b"
    r"|(?m:^)(?>.*?\b(?:mvn|gradlew?)\b).*\btest\b"
)
_DONE = {"completed", "done", "cancelled", "canceled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempt:
    """A failed call: the lines of its command or arguments, and the lines that state the error."""

    call: tuple[int, ...]
    outcome: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class RoundState:
    """The state of the session before one request."""

    attempts: int = 0
    """How many of the session's failed attempts have happened."""
    failing: FailedAttempt | None = None
    status: tuple[int, ...] = ()
    todo: tuple[int, ...] = ()
    written: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class StateHistory:
    """A session's states by round, its failed attempts, its file changes, and the user words that must stay."""

    states: dict[int, RoundState] = field(default_factory=dict)
    attempts: list[FailedAttempt] = field(default_factory=list)
    changes: dict[str, list[int]] = field(default_factory=dict)
    """Path → positions of results that changed the file."""
    rules: list[tuple[int, int]] = field(default_factory=list)
    """(position of the item, line) in order."""


def build_state_history(needs: SessionNeeds) -> StateHistory:
    """Extract the states of a session in one pass."""
    walker = _StateTracer(needs)
    last = len(needs.rounds)
    for r in needs.rounds:
        walker.advance(r.items)
        if r.number % STATE_INTERVAL == 0 or r.number == last:
            walker.made.states[r.number] = walker.state()
    walker.advance(len(needs.item_lines))
    return walker.made


class _StateTracer:
    """Walks through a session's items and tracks failures, test status, todo items and written files."""

    def __init__(self, needs: SessionNeeds) -> None:
        self.needs, self.made = needs, StateHistory()
        self._at = 0
        self._failing: dict[str, FailedAttempt] = {}
        self._status: tuple[int, ...] = ()
        self._todo: tuple[int, ...] = ()
        self._written: set[str] = set()

    def advance(self, until: int) -> None:
        facts = self.needs.facts
        while self._at < until:
            at, item = self._at, facts.items[self._at]
            self._at += 1
            if item.kind == "text" and item.role in ("user", "system"):
                self.made.rules += [(at, line) for line in self._rule_lines(at)]
            elif item.kind == "call" and facts.acts[at].kind == "plan":
                self._todo = tuple(n for text in open_todo_texts(item.text) for n in self.needs.lines.of(text))
            elif item.kind == "result" and at in facts.call_of:
                self._read_result(at)

    def state(self) -> RoundState:
        failing_now = list(self._failing.values())
        return RoundState(
            attempts=len(self.made.attempts),
            failing=failing_now[-1] if failing_now else None,
            status=self._status,
            todo=self._todo,
            written=frozenset(self._written),
        )

    def _rule_lines(self, at: int) -> Iterator[int]:
        item = self.needs.facts.items[at]
        markers = data.load_markers()
        if item.role == "system":
            yield from (n for n in self.needs.item_lines[at] if markers.imperative.search(self.needs.lines.keys[n]))
        elif len(item.text) <= PASTE_CHARACTERS and (own := markers.human_text(item.text)):
            whole = set(self.needs.item_lines[at])  # words inside a tag's line stand in no line of their own
            yield from (n for n in self.needs.lines.of(own) if n in whole)

    def _read_result(self, at: int) -> None:
        """Update failures, test status and written files from one tool result."""
        facts = self.needs.facts
        call, item = facts.call_of[at], facts.items[at]
        act, bad = facts.acts[call], item.failed or is_failure_output(item.text)
        attempt = (
            FailedAttempt(call=self.needs.item_lines[call], outcome=self._outcome_lines(item.text)) if bad else None
        )
        if attempt and act.kind in ("run", "edit", "write"):
            self.made.attempts.append(attempt)
        if act.kind == "run" and _TEST.search(act.command):
            key = " ".join(act.command.split())
            self._failing.pop(key, None)
            if attempt:
                self._failing[key] = attempt
            else:
                self._failing.clear()
            self._status = self._outcome_lines(item.text)[-1:]
        if act.kind in ("edit", "write") and not bad and act.path:
            path = facts.file_key(act)
            self.made.changes.setdefault(path, []).append(at)
            self._written.add(path)

    def _outcome_lines(self, text: str) -> tuple[int, ...]:
        """Return the lines that state an outcome, three at most."""
        lines = text.split("\n")[-400:]
        kept = select_telling_lines(lines, 300, (), head=1, tail=2)[:3]
        return tuple(n for place in kept for n in self.needs.lines.of(lines[place]))


def open_todo_texts(arguments: str) -> list[str]:
    """Return the texts of a plan call's items that are not done."""
    found: list[str] = []
    _collect_open_texts(parse_arguments(arguments), found)
    return found


def _collect_open_texts(value: Any, found: list[str]) -> None:
    if isinstance(value, list):
        for inner in value:
            _collect_open_texts(inner, found)
    elif isinstance(value, dict):
        text = next((value[k] for k in ("content", "step", "text", "title") if isinstance(value.get(k), str)), None)
        if text is not None and "status" in value:
            if str(value["status"]) not in _DONE:
                found.append(text)
            return
        for inner in value.values():
            _collect_open_texts(inner, found)


def pointer_lines(needs: SessionNeeds, place: int) -> tuple[int, ...]:
    """Return the lines of an item's call that name its source: path or command."""
    facts = needs.facts
    act = facts.act_at(place)
    if act is None:
        return ()
    named = act.path or act.command
    lines = needs.lines
    call = facts.items[facts.call_of.get(place, place)]
    texts = [leaf for leaf in argument_texts(call.text) if leaf == named or leaf.endswith(named)] if named else []
    return tuple(n for text in texts[:1] for n in lines.of(text)) or needs.item_lines[facts.call_of.get(place, place)]
