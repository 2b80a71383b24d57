"""断: what arrives is cleaned and, if outsized, squeezed before any provider has seen it.

A function of the item, what came strictly before it, the policy, and which earlier reads the ledger leaves in sight:
never of pressure or calibration, so a process that has the ledger admits the same bytes.
"""

from __future__ import annotations

from danshari.analysis.facts import Facts
from danshari.analysis.lines import ends, is_source
from danshari.analysis.terminal import CLEANED_KINDS, cleaned
from danshari.core.edits import Effects, Replace
from danshari.core.placeholder import clipped, is_ours, squeezed
from danshari.core.policy import Policy
from danshari.shorten.reread import AGAIN, unchanged
from danshari.shorten.text import (
    chosen,
    every,
    squeeze,
    thin,
)
from danshari.shorten.text_kind import FILES

_READABLE = 30_000
"""Characters up to which printed source code is left whole at first sight."""
_BASE = 0.8
"""Share of `admit_read` characters that every long read may keep."""
_LEAST = 300
"""Characters that an edit of a shown file must save."""


def admit(facts: Facts, effects: Effects, policy: Policy, at: int) -> Replace | None:
    """Propose the admission edit of the item at `at`, if any; `effects` tell which reads are in sight."""
    item = facts.items[at]
    if item.kind != "result" or is_ours(item.text):
        return None
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    text, why = _file(facts, effects, at, policy) if kind in FILES else _output(facts, at, kind, policy)
    return Replace(id=item.id, text=text, by="admit", why=why) if why and text.strip() else None


def _output(facts: Facts, at: int, kind: str, policy: Policy) -> tuple[str, str]:
    """Clean what ran or was looked up, and squeeze it if it is outsized."""
    item = facts.items[at]
    text = cleaned(item.text) if kind in CLEANED_KINDS else item.text
    why = "cleaned" if text != item.text else ""
    outsized = 0 < policy.admit_any < len(text)
    if outsized or (0 < policy.admit_over < len(text) and kind in CLEANED_KINDS and not _source(kind, text)):
        keep = policy.admit_any // 4 if outsized and kind not in CLEANED_KINDS else policy.admit_keep
        short = squeeze(facts, at, keep, policy, note=_note(kind), text=text)
        if short is not None and len(short) < len(text):
            return short, f"first sight of {len(item.text)} characters from {item.name or kind}"
    return text, why


def _file(facts: Facts, effects: Effects, at: int, policy: Policy) -> tuple[str, str]:
    """Show of a file what nothing in sight shows yet, of a long read the lines likely to be needed, few numbers."""
    item = facts.items[at]
    lines = item.text.split("\n")
    old, note = (
        unchanged(facts, effects, at, lines, least=policy.admit_again) if policy.admit_again else (set[int](), "")
    )
    numbers = [n for n in range(len(lines)) if n not in old]
    left = sum(len(lines[n]) + 1 for n in numbers)
    why = f"{AGAIN}: {len(old)} lines are unchanged" if old else ""
    limits = [limit for limit in (policy.admit_read, policy.admit_any) if 0 < limit < left]
    if limits:
        room = (
            policy.admit_any // 4
            if 0 < policy.admit_any < left
            else int(_BASE * policy.admit_read + policy.admit_share * (left - policy.admit_read))
        )
        kept = [n for n in chosen(facts, at, lines, room) if n not in old]
        if thin(lines, kept, room):
            text = clipped(item, *ends(item.text, room))
            return (
                (text, f"first sight of {len(item.text)} characters of a file")
                if len(text) < len(item.text)
                else (item.text, "")
            )
        if sum(len(lines[n]) + 1 for n in kept) < (1 - policy.margin) * left:
            numbers = kept
            why = why or f"first sight of {len(item.text)} characters of a file"
            note = f"{note}, or were left out" if note else "read the span you need to see more"
    row = facts.row_at(at)
    count = every(facts, at, policy) if row.numbered else 1
    why = why or (f"one line number in {count}" if count > 1 else "")
    if not why:
        return item.text, ""
    text = squeezed(item, numbers, [lines[n] for n in numbers], note=note, total=len(lines), every=count)
    return (text, why) if len(item.text) - len(text) >= _LEAST else (item.text, "")


def _source(kind: str, text: str) -> bool:
    """Say whether a run or fetch printed source code of a readable size; that counts as a read and stays whole."""
    return kind in ("run", "web", "other") and len(text) <= _READABLE and is_source(text.split("\n"))


def _note(kind: str) -> str:
    return {"search": "narrow the pattern to see more", "list": "list a folder to see more"}.get(kind, "")
