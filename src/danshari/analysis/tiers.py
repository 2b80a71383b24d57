"""The four tiers of importance of an item: conclusion, evidence, process, transient."""

from __future__ import annotations

from typing import Literal, get_args

from danshari.analysis.facts import Facts

Tier = Literal["conclusion", "evidence", "process", "transient"]
TIERS: tuple[Tier, ...] = get_args(Tier)
_CONCLUSIONS = {"plan", "skill", "ask"}
_TRANSIENT = {"search", "list", "web", "job"}


def tier_of(facts: Facts, at: int) -> Tier:
    """Return the tier of the item at `at`, by its kind, its outcome and what happened since.

    Texts, plans and skills are conclusions; edits, failed commands and reads of files changed since are
    evidence; other reads and runs are process; searches, listings, pages and outdated items are
    transient. A read that was read again is process, because the later read may refer to it.
    """
    item = facts.items[at]
    if item.kind in ("text", "media"):
        return "conclusion"
    if item.kind not in ("call", "result"):
        return "process"
    if at in facts.overtaken:  # a read that was read again may be leaned on by the later one
        return "process" if facts.overtaken[at].reason == "read again later" else "transient"
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
    if item.kind == "result" and kind == "run" and not facts.is_success(item):
        return "evidence"
    return "process"
