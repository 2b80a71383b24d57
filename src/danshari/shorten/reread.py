"""A file read again: lines that stand unchanged in an earlier read, still in sight, need not be shown twice.

Runs are matched line by line in their order, so that moved or repeated code is never taken for unchanged. An earlier
read counts as in sight only while no later edit than admission touched it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.placeholder import recall_id, tool_numbered, unnumbered
from danshari.core.text import parse_arguments

AGAIN = "shown again"
"""How the reason of such an edit begins."""
_VIEWS = 4
"""Earlier reads that are looked through, the newest first."""
_COMMON = 6
"""A line that stands more often in a read starts no run."""
_AROUND = 1
"""Unchanged lines shown on each side of what is new."""
_SHORT = 6
"""Characters up to which a line starts no run."""


def unchanged(facts: Facts, effects: Effects, at: int, lines: Sequence[str], *, least: int) -> tuple[set[int], str]:
    """Find the lines (0-based) that stand in the call or in earlier reads in sight, and say where that is.

    Only runs of `least` characters or more count; lines beside what is new are left out, so that it keeps a neighbour.
    """
    new = plain(lines)
    covered: set[int] = set()
    places: list[str] = []
    for place, earlier in _earlier(facts, effects, at):
        before = len(covered)
        for start, end in _runs(new, earlier, least):
            first = start + (_AROUND if start else 0)
            last = end - (_AROUND if end < len(new) else 0)
            covered.update(range(first, last))
        if len(covered) > before:
            places.append(place)
    return covered, f"lines left out are unchanged since {' and '.join(places)}" if covered else ""


def leaned_on(facts: Facts, effects: Effects, at: int, since: int) -> bool:
    """Say whether a read from turn `since` on leaves lines to the read at `at`."""
    act = facts.act_at(at)
    if act is None or act.kind != "read":
        return False
    if facts.leans.get(recall_id(facts.items[at]), -1) >= since:  # a view of ours came back as input
        return True
    for view in facts.views.get(facts.placed(at), ()):
        if view > at and facts.items[view].turn >= since:
            edit = effects.texts.get(view)
            if edit is not None and edit.by == "admit" and edit.why.startswith(AGAIN):
                return True
    return False


def plain(lines: Sequence[str]) -> list[str]:
    """Give a file's lines without the numbers that a tool put before them, where it did so before most of them."""
    return [unnumbered(line) for line in lines] if tool_numbered(lines) else list(lines)


def _earlier(facts: Facts, effects: Effects, at: int) -> Iterator[tuple[str, list[str]]]:
    """Give what shows the file already, with a name for it: the call's own text, then reads, the newest first."""
    act = facts.act_at(at)
    call = facts.call_of.get(at, -1)
    if act and act.kind in ("edit", "write") and call not in effects.texts:
        given = parse_arguments(facts.items[call].text)
        for body in (given.get(key) for key in facts.row_at(at).body):
            if isinstance(body, str):
                yield "the call", body.split("\n")
    views = [v for v in facts.views.get(facts.placed(at), ()) if v < at] if act else []
    for view in views[: -_VIEWS - 1 : -1]:
        edit = effects.texts.get(view)
        if view in effects.gone or (edit is not None and edit.by != "admit"):
            continue
        item = facts.items[view]
        yield f"an earlier read ({recall_id(item)})", _shown(item.text, edit.text if edit else None)


def _shown(source: str, text: str | None) -> list[str]:
    """Give the lines of a read in sight; a squeezed one has numbers of its own where the tool gave none."""
    lines = source.split("\n")
    if text is None:
        return plain(lines)
    ours = not tool_numbered(lines)
    return [unnumbered(line, ours=ours) for line in text.split("\n")[1:]]


def _runs(new: Sequence[str], old: Sequence[str], least: int) -> Iterator[tuple[int, int]]:
    """Give (start, end) of the runs of `new` that stand in `old` in the same order, no line of `old` used twice."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(old):
        if len(line) > _SHORT:
            places.setdefault(line, []).append(number)
    at = beyond = 0
    while at < len(new):
        starts = places.get(new[at], ())
        best, place = 0, 0
        for start in starts if len(starts) <= _COMMON else ():
            if start >= beyond and (length := _length(new, old, at, start)) > best:
                best, place = length, start
        if best and sum(map(len, new[at : at + best])) + best >= least:
            yield at, at + best
            beyond = place + best
        at += max(best, 1)


def _length(new: Sequence[str], old: Sequence[str], at: int, start: int) -> int:
    count = 0
    while at + count < len(new) and start + count < len(old) and new[at + count] == old[start + count]:
        count += 1
    return count
