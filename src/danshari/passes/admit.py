"""断: what arrives is cleaned and, if outsized, squeezed before any provider has seen it.

A pure function of the item, strictly earlier raw items and the policy: never of pressure, view or calibration,
so a restarted process admits the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from danshari.core.cleaning import CLEANED_KINDS, cleaned
from danshari.core.edits import Replace
from danshari.core.facts import Facts
from danshari.core.lines import is_source
from danshari.core.placeholder import is_ours
from danshari.core.policy import Policy
from danshari.passes.shorten import squeeze

_READABLE = 30_000
"""Characters up to which printed source code is left whole at first sight."""


def admit(facts: Facts, policy: Policy, since: int) -> Iterator[Replace]:
    """Propose admission edits for the results from position `since` on."""
    for at in range(since, len(facts.items)):
        item = facts.items[at]
        if item.kind != "result" or is_ours(item.text):
            continue
        act = facts.act_at(at)
        kind = act.kind if act else "other"
        text = cleaned(item.text) if kind in CLEANED_KINDS else item.text
        why = "cleaned" if text != item.text else ""
        outsized = 0 < policy.admit_any < len(text)
        if outsized or (0 < policy.admit_over < len(text) and kind in CLEANED_KINDS and not _source(kind, text)):
            keep = policy.admit_any // 4 if outsized and kind not in CLEANED_KINDS else policy.admit_keep
            short = squeeze(facts, at, keep, note=_note(kind), text=text)
            if short is not None and len(short) < len(text):
                text, why = short, f"first sight of {len(item.text)} characters from {item.name or kind}"
        if why and text.strip():
            yield Replace(id=item.id, text=text, by="admit", why=why)


def _source(kind: str, text: str) -> bool:
    """Say whether a run or fetch printed source code of a readable size; that counts as a read and stays whole."""
    return kind in ("run", "web", "other") and len(text) <= _READABLE and is_source(text.split("\n"))


def _note(kind: str) -> str:
    return {"search": "narrow the pattern to see more", "list": "list a folder to see more"}.get(kind, "")
