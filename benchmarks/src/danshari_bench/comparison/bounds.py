"""Upper and lower bounds of what any compactor could reach on a session.

Upper: a compactor that knows the future, without and with a token budget. Lower: lines kept at
random, or only the newest. Each span is one source line, kept from the request that first carried
it until the last request whose action refers to one of its atoms. Volume is tokens times requests;
the sum over all needed spans is the least volume that serves every reference.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from danshari.replay.references import HOT, SessionNeeds

BOUND_BUDGETS = (0.1, 0.2, 0.3, 0.5, 0.7)
"""Shares of the full context."""


@dataclass(slots=True, kw_only=True)
class LineSpan:
    """One source line: tokens, first request that carried it, last that needs it, and references served."""

    line: int
    size: float
    born: int
    last: int = 0
    events: list[int] = field(default_factory=list)

    @property
    def volume(self) -> float:
        """Tokens times requests from birth to last need."""
        return self.size * max(self.last - self.born + 1, 0)


@dataclass(slots=True, kw_only=True)
class Bounds:
    """Counts for one session, so that sessions pool by adding."""

    full: float = 0.0
    """Tokens times requests of the full context."""
    residency: float = 0.0
    oracle: dict[float, list[float]] = field(default_factory=dict)
    """Budget → [old references kept, all, actions kept, all]."""
    chance: dict[float, list[float]] = field(default_factory=dict)
    recency: dict[float, list[float]] = field(default_factory=dict)


def compute_bounds(needs: SessionNeeds, budgets: Iterable[float] = BOUND_BUDGETS) -> Bounds:
    """Compute the bounds of one session at each budget (share of the full context's volume)."""
    spans, events = _find_spans(needs)
    made = Bounds(full=_full_volume(needs), residency=sum(s.volume for s in spans.values() if s.events))
    for budget in budgets:
        made.oracle[budget] = _count_kept(events, _keep_greedily(spans.values(), budget * made.full))
        made.chance[budget] = _keep_by_chance(events, budget)
        made.recency[budget] = _keep_newest(needs, events, budget)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class OldReference:
    """One reference older than `HOT` rounds: its request and the source lines that had held its atom by then."""

    round: int
    lines: tuple[int, ...]
    place: int


def _full_volume(needs: SessionNeeds) -> float:
    """Return the volume of the full context: the sum of its tokens over all requests."""
    total, at, sums = 0.0, 0, 0.0
    for r in needs.rounds:
        sums += sum(needs.facts.tokens[at : r.items])
        at = r.items
        total += sums
    return total


def _find_spans(needs: SessionNeeds) -> tuple[dict[tuple[int, int], LineSpan], list[OldReference]]:
    """Return the spans that old references need, and those references.

    A reference belongs to the newest line that holds its atom. Keys are (line, item).
    """
    born: dict[int, int] = {}  # item → request that first carried it
    newest: dict[int, int] = {}
    sizes: dict[int, float] = {}
    at = 0
    spans: dict[tuple[int, int], LineSpan] = {}
    events: list[OldReference] = []
    for r in needs.rounds:
        for item in range(at, r.items):
            lines = needs.item_lines[item]
            born[item] = r.number
            letters = sum(len(needs.lines.keys[n]) for n in lines) or 1
            for n in lines:
                newest[n] = item
                sizes.setdefault(n, needs.facts.tokens[item] * len(needs.lines.keys[n]) / letters)
        at = r.items
        for reference in r.references:
            if reference.age <= HOT:
                continue
            held = [n for n, rank in needs.held[reference.atom].items() if rank < reference.held]
            best = max(held, key=lambda n: newest[n])
            span = spans.setdefault(
                (best, newest[best]), LineSpan(line=best, size=sizes[best], born=born[newest[best]])
            )
            span.last = max(span.last, r.number)
            span.events.append(len(events))
            events.append(OldReference(round=r.number, lines=tuple(held), place=reference.place))
    return spans, events


def _keep_greedily(spans: Iterable[LineSpan], volume: float) -> set[int]:
    """Return the references kept when spans are taken by most references per volume until `volume` is used up."""
    kept: set[int] = set()
    order = sorted(spans, key=lambda s: (-len(s.events) / max(s.volume, 1e-9), s.line))
    for span in order:
        if span.volume <= volume:
            volume -= span.volume
            kept.update(span.events)
    return kept


def _count_kept(events: Sequence[OldReference], kept: set[int]) -> list[float]:
    """Return [references kept, references, actions with all references kept, actions]."""
    actions: dict[int, bool] = {}
    for number, event in enumerate(events):
        actions[event.round] = actions.get(event.round, True) and number in kept
    return [len(kept), len(events), sum(actions.values()), len(actions)]


def _keep_by_chance(events: Sequence[OldReference], budget: float, draws: int = 20) -> list[float]:
    """Keep every line with probability `budget` and return the mean counts over seeded draws."""
    sums = [0.0, 0.0, 0.0, 0.0]
    for seed in range(draws):
        draw = random.Random(seed)
        luck: dict[int, bool] = {}
        kept = set()
        for number, event in enumerate(events):
            found = [luck.setdefault(line, draw.random() < budget) for line in event.lines]
            if any(found):
                kept.add(number)
        for place, value in enumerate(_count_kept(events, kept)):
            sums[place] += value / draws
    return sums


def _keep_newest(needs: SessionNeeds, events: Sequence[OldReference], budget: float) -> list[float]:
    """Keep the newest `budget` share of each request's tokens and return the counts."""
    before = [0.0]
    for tokens in needs.facts.tokens:
        before.append(before[-1] + tokens)
    ends = {r.number: r.items for r in needs.rounds}
    kept = set()
    for number, event in enumerate(events):
        total = before[ends[event.round]]
        if total - before[event.place] <= budget * total:
            kept.add(number)
    return _count_kept(events, kept)
