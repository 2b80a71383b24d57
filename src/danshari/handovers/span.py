"""What a major compaction replaces: which items leave, which stay beside the hand-over, and the Fold that says so."""

from __future__ import annotations

from dataclasses import dataclass

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects, Fold, covering
from danshari.core.policy import Policy
from danshari.handovers.user_words import PASTE
from danshari.planning.laws import protected

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


def span_of(
    facts: Facts, policy: Policy, tail: float, effects: Effects, *, until: int = -1, outsized: float = 0.0
) -> Span | None:
    """Choose the span: after the head (system, first request), before the newest whole rounds of up to `tail` tokens.

    `until` is a position (exclusive) that the span must not pass, -1 for none: "up to here". A first request of more
    than `outsized` tokens is no head; its words are quoted and its paste becomes data. A hand-over in force is
    swallowed whole or not at all. None where nothing can leave.
    """
    items = facts.items
    if policy.shape == "seed" and _answered(facts):
        first = next((at for at, item in enumerate(items) if item.role != "system"), len(items))
        end = len(items) if until < 0 else until
    else:
        end = _tail_start(facts, tail) if until < 0 else min(_tail_start(facts, tail), until)
        first = _head_end(facts, end, outsized)
    while end > first and facts.splits(first, end - 1):
        end -= 1
    first, end = _around(effects, first, end, widen=until < 0)
    if any((start, last + 1) == (first, end) for start, (last, _) in effects.folds.items()):
        return None  # nothing new since the last one
    if end - first < 2 and not (end > first and len(items[first].text) > PASTE):
        return None
    return Span(first=first, last=end - 1, keep=_kept(facts, policy, range(first, end)))


def _around(effects: Effects, first: int, end: int, *, widen: bool) -> tuple[int, int]:
    """Move the borders so that they part no hand-over in force."""
    for start, (last, _) in sorted(effects.folds.items()):
        if start < first <= last:
            first = start
        if start < end <= last:
            end = last + 1 if widen else start
    return first, end


def _kept(facts: Facts, policy: Policy, span: range) -> tuple[int, ...]:
    """List what stays inside a span: system texts, what is protected or pinned with its partners, the user's images."""
    items, everything = facts.items, policy.shape == "seed"
    kept = {at for at in span if items[at].role == "system"}
    if not everything:
        kept |= {at for at in span if protected(items[at], policy)}
        media = [at for at in span if items[at].kind == "media" and items[at].role == "user" and not items[at].call]
        kept.update(media[-MEDIA:])
    calls = {items[at].call for at in kept if items[at].call}
    turns = {items[at].turn for at in kept if items[at].call}
    kept |= {at for at in span if items[at].call in calls and items[at].call}
    kept |= {at for at in span if items[at].kind == "reasoning" and items[at].turn in turns}  # a call needs its own
    return tuple(sorted(kept))


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
