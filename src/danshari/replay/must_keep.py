"""What must survive beside references: user words and rules, files written, failures, todo, test status.

Worked out from the session alone, as of chosen rounds; a contender is asked whether its view still shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.analysis.facts import failing
from danshari.analysis.lines import telling
from danshari.core.text import parse_arguments
from danshari.replay.line_index import leaves
from danshari.replay.references import Needs

EVERY = 5
"""Rounds between two looks at state, and between two snapshots."""
PASTE = 8_000
"""Characters; a longer user text is an outsized paste, not words."""
_TEST = re.compile(
    r"\b(?:pytest|py\.test|unittest|go test|cargo (?:test|nextest)|jest|vitest|mocha|npm (?:run )?test|yarn test"
    r"|pnpm test|mvn\b.*\btest|gradlew?\b.*\btest|runtests|tox|ctest|phpunit|rspec|mise run test|make test)\b"
)
_DONE = {"completed", "done", "cancelled", "canceled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A failed call: the lines of its command or arguments, and the lines that tell what went wrong."""

    call: tuple[int, ...]
    outcome: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class State:
    """What is the case before one request."""

    attempts: int = 0
    """How many of the session's failed attempts have happened."""
    failing: Attempt | None = None
    status: tuple[int, ...] = ()
    todo: tuple[int, ...] = ()
    written: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class History:
    """A session's states by round, its failed attempts in order, changes of files, and the words that must stay."""

    states: dict[int, State] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    changes: dict[str, list[int]] = field(default_factory=dict)
    """Path → positions of results that changed the file."""
    rules: list[tuple[int, int]] = field(default_factory=list)
    """(position of the item, line) in order."""


def history_of(needs: Needs) -> History:
    """Walk through a session once."""
    walker = _Walker(needs)
    last = len(needs.rounds)
    for r in needs.rounds:
        walker.advance(r.items)
        if r.number % EVERY == 0 or r.number == last:
            walker.made.states[r.number] = walker.state()
    walker.advance(len(needs.item_lines))
    return walker.made


class _Walker:
    def __init__(self, needs: Needs) -> None:
        self.needs, self.made = needs, History()
        self._at = 0
        self._failing: dict[str, Attempt] = {}
        self._status: tuple[int, ...] = ()
        self._todo: tuple[int, ...] = ()
        self._written: set[str] = set()

    def advance(self, until: int) -> None:
        facts = self.needs.facts
        while self._at < until:
            at, item = self._at, facts.items[self._at]
            self._at += 1
            if item.kind == "text" and item.role in ("user", "system"):
                self.made.rules += [(at, line) for line in self._rules(at)]
            elif item.kind == "call" and facts.acts[at].kind == "plan":
                self._todo = tuple(n for text in open_todo(item.text) for n in self.needs.lines.of(text))
            elif item.kind == "result" and at in facts.call_of:
                self._result(at)

    def state(self) -> State:
        failing_now = list(self._failing.values())
        return State(
            attempts=len(self.made.attempts),
            failing=failing_now[-1] if failing_now else None,
            status=self._status,
            todo=self._todo,
            written=frozenset(self._written),
        )

    def _rules(self, at: int) -> Iterator[int]:
        item = self.needs.facts.items[at]
        markers = data.markers()
        if item.role == "system":
            yield from (n for n in self.needs.item_lines[at] if markers.imperative.search(self.needs.lines.keys[n]))
        elif len(item.text) <= PASTE and (own := markers.own_words(item.text)):
            whole = set(self.needs.item_lines[at])  # words inside a tag's line stand in no line of their own
            yield from (n for n in self.needs.lines.of(own) if n in whole)

    def _result(self, at: int) -> None:
        facts = self.needs.facts
        call, item = facts.call_of[at], facts.items[at]
        act, bad = facts.acts[call], item.failed or failing(item.text)
        attempt = Attempt(call=self.needs.item_lines[call], outcome=self._outcome(item.text)) if bad else None
        if attempt and act.kind in ("run", "edit", "write"):
            self.made.attempts.append(attempt)
        if act.kind == "run" and _TEST.search(act.command):
            key = " ".join(act.command.split())
            self._failing.pop(key, None)
            if attempt:
                self._failing[key] = attempt
            else:
                self._failing.clear()
            self._status = self._outcome(item.text)[-1:]
        if act.kind in ("edit", "write") and not bad and act.path:
            path = facts.place(act)
            self.made.changes.setdefault(path, []).append(at)
            self._written.add(path)

    def _outcome(self, text: str) -> tuple[int, ...]:
        """Give the lines that tell an outcome: three at most."""
        lines = text.split("\n")[-400:]
        kept = telling(lines, 300, (), head=1, tail=2)[:3]
        return tuple(n for place in kept for n in self.needs.lines.of(lines[place]))


def open_todo(arguments: str) -> list[str]:
    """Give the texts of a plan call's items that are not done."""
    found: list[str] = []
    _collect(parse_arguments(arguments), found)
    return found


def _collect(value: Any, found: list[str]) -> None:
    if isinstance(value, list):
        for inner in value:
            _collect(inner, found)
    elif isinstance(value, dict):
        text = next((value[k] for k in ("content", "step", "text", "title") if isinstance(value.get(k), str)), None)
        if text is not None and "status" in value:
            if str(value["status"]) not in _DONE:
                found.append(text)
            return
        for inner in value.values():
            _collect(inner, found)


def pointer_lines(needs: Needs, place: int) -> tuple[int, ...]:
    """Give the lines of the call behind an item that name where its text came from: path or command."""
    facts = needs.facts
    act = facts.act_at(place)
    if act is None:
        return ()
    named = act.path or act.command
    lines = needs.lines
    call = facts.items[facts.call_of.get(place, place)]
    texts = [leaf for leaf in leaves(call.text) if leaf == named or leaf.endswith(named)] if named else []
    return tuple(n for text in texts[:1] for n in lines.of(text)) or needs.item_lines[facts.call_of.get(place, place)]
