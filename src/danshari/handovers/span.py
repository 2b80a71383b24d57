"""Choose which items a major compaction replaces and which stay, and make the Fold edit."""

from __future__ import annotations

import bisect
from collections.abc import Collection
from dataclasses import dataclass

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects, Fold, digest_items
from danshari.core.handover import PASTE_LIMIT
from danshari.core.policy import Policy
from danshari.planning.laws import find_loop_opening, is_open, is_protected, protected_head_end

MAX_KEPT_MEDIA = 3
"""Images and files of the user that stay beside a hand-over, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverSpan:
    """The positions from `first` to `last` that a hand-over replaces, except those in `keep`."""

    first: int
    last: int
    keep: tuple[int, ...] = ()

    @property
    def places(self) -> list[int]:
        """The positions that leave, ascending."""
        kept = set(self.keep)
        return [at for at in range(self.first, self.last + 1) if at not in kept]


def choose_handover_span(
    facts: Facts, policy: Policy, tail: float, effects: Effects, *, until: int = -1, outsized: float = 0.0
) -> HandoverSpan | None:
    """Choose the span: after the head (system, first request), before the newest rounds of up to `tail` tokens.

    `until` is an exclusive position that the span must not pass, -1 for none. A first request of more
    than `outsized` tokens belongs to the span, not to the head. A hand-over in force is covered whole
    or not at all. Returns None if nothing can leave.
    """
    items = facts.items
    if policy.handover.shape == "seed" and _has_all_results(facts):
        first = next((at for at, item in enumerate(items) if item.role != "system"), len(items))
        end = len(items) if until < 0 else until
    else:
        end = _tail_start(facts, tail) if until < 0 else min(_tail_start(facts, tail), until)
        first = _head_end(facts, end, outsized)
    first = max(first, protected_head_end(facts, policy))
    while end > first and facts.splits_round(first, end - 1):
        end -= 1
    first, end = _align_to_folds(effects, first, end, widen=until < 0)
    if any((start, last + 1) == (first, end) for start, (last, _) in effects.folds.items()):
        return None  # nothing new since the last one
    if end - first < 2 and not (end > first and len(items[first].text) > PASTE_LIMIT):
        return None
    return HandoverSpan(first=first, last=end - 1, keep=_kept_positions(facts, policy, range(first, end)))


def _align_to_folds(effects: Effects, first: int, end: int, *, widen: bool) -> tuple[int, int]:
    """Move the borders so that no hand-over in force is cut."""
    for start, (last, _) in sorted(effects.folds.items()):
        if start < first <= last:
            first = start
        if start < end <= last:
            end = last + 1 if widen else start
    return first, end


def _kept_positions(facts: Facts, policy: Policy, span: range) -> tuple[int, ...]:
    """Return the positions inside a span that stay.

    They are system texts, what carries the provider's state, protected or pinned items with their call and result (with
    their whole turn if it holds reasoning), and the user's images.
    """
    items, everything = facts.items, policy.handover.shape == "seed"
    kept = {at for at in span if items[at].role == "system" or items[at].fixed}
    if not everything:
        kept |= {at for at in span if is_protected(items[at], policy)}
        media = [at for at in span if items[at].kind == "media" and items[at].role == "user" and not items[at].call]
        kept.update(media[-MAX_KEPT_MEDIA:])
    if span:
        kept.update(at for at in find_loop_opening(facts, span[0], span[-1]) if at in span)
    calls = {facts.call_start(at) for at in kept} - {None}
    turns = {items[at].turn for at in kept if items[at].call}
    kept |= {at for at in span if facts.call_start(at) in calls}
    reasoned = {items[at].turn for at in span if items[at].kind == "reasoning"} & turns  # a call needs its reasoning,
    kept |= {at for at in span if items[at].turn in reasoned and items[at].role in ("assistant", "tool")}  # all of it
    kept.update(_requests_between(facts, span, kept))
    return tuple(sorted(kept))


def _requests_between(facts: Facts, span: range, kept: Collection[int]) -> list[int]:
    """Return the user's texts that have to stay between kept calls and a tool loop that begins with signed thinking.

    Without them both would be one loop to the provider, which would not begin with the thinking of the newer one.
    """
    items, found, before = facts.items, list[int](), -1
    for at in (*sorted(kept), span.stop):
        if before >= 0 and at < len(items) and items[at].bound:
            place = bisect.bisect_left(facts.users, at)
            found += [user for user in facts.users[max(place - 1, 0) : place] if user > before]
        if at < len(items) and items[at].role in ("assistant", "tool"):
            before = at
    return found


def _has_all_results(facts: Facts) -> bool:
    """Return whether every call has its result, and no program is running."""
    return not any(is_open(facts, at) for at in range(facts.turn_start(facts.turn), len(facts.items)))


def _tail_start(facts: Facts, tail: float) -> int:
    """Return the first position of the newest rounds that fit into `tail` tokens; the newest always stays."""
    turn = facts.turn
    start = facts.turn_start(turn) if turn else len(facts.items)
    left = tail - sum(facts.tokens[start:])
    while turn > 1:
        begin = facts.turn_start(turn - 1)
        left -= sum(facts.tokens[begin:start])
        if left < 0:
            break
        turn, start = turn - 1, begin
    return start


def _head_end(facts: Facts, end: int, outsized: float) -> int:
    """Return the position where the head ends: at the first answer, or at an outsized first request."""
    for at, item in enumerate(facts.items[:end]):
        if item.role == "system":
            continue
        if item.role != "user" or (outsized and facts.tokens[at] > outsized and len(item.text) > PASTE_LIMIT):
            return at
    return end


def make_fold(facts: Facts, span: HandoverSpan, text: str, *, why: str, policy: Policy) -> Fold:
    """Return the edit that replaces a span by a hand-over."""
    items = facts.items
    return Fold(
        first=items[span.first].id,
        last=items[span.last].id,
        covers=digest_items(items[span.first : span.last + 1]),
        text=text,
        keep=tuple(items[at].id for at in span.keep),
        alternate=policy.handover.alternate,
        apart=policy.protected_head > 0,
        by="summarize",
        why=why,
        seen=items[-1].id,
    )


def newest_messages_start(facts: Facts, count: int) -> int:
    """Return the position where the newest `count` messages begin, moved back so that no round is cut."""
    messages = sorted({item.at[0] for item in facts.items})
    if len(messages) <= count:
        return 0
    border = messages[-count]
    start = next(at for at, item in enumerate(facts.items) if item.at[0] >= border)
    while start > 0 and facts.splits_round(start, len(facts.items) - 1):
        start -= 1
    return start
