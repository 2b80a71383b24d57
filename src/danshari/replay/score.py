"""Score the views of one contender on one session as they are sent.

A tally maps a measure to [kept, counted], so that sessions pool by adding; shares are computed at
the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari.core.items import Piece, hash_strings
from danshari.replay.atoms import classify_atom
from danshari.replay.lookup_ladder import LookupLadder
from danshari.replay.must_keep import (
    STATE_INTERVAL,
    FailedAttempt,
    RoundState,
    StateHistory,
    build_state_history,
)
from danshari.replay.references import (
    HOT,
    Reference,
    RoundNeeds,
    SessionNeeds,
)
from danshari.replay.visibility import VisibleLines

HORIZON = 10
"""Rounds after a snapshot, and after a commit, that count for the horizon check."""
MAX_FETCHED_TOKENS = 2_000.0
"""Tokens at most that getting a lost source back is charged for."""
_MARKED = re.compile(r"stale|changed|edited|overwritten|modified|written anew|older version|superseded", re.IGNORECASE)

_NAME = re.compile(r"(?<![\w.-])[\w.-]*\w")

Tally = dict[str, list[float]]


@dataclass(slots=True, kw_only=True)
class SessionScore:
    """Counts of one contender on one session."""

    tally: Tally = field(default_factory=dict)
    flips: dict[str, list[int]] = field(default_factory=dict)
    """Foreign atom → rounds at which it came into sight and went, alternating."""
    faults: dict[int, list[float]] = field(default_factory=dict)
    """Round → [sources that had to be had again, tokens of them]."""
    digest: str = ""
    """Hash of every view, so that a second run can be held against it."""

    def add(self, name: str, kept: float, counted: float = 1) -> None:
        """Count one event of a measure."""
        pair = self.tally.setdefault(name, [0, 0])
        pair[0] += kept
        pair[1] += counted


class ViewScorer:
    """Scores every view that one contender sends in one session."""

    def __init__(
        self,
        needs: SessionNeeds,
        history: StateHistory | None = None,
        *,
        foreign: Collection[str] = (),
        ladder: bool = False,
        markup: Collection[str] = (),
    ) -> None:
        """Prepare scoring of one session.

        `foreign` are atoms of other sessions (chance level), `ladder` turns on look-ups of lost references,
        `markup` are words of the contender's own templates that do not count as invented.
        """
        self.needs = needs
        self.history = history or build_state_history(needs)
        self.score = SessionScore()
        names = {path.rsplit("/", 1)[-1] for path in needs.facts.touched}
        self._foreign = frozenset(foreign)
        self.sight = VisibleLines(needs, wanted=needs.reference_atoms | names | self._foreign)
        self._ladder = LookupLadder(needs, self.history) if ladder else None
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

    def score_round(self, r: RoundNeeds, messages: Sequence[Any], *, rewritten: bool) -> None:
        """Score the view sent in round `r` against the references of the action after it."""
        self.sight.update(messages)
        if rewritten:
            self._last_commit = r.number
        self._score_references(r)
        for quote in r.quotes:
            if quote.has_unseen_lines:
                self.score.add("edits_unseen", 1)
            else:
                self.score.add("edits", self.sight.shows_quote(quote))
        self._score_rules(r)
        self._count_invented(r)
        self._count_stale(r)
        if state := self.history.states.get(r.number):
            self._score_state(state, messages)
        if r.number % STATE_INTERVAL == 0:
            self._score_snapshot(r)
        self._note_foreign_atoms(r.number)
        self._update_digest(messages)

    def _score_references(self, r: RoundNeeds) -> None:
        """Count which references of the action the view supports, by age band and kind."""
        old = old_kept = located = located_kept = 0
        missing: list[Reference] = []
        for reference in r.references:
            seen = self.sight.atom_visibility(reference.atom, reference.held)
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
            self._score_rungs(r, missing)

    def _score_rungs(self, r: RoundNeeds, missing: list[Reference]) -> None:
        assert self._ladder is not None
        sources: dict[int, float] = {}
        for reference, rung, chance in self._ladder.assign_rungs(r, missing, self.sight):
            for name in ("pointer", "retrieved", "lost"):
                self.score.add(name, rung == name)
            if rung != "pointer":
                for name in ("search", f"search_{self._ladder.query_kind(r, reference)}"):
                    self.score.add(name, rung == "retrieved")
                    self.score.add(f"{name}_by_chance", chance)
            sources[reference.place] = min(self.needs.facts.tokens[reference.place], MAX_FETCHED_TOKENS)
        self.score.faults[r.number] = [len(sources), sum(sources.values())]

    def _score_snapshot(self, r: RoundNeeds) -> None:
        """Score this view against the references of the next rounds, except those shown again since."""
        turn = r.number
        for later in self.needs.rounds[r.number : r.number + HORIZON]:
            due = [x for x in later.references if x.age > HOT and later.number - x.age < turn]
            if due:
                kept = [self.sight.atom_visibility(x.atom, x.held) == "supported" for x in due]
                self.score.add("sar_snapshot", all(kept))
                self.score.add("old_snapshot", sum(kept), len(kept))

    def _score_rules(self, r: RoundNeeds) -> None:
        rules = self.history.rules
        while self._rules_at < len(rules) and rules[self._rules_at][0] < r.items:
            self._rules.append(rules[self._rules_at][1])
            self._rules_at += 1
        if self._rules:
            shown = sum(self.sight.shows(line) for line in self._rules)
            self.score.add("rules", shown, len(self._rules))
            self.score.add("rule_views", shown == len(self._rules))

    def _count_invented(self, r: RoundNeeds) -> None:
        """Count atoms that a view shows and the source never contained; sizes, hashes and ids are excluded."""
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
                    if classify_atom(atom) in ("identifier", "file", "dotted"):
                        self.score.add("invented", atom not in self._known)

    def _count_stale(self, r: RoundNeeds) -> None:
        """Count shortened reads of files that were written since without the text saying so."""
        facts = self.needs.facts
        for _, pieces in self.sight.came:
            for piece in pieces:
                if (
                    piece.kind != "result"
                    or piece.call not in facts.newest_spans
                    or (piece.call, piece.text) in self._shown
                ):
                    continue
                self._shown.add((piece.call, piece.text))  # what counts is the state of the file when it was written
                at = facts.newest_spans[piece.call][1]
                item, act = facts.items[at], facts.act_at(at)
                if item.kind != "result" or item.text == piece.text or act is None or act.kind != "read":
                    continue
                lines = self.needs.lines.of_piece(piece)
                if not any(line in self.needs.source for line in lines):
                    continue
                changes = self.history.changes.get(facts.file_key(act), ())
                overwritten = any(at < change < r.items for change in changes)
                ours = " ".join(self.needs.lines.keys[n] for n in lines if n not in self.needs.source)
                self.score.add("stale", overwritten and not _MARKED.search(ours))

    def _score_state(self, state: RoundState, messages: Sequence[Any]) -> None:
        """Count which failed attempts, test results, todo items and written files the view still shows."""
        for attempt in self.history.attempts[: state.attempts]:
            self.score.add("attempts", self._shows_attempt(attempt))
        if state.failing:
            self.score.add("failing_test", self._shows_attempt(state.failing))
        if state.status:
            self.score.add("test_status", self.sight.shows_any(state.status))
        for line in state.todo:
            self.score.add("todo", self.sight.shows(line))
        if state.written:
            listed, wrong = self._count_listed_files(state, messages)
            self.score.add("files_named", listed, len(state.written))
            self.score.add("files_right", listed, listed + wrong)

    def _shows_attempt(self, attempt: FailedAttempt) -> bool:
        called = not attempt.call or self.sight.shows_any(attempt.call)
        return called and (not attempt.outcome or self.sight.shows_any(attempt.outcome))

    def _count_listed_files(self, state: RoundState, messages: Sequence[Any]) -> tuple[int, int]:
        """Return (written files that the view lists as written, files it lists that were not written)."""
        facts = self.needs.facts
        right: set[str] = set()
        wrong: set[str] = set()
        for message in messages:
            for piece in self.sight.pieces(message):
                if piece.kind == "call":
                    act = facts.tools.parse_call(piece.name, piece.text)
                    if act.kind in ("edit", "write") and act.path:
                        self._check_file(piece, facts.file_key(act), state, right, wrong)
        extra = {
            w
            for n in self.sight.visible_lines()
            if n not in self.needs.source
            for w in _NAME.findall(self.needs.lines.keys[n])
        }
        right |= {path for path in state.written - right if path.rsplit("/", 1)[-1] in extra}
        return len(right), len(wrong - state.written)

    def _check_file(self, piece: Piece, path: str, state: RoundState, right: set[str], wrong: set[str]) -> None:
        """Add a file that an edit or write call in the view names to `right` or `wrong`."""
        if path in state.written:
            right.add(path)
            return
        span = self.needs.facts.newest_spans.get(piece.call)
        shown = span and self.sight.shows_any(self.needs.item_lines[span[1]])
        if span and span[1] != span[0] and not shown:
            wrong.add(path)  # the call failed, and the view no longer says so

    def _note_foreign_atoms(self, number: int) -> None:
        """Record the round at which foreign atoms became visible or disappeared."""
        for atom in self.sight.touched & self._foreign:
            now = self.sight.is_visible(atom)
            if now != (atom in self._in_sight):
                (self._in_sight.add if now else self._in_sight.discard)(atom)
                self.score.flips.setdefault(atom, []).append(number)

    def _update_digest(self, messages: Sequence[Any]) -> None:
        """Add the view to the running hash of all views."""
        for message, _ in self.sight.came:
            self._hashes[id(message)] = hash_strings(json.dumps(message, sort_keys=True, default=str))
        self.score.digest = hash_strings(self.score.digest, *(self._hashes[id(m)] for m in messages))
