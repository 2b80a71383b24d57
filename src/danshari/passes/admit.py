"""断 Admission: clean a new result and shorten it if it is very long, before any provider has seen it.

The edit depends only on the item, what came before it, the policy, and which earlier reads are
still shown. It does not depend on window pressure or calibration, so a process that loads the
ledger makes the same bytes.
"""

from __future__ import annotations

from danshari.analysis.facts import Facts
from danshari.analysis.lines import is_source, text_ends
from danshari.analysis.terminal import CLEANED_KINDS, clean_terminal_output
from danshari.core.edits import Effects, Replace
from danshari.core.placeholder import is_compacted_text, render_kept_lines, render_text_ends
from danshari.core.policy import Policy
from danshari.shorten.reread import REREAD_REASON_PREFIX, find_unchanged_lines
from danshari.shorten.text import (
    choose_kept_lines,
    is_thin_selection,
    number_interval,
    squeeze,
)
from danshari.shorten.text_kind import FILE_TOOL_KINDS

_READABLE = 30_000
"""Characters up to which printed source code is left whole at first sight."""
_BASE_SHARE = 0.8
"""Share of `admit_read` characters that every long read may keep."""
_MIN_SAVING = 300
"""Characters that an edit of a shown file must save."""


def admit(facts: Facts, effects: Effects, policy: Policy, at: int) -> Replace | None:
    """Return the admission edit of the item at `at`, or None; `effects` tell which earlier reads are shown."""
    item = facts.items[at]
    if item.kind != "result" or is_compacted_text(item.text):
        return None
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    text, why = (
        _admit_file(facts, effects, at, policy) if kind in FILE_TOOL_KINDS else _admit_output(facts, at, kind, policy)
    )
    return Replace(id=item.id, text=text, by="admit", why=why) if why and text.strip() else None


def _admit_output(facts: Facts, at: int, kind: str, policy: Policy) -> tuple[str, str]:
    """Clean the output of a run, search or listing, and shorten it if it is too long; return (text, reason)."""
    item = facts.items[at]
    text = clean_terminal_output(item.text) if kind in CLEANED_KINDS else item.text
    why = "cleaned" if text != item.text else ""
    outsized = 0 < policy.admit_any < len(text)
    if outsized or (
        0 < policy.admit_over < len(text) and kind in CLEANED_KINDS and not _is_readable_source(kind, text)
    ):
        keep = policy.admit_any // 4 if outsized and kind not in CLEANED_KINDS else policy.admit_keep
        short = squeeze(facts, at, keep, policy, note=_narrowing_hint(kind), text=text)
        if short is not None and len(short) < len(text):
            return short, f"first sight of {len(item.text)} characters from {item.name or kind}"
    return text, why


def _admit_file(facts: Facts, effects: Effects, at: int, policy: Policy) -> tuple[str, str]:
    """Shorten a read of a file; return (text, reason).

    Lines that an earlier read still shows are left out, a very long read keeps its likeliest lines, and
    line numbers are thinned out.
    """
    item = facts.items[at]
    lines = item.text.split("\n")
    old, note = (
        find_unchanged_lines(facts, effects, at, lines, least=policy.admit_again)
        if policy.admit_again
        else (set[int](), "")
    )
    numbers = [n for n in range(len(lines)) if n not in old]
    left = sum(len(lines[n]) + 1 for n in numbers)
    why = f"{REREAD_REASON_PREFIX}: {len(old)} lines are unchanged" if old else ""
    limits = [limit for limit in (policy.admit_read, policy.admit_any) if 0 < limit < left]
    if limits:
        room = (
            policy.admit_any // 4
            if 0 < policy.admit_any < left
            else int(_BASE_SHARE * policy.admit_read + policy.admit_share * (left - policy.admit_read))
        )
        kept = [n for n in choose_kept_lines(facts, at, lines, room) if n not in old]
        if is_thin_selection(lines, kept, room):
            text = render_text_ends(item, *text_ends(item.text, room))
            return (
                (text, f"first sight of {len(item.text)} characters of a file")
                if len(text) < len(item.text)
                else (item.text, "")
            )
        if sum(len(lines[n]) + 1 for n in kept) < (1 - policy.margin) * left:
            numbers = kept
            why = why or f"first sight of {len(item.text)} characters of a file"
            note = f"{note}, or were left out" if note else "read the span you need to see more"
    row = facts.tool_row_at(at)
    count = number_interval(facts, at, policy) if row.numbered else 1
    why = why or (f"one line number in {count}" if count > 1 else "")
    if not why:
        return item.text, ""
    text = render_kept_lines(item, numbers, [lines[n] for n in numbers], note=note, total=len(lines), every=count)
    return (text, why) if len(item.text) - len(text) >= _MIN_SAVING else (item.text, "")


def _is_readable_source(kind: str, text: str) -> bool:
    """Return whether a run or fetch printed source code of readable size, which is left whole like a read."""
    return kind in ("run", "web", "other") and len(text) <= _READABLE and is_source(text.split("\n"))


def _narrowing_hint(kind: str) -> str:
    """Return the hint how to see more of a shortened search or listing."""
    return {"search": "narrow the pattern to see more", "list": "list a folder to see more"}.get(kind, "")
