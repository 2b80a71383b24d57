"""What a major compaction replaces: which items leave, which stay beside the hand-over, and the Fold that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from danshari.core.edits import Edit, Effects, Fold, covering
from danshari.core.facts import Facts
from danshari.core.laws import protected
from danshari.core.policy import Policy
from danshari.passes.handover.words import PASTE

MEDIA = 3
"""Images and files of the user that stay beside a hand-over, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Positions that a hand-over is to replace: first to last, those in `keep` aside."""

    first: int
    last: int
    keep: tuple[int, ...] = ()

    @property
    def places(self) -> list[int]:
        """List the positions that leave, ascending."""
        kept = set(self.keep)
        return [at for at in range(self.first, self.last + 1) if at not in kept]


def span_of(facts: Facts, policy: Policy, tail: float, *, until: int = -1, outsized: float = 0.0) -> Span | None:
    """Choose the span: after the head (system, first request), before the newest whole rounds of up to `tail` tokens.

    `until` is a position (exclusive) that the span must not pass, -1 for none: "up to here". A first request of more
    than `outsized` tokens is no head; its words are quoted and its paste becomes data. None where nothing can leave.
    """
    items = facts.items
    if policy.shape == "seed" and (facts.closed() or _answered(facts)):
        first = next((at for at, item in enumerate(items) if item.role != "system"), len(items))
        last = len(items) - 1 if until < 0 else until - 1
        system = [at for at in range(first, last + 1) if items[at].role == "system"]
        return Span(first=first, last=last, keep=tuple(system)) if first < last else None
    end = _tail_start(facts, tail)
    if until >= 0:
        end = min(end, until)
    first = _head_end(facts, end, outsized)
    while end > first and facts.splits(first, end - 1):
        end -= 1
    if end - first < 2 and not (end > first and len(items[first].text) > PASTE):
        return None
    span = range(first, end)
    keep = [at for at in span if items[at].role == "system" or protected(items[at], policy)]
    media = [at for at in span if items[at].kind == "media" and items[at].role == "user" and not items[at].call]
    return Span(first=first, last=end - 1, keep=tuple(sorted({*keep, *media[-MEDIA:]})))


def _answered(facts: Facts) -> bool:
    """Say whether no call waits for its result."""
    return not facts.pending


def _tail_start(facts: Facts, tail: float) -> int:
    """Find the first position of the newest rounds that fit into `tail` tokens; the newest one always stays."""
    turn = facts.turn
    start = facts.before(turn) if turn else len(facts.items)
    left = tail - sum(facts.tokens[start:])
    while turn > 1:
        begin = facts.before(turn - 1)
        left -= sum(facts.tokens[begin:start])
        if left < 0:
            break
        turn, start = turn - 1, begin
    return start


def _head_end(facts: Facts, end: int, outsized: float) -> int:
    """Find where the head ends: before the first answer, or before an outsized first request."""
    for at, item in enumerate(facts.items[:end]):
        if item.role == "system":
            continue
        if item.role != "user" or (outsized and facts.tokens[at] > outsized and len(item.text) > PASTE):
            return at
    return end


def fold_of(facts: Facts, span: Span, text: str, *, why: str) -> Fold:
    """Write the edit that puts a hand-over in place of a span."""
    items = facts.items
    return Fold(
        first=items[span.first].id,
        last=items[span.last].id,
        covers=covering(items[span.first : span.last + 1]),
        text=text,
        keep=tuple(items[at].id for at in span.keep),
        by="summarize",
        why=why,
        seen=items[-1].id,
    )


def newest_messages(facts: Facts, count: int) -> int:
    """Find where the newest `count` messages begin, moved back so that no round is cut (the seed's fallback)."""
    messages = sorted({item.at[0] for item in facts.items})
    if len(messages) <= count:
        return 0
    border = messages[-count]
    start = next(at for at, item in enumerate(facts.items) if item.at[0] >= border)
    while start > 0 and facts.splits(start, len(facts.items) - 1):
        start -= 1
    return start


def swallowed(effects: Effects, span: Span) -> Sequence[Edit]:
    """List the live hand-overs that a new one over `span` replaces."""
    return [fold for start, (end, fold) in effects.folds.items() if span.first <= start and end <= span.last]
