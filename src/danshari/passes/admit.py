"""断 Admission: clean a new result and shorten it if it is very long, before any provider has seen it.

The edit depends only on the item, what came before it, the policy, and which earlier reads are
still shown. It does not depend on window pressure or calibration, so a process that loads the
ledger makes the same bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from danshari.analysis.facts import Facts
from danshari.analysis.lines import is_source, text_ends
from danshari.analysis.terminal import CLEANED_KINDS, clean_terminal_output
from danshari.core.edits import Effects, Reason, Replace
from danshari.core.placeholder import is_compacted_text, render_kept_lines, render_text_ends
from danshari.core.policy import Policy
from danshari.shorten.reread import find_unchanged_lines
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
_UNNARROWED = {"other", "web", "agent"}
"""Kinds of calls of which nobody knows how to ask for less: shortened once, shown whole when asked again."""
_MIN_SAVING = 300
"""Characters that an edit of a shown file must save."""


def admit(facts: Facts, effects: Effects, policy: Policy, at: int) -> Replace | None:
    """Return the admission edit of the item at `at`, or None; `effects` tell which earlier reads are shown."""
    item = facts.items[at]
    if item.kind != "result" or is_compacted_text(item.text):
        return None
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    if kind in FILE_TOOL_KINDS:
        short = _admit_file(facts, effects, at, policy)
    else:
        short = _admit_output(facts, at, kind, policy)
    if short is None or not short.text.strip():
        return None
    return Replace(id=item.id, text=short.text, by="admit", reason=short.reason, why=short.why)


class Short(NamedTuple):
    """What first sight shows in place of a text."""

    text: str
    reason: Reason
    why: str
    """The reason in words."""


def _admit_output(facts: Facts, at: int, kind: str, policy: Policy) -> Short | None:
    """Clean the output of a run, search or listing, and shorten it if it is too long; None if it stays as it is.

    A call that repeats an earlier one, of a kind that can not be narrowed, is answered whole.
    """
    item = facts.items[at]
    text = clean_terminal_output(item.text) if kind in CLEANED_KINDS else item.text
    outsized = 0 < policy.admit.any_over < len(text)
    if kind in _UNNARROWED and facts.is_asked_again(at):
        pass  # the agent came back for what first sight left out, and has no narrower way to ask
    elif outsized or (
        0 < policy.admit.over < len(text) and kind in CLEANED_KINDS and not _is_readable_source(kind, text)
    ):
        keep = policy.admit.any_over // 4 if outsized and kind not in CLEANED_KINDS else policy.admit.keep
        short = squeeze(facts, at, keep, policy, note=_narrowing_hint(kind), text=text)
        if short is not None and len(short) < len(text):
            why = f"first sight of {len(item.text)} characters from {item.name or kind}"
            return Short(short, "first sight", why)
    return Short(text, "cleaned", "cleaned") if text != item.text else None


def _admit_file(facts: Facts, effects: Effects, at: int, policy: Policy) -> Short | None:
    """Shorten a read of a file; None if it stays as it is.

    Lines that an earlier read still shows are left out, a very long read keeps its likeliest lines, and
    line numbers are thinned out.
    """
    item = facts.items[at]
    lines = item.text.split("\n")
    old, note = (
        find_unchanged_lines(facts, effects, at, lines, least=policy.admit.reread_over)
        if policy.admit.reread_over
        else (set[int](), "")
    )
    numbers = [n for n in range(len(lines)) if n not in old]
    left = sum(len(lines[n]) + 1 for n in numbers)
    whole = f"first sight of {len(item.text)} characters of a file"
    reason: Reason = "shown above" if old else ""
    why = f"shown again: {len(old)} lines are unchanged" if old else ""
    limits = [limit for limit in (policy.admit.read_over, policy.admit.any_over) if 0 < limit < left]
    if limits:
        room = (
            policy.admit.any_over // 4
            if 0 < policy.admit.any_over < left
            else int(_BASE_SHARE * policy.admit.read_over + policy.admit.read_share * (left - policy.admit.read_over))
        )
        kept = [n for n in choose_kept_lines(facts, at, lines, room) if n not in old]
        if is_thin_selection(lines, kept, room):
            text = render_text_ends(item, *text_ends(item.text, room))
            return Short(text, "first sight", whole) if len(text) < len(item.text) else None
        if sum(len(lines[n]) + 1 for n in kept) < (1 - policy.elide.margin) * left:
            numbers = kept
            reason, why = (reason, why) if reason else ("first sight", whole)
            note = f"{note}, or were left out" if note else "read the span you need to see more"
    row = facts.tool_row_at(at)
    count = number_interval(facts, at, policy) if row.numbered else 1
    if not reason and count > 1:
        reason, why = "line numbers", f"one line number in {count}"
    if not reason:
        return None
    text = render_kept_lines(item, numbers, [lines[n] for n in numbers], note=note, total=len(lines), every=count)
    return Short(text, reason, why) if len(item.text) - len(text) >= _MIN_SAVING else None


def _is_readable_source(kind: str, text: str) -> bool:
    """Return whether a run or fetch printed source code of readable size, which is left whole like a read."""
    return kind in ("run", "web", "other") and len(text) <= _READABLE and is_source(text.split("\n"))


def _narrowing_hint(kind: str) -> str:
    """Return the hint how to see more of a shortened result."""
    hints = {"search": "narrow the pattern to see more", "list": "list a folder to see more"}
    return "the same call again shows all" if kind in _UNNARROWED else hints.get(kind, "")
