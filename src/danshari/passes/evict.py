"""Last resort: whole rounds leave the view, oldest first, when nothing else makes the request fit."""

from __future__ import annotations

from collections.abc import Iterator

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.policy import Policy
from danshari.planning.laws import protected
from danshari.planning.planner import Proposal


def evict(facts: Facts, effects: Effects, policy: Policy, force: bool) -> Iterator[Proposal]:
    """Propose dropping whole rounds, oldest first; only under force, never the newest round or plan."""
    if not force:
        return
    for first, last in _rounds(facts):
        span = range(first, last + 1)
        if any(at in effects.gone or protected(facts.items[at], policy) or facts.newest_plan(at) for at in span):
            continue
        if facts.splits(first, last):
            continue
        freed = 0.0
        for at in span:
            edit = effects.texts.get(at)
            freed += facts.tokens[at] if edit is None else facts.count(edit.text)
        yield Proposal(at=first, until=last, freed=freed, by="evict", why="nothing else fits", write=lambda: "")


def _rounds(facts: Facts) -> Iterator[tuple[int, int]]:
    """Give (first, last) positions of every finished round with calls but the newest turn."""
    for turn in facts.call_turns:
        if turn >= facts.turn:
            break
        end = facts.before(turn + 1)
        places = [at for at in range(facts.before(turn), end) if facts.items[at].role in ("assistant", "tool")]
        yield places[0], places[-1]
