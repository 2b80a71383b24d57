"""The invariants that every edit must keep, each with a name; an edit that breaks one is refused.

Among them: whole rounds (a call never stays without its result, nor a result without its call), newest round, open
call, protection (pinned texts and protected tools), user words, valid text, never longer.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

from danshari.analysis.facts import Facts
from danshari.core.edits import Drop, Edit, Fold, Replace
from danshari.core.handover import PASTE_LIMIT
from danshari.core.items import Item
from danshari.core.placeholder import is_compacted_text
from danshari.core.policy import Policy
from danshari.core.text import is_json_object, is_valid_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An edit that was refused, the name of the law it would have broken, and the reason."""

    edit: Edit
    law: str
    why: str


def check_edit(edit: Edit, facts: Facts, policy: Policy) -> Refusal | None:
    """Return the refusal of one proposed edit, or None if it is legal."""
    if isinstance(edit, Replace):
        broken = _check_replacement(edit, facts, policy)
    elif isinstance(edit, Drop | Fold):
        broken = _check_span(edit, facts, policy)
    else:
        broken = None
    return Refusal(edit=edit, law=broken[0], why=broken[1]) if broken else None


def _check_replacement(edit: Replace, facts: Facts, policy: Policy) -> tuple[str, str] | None:
    """Return (law, reason) if replacing the item breaks a law, else None.

    The target must exist, and the text must be valid UTF-8. Reasoning may only be removed, and not in
    the newest turn while a tool loop is open. Of other items only calls and results may change, and for
    want of room outsized pastes: not in the newest round, not protected or pinned, not compacted
    already, not still running. The text must
    be shorter by the policy's margin, and call arguments must stay a JSON object.
    """
    at = facts.index.get(edit.id)
    if at is None:
        return "target", "the item is not in the conversation"
    item = facts.items[at]
    if not is_valid_text(edit.text):
        return "valid text", "the text holds a lone surrogate"
    if item.kind == "reasoning":
        if edit.text:
            return "reasoning", "a reasoning block stays whole or leaves"
        held = item.turn >= facts.turn and not facts.is_tool_loop_closed()
        return ("newest round", "it belongs to the newest turn") if held else None
    paste = edit.reason == "room" and item.kind == "text" and item.role == "user" and len(item.text) > PASTE_LIMIT
    if item.kind not in ("call", "result") and not paste:
        return "user words", "only calls and results may be replaced"
    if item.turn >= facts.turn and at < facts.first_sight:
        return "newest round", "it belongs to the newest turn"
    if is_protected(item, policy) or at < protected_head_end(facts, policy):
        return "protection", f"{item.name or 'this item'} is protected or pinned"
    if is_compacted_text(item.text):
        return "idempotence", "the item is a placeholder already"
    if at in facts.pending:
        return "open call", "the call is still running"
    if facts.items[facts.call_of.get(at, at)].program:
        return "program", "a program of the model's own made the call and reads its result"
    if len(edit.text) > (1 - policy.elide.margin) * len(item.text):
        return "never longer", "the edit frees too little"
    if item.kind == "call" and not is_json_object(edit.text):
        return "arguments", "call arguments must be a JSON object"
    return None


def _check_span(edit: Drop | Fold, facts: Facts, policy: Policy) -> tuple[str, str] | None:
    """Return (law, reason) if dropping or folding the span breaks a law, else None.

    The span must consist of whole rounds that are finished and older than the newest turn, and must
    hold no protected item outside `keep`. With the shape `seed` a fold may cover everything.
    """
    first, last = facts.index.get(edit.first), facts.index.get(edit.last)
    if first is None or last is None or last < first:
        return "target", "the span is not in the conversation"
    items = facts.items
    everything = isinstance(edit, Fold) and policy.handover.shape == "seed"
    newest = items[last].turn >= facts.turn and (not isinstance(edit, Fold) or items[last].role != "user")
    if newest and not everything:
        return "newest round", "the span reaches into the newest turn"
    if first < protected_head_end(facts, policy):
        return "protection", "the span reaches into the head that the policy protects"
    if any(is_open(facts, at) for at in range(first, last + 1)):
        return "open call", "a call in the span is still running"
    if facts.splits_round(first, last):
        return "whole rounds", "the span cuts a round"
    if isinstance(edit, Fold) and not is_valid_text(edit.text):
        return "valid text", "the hand-over holds a lone surrogate"
    kept = set(edit.keep) if isinstance(edit, Fold) else set()
    halves = {facts.call_start(at) for at in range(first, last + 1) if items[at].id in kept} - {None}
    opening = find_loop_opening(facts, first, last)
    if not everything and any(items[at].id not in kept for at in opening):
        return "opening thinking", "what is left of the tool loop would begin without the thinking that opened it"
    parts = (at for at in range(first, last + 1) if items[at].kind != "media")
    if any(facts.call_start(at) in halves and items[at].id not in kept for at in parts):
        return "whole rounds", "the span would leave a call without its result, or a result without its call"
    for item in items[first : last + 1]:
        if item.id not in kept and (item.fixed or (is_protected(item, policy) and not everything)):
            return "protection", f"{item.name or 'an item'} in the span is protected or pinned"
    return None


def find_loop_opening(facts: Facts, first: int, last: int) -> range:
    """Return the positions of the turn that opens the tool loop which goes on after the span, if it has to stay.

    A loop that began with signed thinking must still begin so (Anthropic: "a final assistant message must start with
    a thinking block"). It has to stay if the span holds it and the first turn after the span begins otherwise.
    """
    items = facts.items
    after = last + 1
    while after < len(items) and items[after].role == "system":
        after += 1
    if after == len(items) or items[after].role != "assistant" or items[after].bound:
        return range(0)
    before = bisect.bisect_left(facts.users, after)
    asked = facts.users[before - 1] if before else -1
    begin = next((at for at in range(asked + 1, after) if items[at].role == "assistant"), after)
    if not items[begin].bound or begin < first:
        return range(0)
    return range(begin, facts.turn_start(items[begin].turn + 1))


def is_open(facts: Facts, at: int) -> bool:
    """Return whether a result is still to come: that of a call, or more for a program that runs in the newest turn."""
    item = facts.items[at]
    return at in facts.pending or (bool(item.program) and item.turn >= facts.turn)


def protected_head_end(facts: Facts, policy: Policy) -> int:
    """Return the position where the policy's protected head ends, whole rounds included; 0 without one."""
    if not policy.protected_head:
        return 0
    items = facts.items
    begin = next((item.at[0] for item in items if item.role != "system"), 0)
    end = next((at for at, item in enumerate(items) if item.at[0] >= begin + policy.protected_head), len(items))
    while 0 < end < len(items) and facts.splits_round(0, end - 1):
        end += 1
    return end


def is_protected(item: Item, policy: Policy) -> bool:
    """Return whether the item carries the provider's state, or the policy protects its tool or pins a text in it."""
    if item.fixed:
        return True
    if item.kind in ("call", "result") and policy.protects(item.name):
        return True
    return any(pin in item.text for pin in policy.pinned)
