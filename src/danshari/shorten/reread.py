"""Repeated reads of a file: lines that an earlier read still shows need not be shown again.

Runs of lines are matched in order, so that moved or repeated code is never taken for unchanged. An
earlier read counts as shown only while no edit other than admission has changed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.placeholder import has_tool_numbers, recall_id, render_earlier_read, strip_number_prefix
from danshari.core.text import parse_arguments

_MAX_VIEWS = 4
"""Earlier reads that are looked through, the newest first."""
_MAX_OCCURRENCES = 6
"""A line that stands more often in a read starts no run."""
_CONTEXT_LINES = 1
"""Unchanged lines shown on each side of what is new."""
_MIN_START_LINE = 6
"""Characters up to which a line starts no run."""


def find_unchanged_lines(
    facts: Facts, effects: Effects, at: int, lines: Sequence[str], *, least: int
) -> tuple[set[int], str]:
    """Find the lines (0-based) that the call or an earlier read still shows, and a note that says where.

    Only runs of `least` characters or more count. One unchanged line on each side of new lines stays as
    context.
    """
    new = strip_tool_numbers(lines)
    covered: set[int] = set()
    places: list[str] = []
    for place, earlier in _earlier_views(facts, effects, at):
        before = len(covered)
        for start, end in _matching_runs(new, earlier, least):
            first = start + (_CONTEXT_LINES if start else 0)
            last = end - (_CONTEXT_LINES if end < len(new) else 0)
            covered.update(range(first, last))
        if len(covered) > before:
            places.append(place)
    return covered, f"lines left out are unchanged since {' and '.join(places)}" if covered else ""


def has_dependent_read(facts: Facts, effects: Effects, at: int, since: int) -> bool:
    """Return whether a read at or after turn `since` omits lines that an earlier read of the same file shows.

    That earlier read may be the one at `at` or another one.
    """
    act = facts.act_at(at)
    if act is None or act.kind != "read":
        return False
    # the input already holds a shortened read that refers to this item
    if facts.newest_dependent.get(recall_id(facts.items[at]), -1) >= since:
        return True
    for view in facts.views.get(facts.result_file_key(at), ()):
        if view > at and facts.items[view].turn >= since:
            edit = effects.texts.get(view)
            if edit is not None and edit.reason == "shown above":
                return True
    return False


def strip_tool_numbers(lines: Sequence[str]) -> list[str]:
    """Return the lines without the tool's line numbers, if most of them have one."""
    return [strip_number_prefix(line) for line in lines] if has_tool_numbers(lines) else list(lines)


def _earlier_views(facts: Facts, effects: Effects, at: int) -> Iterator[tuple[str, list[str]]]:
    """Yield what already shows the file, as (description, lines).

    First the call's own text, then earlier reads that are still shown, newest first.
    """
    act = facts.act_at(at)
    call = facts.call_of.get(at, -1)
    if act and act.kind in ("edit", "write") and call not in effects.texts:
        given = parse_arguments(facts.items[call].text)
        for body in (given.get(key) for key in facts.tool_row_at(at).body):
            if isinstance(body, str):
                yield "the call", body.split("\n")
    views = [v for v in facts.views.get(facts.result_file_key(at), ()) if v < at] if act else []
    for view in views[: -_MAX_VIEWS - 1 : -1]:
        edit = effects.texts.get(view)
        if view in effects.gone or (edit is not None and edit.by != "admit"):
            continue
        item = facts.items[view]
        yield render_earlier_read(item), _visible_lines(item.text, edit.text if edit else None)


def _visible_lines(source: str, text: str | None) -> list[str]:
    """Return the lines that an earlier read shows now, without line numbers."""
    lines = source.split("\n")
    if text is None:
        return strip_tool_numbers(lines)
    ours = not has_tool_numbers(lines)
    return [strip_number_prefix(line, ours=ours) for line in text.split("\n")[1:]]


def _matching_runs(new: Sequence[str], old: Sequence[str], least: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the runs of `new` that occur in `old` in the same order.

    No line of `old` is used twice; a run has `least` characters or more.
    """
    places: dict[str, list[int]] = {}
    for number, line in enumerate(old):
        if len(line) > _MIN_START_LINE:
            places.setdefault(line, []).append(number)
    at = beyond = 0
    while at < len(new):
        starts = places.get(new[at], ())
        best, place = 0, 0
        for start in starts if len(starts) <= _MAX_OCCURRENCES else ():
            if start >= beyond and (length := _match_length(new, old, at, start)) > best:
                best, place = length, start
        if best and sum(map(len, new[at : at + best])) + best >= least:
            yield at, at + best
            beyond = place + best
        at += max(best, 1)


def _match_length(new: Sequence[str], old: Sequence[str], at: int, start: int) -> int:
    count = 0
    while at + count < len(new) and start + count < len(old) and new[at + count] == old[start + count]:
        count += 1
    return count
