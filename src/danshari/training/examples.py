"""Training examples for the line scorer: lines of results, their features, and whether they were needed.

A line is needed if a later action refers to one of its atoms, this result was where the atom was
last seen, and the agent had not used the atom itself by then; or if a later edit quotes it. Several
lines of a result that hold the atom share the need equally.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from danshari.analysis.first_seen import WORD_PATTERN
from danshari.replay.line_index import split_lines
from danshari.replay.references import SessionNeeds, find_needs
from danshari.sessions import RecordedSession
from danshari.shorten.line_scorer import (
    feature_bucket_counts,
    feature_columns,
    make_line_context,
    weight_family,
)

MIN_CHARACTERS = 800
"""Characters from which a result's lines are examples; shorter ones are never squeezed."""
MAX_LINES = 6_000
"""Lines of one result that are examples."""
_QUOTED = 4
"""Characters from which a line that an edit quotes counts: a bracket alone stands everywhere."""


@dataclass(slots=True, kw_only=True)
class FamilyExamples:
    """The examples of one text family in one session; all sequences have one entry per line."""

    features: dict[str, bytearray] = field(default_factory=dict)
    need: list[float] = field(default_factory=list)
    """0, or the line's share of a need."""
    size: list[int] = field(default_factory=list)
    """Characters."""
    item: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list, repr=False)


@dataclass(slots=True, kw_only=True)
class SessionExamples:
    """The examples of one session, by text family."""

    session: str
    repository: str
    blocks: dict[str, FamilyExamples] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    """Names of the files it touched."""
    task: frozenset[str] = frozenset()
    """Words of the first user text, for a baseline."""


def collect_examples(session: RecordedSession) -> SessionExamples:
    """Collect the examples of a session."""
    needs = find_needs(session)
    needed = needs_by_line(needs)
    facts = needs.facts
    users = facts.users
    task = frozenset(WORD_PATTERN.findall(facts.items[users[0]].text)) if users else frozenset()
    files = frozenset(path.rsplit("/", 1)[-1] for path in facts.touched)
    made = SessionExamples(session=session.id, repository=session.repository, files=files, task=task)
    for at, item in enumerate(facts.items):
        if item.kind != "result" or len(item.text) < MIN_CHARACTERS or item.turn >= facts.turn:
            continue
        lines = facts.clean_text(at).split("\n")[:MAX_LINES]
        read = make_line_context(facts, at, lines)
        family = weight_family(read)
        block = made.blocks.setdefault(
            family, FamilyExamples(features={name: bytearray() for name in feature_bucket_counts()[family]})
        )
        kept = [n for n, key in enumerate(read.keys) if key]
        for name, column in feature_columns(read).items():
            block.features[name].extend(bytes(column[n] for n in kept))
        wanted = needed.get(at, {})
        for n in kept:
            numbers = [needs.lines.find(key) for key in split_lines(lines[n])]
            block.need.append(max((wanted.get(number, 0.0) for number in numbers if number is not None), default=0.0))
            block.size.append(len(lines[n]))
            block.texts.append(read.keys[n])
        block.item += [at] * len(kept)
    return made


def needs_by_line(needs: SessionNeeds) -> dict[int, dict[int, float]]:
    """Return position of a result → its needed lines → their share of a need (0 to 1)."""
    items, lines = needs.facts.items, needs.lines
    said: dict[str, int] = {}
    for at, item in enumerate(items):
        if item.kind in ("call", "text"):
            for number in needs.item_lines[at]:
                for atom in lines.atoms[number]:
                    said.setdefault(atom, at)
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for r in needs.rounds:
        for reference in r.references:
            if said.get(reference.atom, r.items) < r.items or items[reference.place].kind != "result":
                continue
            holders = [n for n in needs.item_lines[reference.place] if reference.atom in lines.atoms[n]]
            for number in holders:
                shares = found[reference.place]
                shares[number] = max(shares.get(number, 0.0), 1 / len(holders))
        for quote in r.quotes:
            for numbers in () if quote.has_unseen_lines else quote.lines:
                place, number = max(
                    ((p, n) for n in numbers for p in needs.items_of.get(n, ()) if p < r.items), default=(-1, -1)
                )
                if place >= 0 and items[place].kind == "result" and len(lines.keys[number]) >= _QUOTED:
                    found[place][number] = 1.0
    return found
