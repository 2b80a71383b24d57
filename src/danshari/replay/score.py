"""One contender on one session: every view is looked at once, as it goes by, and everything is counted.

A tally maps a measure to [kept, counted], so that sessions pool by adding; shares are taken at the very end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari.core.items import Piece, hashed
from danshari.replay.atoms import classify
from danshari.replay.lookup_ladder import Ladder
from danshari.replay.must_keep import (
    EVERY,
    Attempt,
    History,
    State,
    history_of,
)
from danshari.replay.references import (
    HOT,
    Needs,
    Reference,
    Round,
)
from danshari.replay.visibility import Sight

HORIZON = 10
"""Rounds after a snapshot, and after a commit, that count for the horizon check."""
FETCHED = 2_000.0
"""Tokens at most that getting a lost source back is charged for."""
_MARKED = re.compile(r"stale|changed|edited|overwritten|modified|written anew|older version|superseded", re.IGNORECASE)

_NAME = re.compile(r"[\w.-]*\w")

Tally = dict[str, list[float]]


@dataclass(slots=True, kw_only=True)
class Score:
    """Counts of one contender on one session."""

    tally: Tally = field(default_factory=dict)
    flips: dict[str, list[int]] = field(default_factory=dict)
    """Foreign atom → rounds at which it came into sight and went, alternating."""
    faults: dict[int, list[float]] = field(default_factory=dict)
    """Round → [sources that had to be had again, tokens of them]."""
    digest: str = ""
    """Hash of every view, so that a second run can be held against it."""

    def add(self, name: str, kept: float, counted: float = 1) -> None:
        """Count one event."""
        pair = self.tally.setdefault(name, [0, 0])
        pair[0] += kept
        pair[1] += counted


class Scorer:
    """Follows one contender through one session."""

    def __init__(
        self,
        needs: Needs,
        history: History | None = None,
        *,
        foreign: Collection[str] = (),
        ladder: bool = False,
        markup: Collection[str] = (),
    ) -> None:
        self.needs = needs
        self.history = history or history_of(needs)
        self.score = Score()
        names = {path.rsplit("/", 1)[-1] for path in needs.facts.touched}
        self._foreign = frozenset(foreign)
        self.sight = Sight(needs, wanted=needs.wanted | names | self._foreign)
        self._ladder = Ladder(needs, self.history) if ladder else None
        self._markup = frozenset(markup)
        self._rules: list[int] = []
        self._rules_at = 0
        self._judged: set[int] = set()
        self._hashes: dict[int, str] = {}
        self._in_sight: set[str] = set()
        self._last_commit = -HORIZON - 1
        self._known: set[str] = set()
        self._known_at = 0
        self._shown: set[tuple[str, str]] = set()

    def round(self, r: Round, messages: Sequence[Any], *, rewritten: bool) -> None:
        """Look at the view sent in round `r` and at what the action after it needed."""
        self.sight.update(messages)
        if rewritten:
            self._last_commit = r.number
        self._references(r)
        for quote in r.quotes:
            if quote.unseen:
                self.score.add("edits_unseen", 1)
            else:
                self.score.add("edits", self.sight.quotes(quote))
        self._keep_rules(r)
        self._invented(r)
        self._stale(r)
        if state := self.history.states.get(r.number):
            self._state(state, messages)
        if r.number % EVERY == 0:
            self._snapshot(r)
        self._flip(r.number)
        self._hash(messages)

    def _references(self, r: Round) -> None:
        old = old_kept = located = located_kept = 0
        missing: list[Reference] = []
        for reference in r.references:
            seen = self.sight.sighting(reference.atom, reference.held)
            kept = seen == "supported"
            part = "content" if reference.content else "locators"
            self.score.add(reference.band, kept)
            self.score.add(f"all_{part}", kept)
            if not kept:
                missing.append(reference)
            if reference.age > HOT:
                self.score.add("old", kept)
                self.score.add(f"old_{part}", kept)
                self.score.add("bare", seen == "bare")
                old, old_kept = old + 1, old_kept + kept
                if not reference.content:
                    located, located_kept = located + 1, located_kept + kept
        if old:
            self.score.add("sar", old == old_kept)
            if located:
                self.score.add("sar_locators", located == located_kept)
            if r.number - self._last_commit <= HORIZON:
                self.score.add("sar_after_commit", old == old_kept)
        if missing and self._ladder:
            self._rungs(r, missing)

    def _rungs(self, r: Round, missing: list[Reference]) -> None:
        assert self._ladder is not None
        sources: dict[int, float] = {}
        for reference, rung, chance in self._ladder.sort(r, missing, self.sight):
            for name in ("pointer", "retrieved", "lost"):
                self.score.add(name, rung == name)
            if rung != "pointer":
                for name in ("search", f"search_{self._ladder.kind(r, reference)}"):
                    self.score.add(name, rung == "retrieved")
                    self.score.add(f"{name}_by_chance", chance)
            sources[reference.place] = min(self.needs.facts.tokens[reference.place], FETCHED)
        self.score.faults[r.number] = [len(sources), sum(sources.values())]

    def _snapshot(self, r: Round) -> None:
        """Hold this view against the next rounds' needs, as far as nothing has shown them again."""
        turn = r.number
        for later in self.needs.rounds[r.number : r.number + HORIZON]:
            due = [x for x in later.references if x.age > HOT and later.number - x.age < turn]
            if due:
                kept = [self.sight.sighting(x.atom, x.held) == "supported" for x in due]
                self.score.add("sar_snapshot", all(kept))
                self.score.add("old_snapshot", sum(kept), len(kept))

    def _keep_rules(self, r: Round) -> None:
        rules = self.history.rules
        while self._rules_at < len(rules) and rules[self._rules_at][0] < r.items:
            self._rules.append(rules[self._rules_at][1])
            self._rules_at += 1
        if self._rules:
            shown = sum(self.sight.shows(line) for line in self._rules)
            self.score.add("rules", shown, len(self._rules))
            self.score.add("rule_views", shown == len(self._rules))

    def _invented(self, r: Round) -> None:
        """Count atoms that a view shows and the source never did; sizes, hashes and ids are markup."""
        lines = self.needs.lines
        for at in range(self._known_at, r.items):
            item = self.needs.facts.items[at]
            self._known.add(item.name)
            if item.kind == "call":
                self._known |= lines.extract(item.text)  # the keys of arguments stand in the source too
            for line in self.needs.item_lines[at]:
                self._known |= lines.atoms[line]
        self._known_at = r.items
        for _, pieces in self.sight.came:
            for line in (n for piece in pieces for n in lines.of_piece(piece)):
                if line in self._judged or line in self.needs.source:
                    continue
                self._judged.add(line)
                for atom in lines.atoms[line] - self._markup:
                    if classify(atom) in ("identifier", "file", "dotted"):
                        self.score.add("invented", atom not in self._known)

    def _stale(self, r: Round) -> None:
        """Look for shortened reads of files that had been written since, where the text does not say so."""
        facts = self.needs.facts
        for _, pieces in self.sight.came:
            for piece in pieces:
                if piece.kind != "result" or piece.call not in facts.spans or (piece.call, piece.text) in self._shown:
                    continue
                self._shown.add((piece.call, piece.text))  # what counts is the state of the file when it was written
                at = facts.spans[piece.call][1]
                item, act = facts.items[at], facts.act_at(at)
                if item.kind != "result" or item.text == piece.text or act is None or act.kind != "read":
                    continue
                lines = self.needs.lines.of_piece(piece)
                if not any(line in self.needs.source for line in lines):
                    continue
                changes = self.history.changes.get(facts.place(act), ())
                overwritten = any(at < change < r.items for change in changes)
                ours = " ".join(self.needs.lines.keys[n] for n in lines if n not in self.needs.source)
                self.score.add("stale", overwritten and not _MARKED.search(ours))

    def _state(self, state: State, messages: Sequence[Any]) -> None:
        for attempt in self.history.attempts[: state.attempts]:
            self.score.add("attempts", self._shows(attempt))
        if state.failing:
            self.score.add("failing_test", self._shows(state.failing))
        if state.status:
            self.score.add("test_status", self.sight.any_of(state.status))
        for line in state.todo:
            self.score.add("todo", self.sight.shows(line))
        if state.written:
            listed, wrong = self._listed(state, messages)
            self.score.add("files_named", listed, len(state.written))
            self.score.add("files_right", listed, listed + wrong)

    def _shows(self, attempt: Attempt) -> bool:
        called = not attempt.call or self.sight.any_of(attempt.call)
        return called and (not attempt.outcome or self.sight.any_of(attempt.outcome))

    def _listed(self, state: State, messages: Sequence[Any]) -> tuple[int, int]:
        """Count written files that the view lists as written, and files it lists that were not."""
        facts = self.needs.facts
        right: set[str] = set()
        wrong: set[str] = set()
        for message in messages:
            for piece in self.sight.pieces(message):
                if piece.kind == "call":
                    act = facts.tools.act(piece.name, piece.text)
                    if act.kind in ("edit", "write") and act.path:
                        self._judge_file(piece, facts.place(act), state, right, wrong)
        extra = {
            w for n in self.sight.shown() if n not in self.needs.source for w in _NAME.findall(self.needs.lines.keys[n])
        }
        right |= {path for path in state.written - right if path.rsplit("/", 1)[-1] in extra}
        return len(right), len(wrong - state.written)

    def _judge_file(self, piece: Piece, path: str, state: State, right: set[str], wrong: set[str]) -> None:
        if path in state.written:
            right.add(path)
            return
        span = self.needs.facts.spans.get(piece.call)
        shown = span and self.sight.any_of(self.needs.item_lines[span[1]])
        if span and span[1] != span[0] and not shown:
            wrong.add(path)  # the call failed, and the view no longer says so

    def _flip(self, number: int) -> None:
        """Note foreign atoms that came into sight or went."""
        for atom in self.sight.touched & self._foreign:
            now = self.sight.visible(atom)
            if now != (atom in self._in_sight):
                (self._in_sight.add if now else self._in_sight.discard)(atom)
                self.score.flips.setdefault(atom, []).append(number)

    def _hash(self, messages: Sequence[Any]) -> None:
        for message, _ in self.sight.came:
            self._hashes[id(message)] = hashed(json.dumps(message, sort_keys=True, default=str))
        self.score.digest = hashed(self.score.digest, *(self._hashes[id(m)] for m in messages))
