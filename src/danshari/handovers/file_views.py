"""Files as last seen, and the index of results that are in the archive only."""

from __future__ import annotations

from collections.abc import Sequence

from danshari.analysis.facts import Facts
from danshari.core.handover import Point
from danshari.core.placeholder import recall_id

_MIN_CHARACTERS = 1_500
"""Characters; smaller results are not worth an index line."""
_MAX_LABEL = 110


def last_file_views(facts: Facts, places: Sequence[int], room: int) -> list[Point]:
    """Return the newest full views of the files touched last, up to `room` characters in all.

    Views that an edit made stale are left out.
    """
    found: list[Point] = []
    inside = set(places)
    for path in reversed(facts.touched):
        at = next((v for v in reversed(facts.views.get(path, ())) if v in inside and not facts.is_stale(v)), None)
        if at is None or at in facts.overtaken:
            continue
        item = facts.items[at]
        if len(item.text) + _MAX_LABEL > room:
            continue
        room -= len(item.text) + _MAX_LABEL
        found.append(
            Point(
                text=item.text.rstrip("\n"), label=source_label(facts, at), turn=item.turn, source=(item.id,), key=path
            )
        )
    return found[::-1]


def archive_index(facts: Facts, places: Sequence[int]) -> list[Point]:
    """Return one line for each large result that can be recalled, except those that a later one replaces."""
    found = []
    for at in places:
        item = facts.items[at]
        if item.kind == "result" and len(item.text) >= _MIN_CHARACTERS and at not in facts.overtaken:
            text = f"{recall_id(item)} {source_label(facts, at, recall=False)} ({len(item.text)})"
            found.append(Point(text=text, turn=item.turn, source=(item.id,), key=item.digest))
    return found


def source_label(facts: Facts, at: int, *, recall: bool = True) -> str:
    """Return where an item's text came from (path and lines, command, or tool), with its recall id."""
    item, act = facts.items[at], facts.act_at(at)
    what = item.name or item.role
    if act is not None and act.path:
        span = f":{act.start}-{act.end}" if act.end and act.exact else ""
        what = act.path + span
    elif act is not None and act.command:
        what = " ".join(act.command.split())
    if len(what) > _MAX_LABEL:
        what = what[:_MAX_LABEL].rpartition(" ")[0] or what[-_MAX_LABEL:]
    return f"{what} {recall_id(item)}" if recall and item.kind == "result" else what
