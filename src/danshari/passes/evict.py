"""The last resort: drop whole rounds, oldest first, when nothing else makes the request fit."""

from __future__ import annotations

from collections.abc import Iterator

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.policy import Policy
from danshari.planning.laws import is_protected
from danshari.planning.proposal import Proposal


def evict(facts: Facts, effects: Effects, policy: Policy, force: bool) -> Iterator[Proposal]:
    """Propose dropping whole rounds, oldest first, only under force; never the newest round or plan."""
    if not force:
        return
    for first, last in _complete_rounds(facts):
        span = range(first, last + 1)
        if any(at in effects.gone or is_protected(facts.items[at], policy) or facts.is_newest_plan(at) for at in span):
            continue
        if facts.splits_round(first, last):
            continue
        freed = 0.0
        for at in span:
            edit = effects.texts.get(at)
            freed += facts.tokens[at] if edit is None else facts.count(edit.text)
        yield Proposal(
            at=first, until=last, freed=freed, by="evict", reason="room", why="nothing else fits", write=lambda: ""
        )


def _complete_rounds(facts: Facts) -> Iterator[tuple[int, int]]:
    """Yield the (first, last) positions of every finished round with calls except the newest turn."""
    for turn in facts.call_turns:
        if turn >= facts.turn:
            break
        end = facts.turn_start(turn + 1)
        places = [at for at in range(facts.turn_start(turn), end) if facts.items[at].role in ("assistant", "tool")]
        yield places[0], places[-1]
