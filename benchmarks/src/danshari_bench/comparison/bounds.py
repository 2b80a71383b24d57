"""How well anything could do: the clairvoyant residency, the same-budget oracle, and the floors of chance and recency.

Spans are lines of the source. Keeping a line from its birth until the last action that refers to an atom it holds is
what a compactor that knew the future would do; the volume of that (tokens × requests) is the least any could need.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from danshari.replay.references import HOT, Needs

BUDGETS = (0.1, 0.2, 0.3, 0.5, 0.7)
"""Shares of the full context."""


@dataclass(slots=True, kw_only=True)
class Span:
    """One source line: tokens, request that first carried it, last request that needs it, and the events it serves."""

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


def bounds_of(needs: Needs, budgets: Iterable[float] = BUDGETS) -> Bounds:
    """Work the bounds of one session out."""
    spans, events = _spans(needs)
    made = Bounds(full=_full(needs), residency=sum(s.volume for s in spans.values() if s.events))
    for budget in budgets:
        made.oracle[budget] = _kept(events, _greedy(spans.values(), budget * made.full))
        made.chance[budget] = _by_chance(events, budget)
        made.recency[budget] = _recent(needs, events, budget)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One old reference: its request, and every source line that had held its atom by then."""

    round: int
    lines: tuple[int, ...]
    place: int


def _full(needs: Needs) -> float:
    total, at, sums = 0.0, 0, 0.0
    for r in needs.rounds:
        sums += sum(needs.facts.tokens[at : r.items])
        at = r.items
        total += sums
    return total


def _spans(needs: Needs) -> tuple[dict[tuple[int, int], Span], list[Event]]:
    """Give each showing of a line as a span, and assign each old reference to the newest line that holds its atom."""
    born: dict[int, int] = {}  # item → request that first carried it
    newest: dict[int, int] = {}
    sizes: dict[int, float] = {}
    at = 0
    spans: dict[tuple[int, int], Span] = {}
    events: list[Event] = []
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
            span = spans.setdefault((best, newest[best]), Span(line=best, size=sizes[best], born=born[newest[best]]))
            span.last = max(span.last, r.number)
            span.events.append(len(events))
            events.append(Event(round=r.number, lines=tuple(held), place=reference.place))
    return spans, events


def _greedy(spans: Iterable[Span], volume: float) -> set[int]:
    """Keep the spans that serve most events per token and request, until the volume is used up."""
    kept: set[int] = set()
    order = sorted(spans, key=lambda s: (-len(s.events) / max(s.volume, 1e-9), s.line))
    for span in order:
        if span.volume <= volume:
            volume -= span.volume
            kept.update(span.events)
    return kept


def _kept(events: Sequence[Event], kept: set[int]) -> list[float]:
    actions: dict[int, bool] = {}
    for number, event in enumerate(events):
        actions[event.round] = actions.get(event.round, True) and number in kept
    return [len(kept), len(events), sum(actions.values()), len(actions)]


def _by_chance(events: Sequence[Event], budget: float, draws: int = 20) -> list[float]:
    """Keep every line with the budget's probability; mean over seeded draws."""
    sums = [0.0, 0.0, 0.0, 0.0]
    for seed in range(draws):
        draw = random.Random(seed)
        luck: dict[int, bool] = {}
        kept = set()
        for number, event in enumerate(events):
            found = [luck.setdefault(line, draw.random() < budget) for line in event.lines]
            if any(found):
                kept.add(number)
        for place, value in enumerate(_kept(events, kept)):
            sums[place] += value / draws
    return sums


def _recent(needs: Needs, events: Sequence[Event], budget: float) -> list[float]:
    """Keep the newest share of each request's tokens."""
    before = [0.0]
    for tokens in needs.facts.tokens:
        before.append(before[-1] + tokens)
    ends = {r.number: r.items for r in needs.rounds}
    kept = set()
    for number, event in enumerate(events):
        total = before[ends[event.round]]
        if total - before[event.place] <= budget * total:
            kept.add(number)
    return _kept(events, kept)
