"""The four tiers of what a conversation holds: conclusion, evidence, process, transient (seed 3)."""

from __future__ import annotations

from typing import Literal, get_args

from danshari.analysis.facts import READ_AGAIN, Facts

Tier = Literal["conclusion", "evidence", "process", "transient"]
TIERS: tuple[Tier, ...] = get_args(Tier)
_CONCLUSIONS = {"plan", "skill", "ask"}
_TRANSIENT = {"search", "list", "web", "job"}


def tier_of(facts: Facts, at: int) -> Tier:
    """Assign a tier by kind, outcome and what happened since; an item's tier falls as the task moves on."""
    item = facts.items[at]
    if item.kind in ("text", "media"):
        return "conclusion"
    if item.kind not in ("call", "result"):
        return "process"
    if at in facts.overtaken:  # a read that was read again may be leaned on by the later one
        return "process" if facts.overtaken[at][1] == READ_AGAIN else "transient"
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    if kind in _CONCLUSIONS:
        return "conclusion"
    if kind in ("edit", "write"):
        return "evidence"
    if kind in _TRANSIENT:
        return "transient"
    if kind == "read" and act is not None and act.path in facts.changed:
        return "evidence"
    if item.kind == "result" and kind == "run" and not facts.succeeded(item):
        return "evidence"
    return "process"
