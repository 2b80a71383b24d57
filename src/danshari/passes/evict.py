"""Last resort: whole rounds leave the view, oldest first, when nothing else makes the request fit."""

from __future__ import annotations

from collections.abc import Iterator

from danshari.core.edits import Effects
from danshari.core.facts import Facts
from danshari.core.laws import protected
from danshari.core.plan import Proposal
from danshari.core.policy import Policy


def evict(facts: Facts, effects: Effects, policy: Policy, force: bool) -> Iterator[Proposal]:
    """Propose dropping whole rounds, oldest first; only under force, never the newest round or plan."""
    if not force:
        return
    for first, last in _rounds(facts):
        span = range(first, last + 1)
        if any(at in effects.gone or protected(facts.items[at], policy) or facts.newest_plan(at) for at in span):
            continue
        freed = 0.0
        for at in span:
            edit = effects.texts.get(at)
            freed += facts.tokens[at] if edit is None else facts.count(edit.text)
        yield Proposal(at=first, until=last, freed=freed, by="evict", why="nothing else fits", write=lambda: "")


def _rounds(facts: Facts) -> Iterator[tuple[int, int]]:
    """Give (first, last) positions of every finished round with calls but the newest turn."""
    first = -1
    for at, item in enumerate(facts.items):
        if item.turn >= facts.turn:
            break
        if item.role not in ("assistant", "tool"):
            continue
        if first < 0 or facts.items[first].turn != item.turn:
            first = at
        after = facts.items[at + 1] if at + 1 < len(facts.items) else None
        if after is None or after.role not in ("assistant", "tool") or after.turn != item.turn:
            yield first, at
