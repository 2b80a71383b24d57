"""Cut a document to its size.

Every field gets its share, key lines get the rest, and fields are shortened in a fixed order if it
is still too long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from danshari.analysis.identifiers import find_names
from danshari.core.handover import (
    DROP_ORDER,
    FIELD_BY_NAME,
    HANDOVER_FIELDS,
    MANDATORY_FIELDS,
    FieldSpec,
    Handover,
    Point,
)
from danshari.core.handover_markdown import Phrases, render_handover

_FRAME = 60
"""Characters of opening and ending beside the opening's words."""
_STATED_FACTOR = 1.5
"""What a model and the host said may take, over the typed room; beyond it the newest stays."""
FIELD_SHARES = ((6_000, 0.25), (12_000, 0.4))
"""(characters, share): the part of a document's room that typed fields may take; the larger it is, the more of it."""


def fit_document(
    full: Handover,
    size: int,
    *,
    hard: bool,
    lines: Callable[[int, str], Sequence[Point]],
    phrases: Phrases,
) -> Handover:
    """Cut every field to its share, add key lines, and shorten fields until the rendered text fits.

    `size` is in characters; `lines` returns key lines for a given room and the text so far. Mandatory
    fields always stay whole. They count only against a hard size, and the other fields get at least a
    fifth of it.
    """
    fixed = mandatory_size(full)
    frame = len(phrases.opening) + _FRAME
    room = max(size - fixed - frame, size // 5) if hard else size
    fields = {name: full[name] for name in (*MANDATORY_FIELDS, "views") if full[name]}
    dropped = dict(full.dropped)
    typed = _share_room(full, int(room * _fields_share(room)))
    for row in HANDOVER_FIELDS:
        if row.name in (*MANDATORY_FIELDS, "views", "lines") or not full[row.name]:
            continue
        fields[row.name] = typed[row.name]
        if missing := len(full[row.name]) - len(typed[row.name]):
            dropped[row.name] = dropped.get(row.name, 0) + missing
    made = Handover(language=full.language, fields=fields, dropped=dropped, generation=full.generation)
    text = render_handover(made, phrases)
    left = fixed + room + frame - len(text) - 30
    if left > 80:
        made = made.with_field("lines", lines(left, text))
    return shrink_document(made, max(size, fixed + size // 5) if hard else size + fixed + frame, phrases)


def mandatory_size(document: Handover) -> int:
    """Return the characters of the fields that are exempt from the size: mandatory fields and file views."""
    return sum(p.size for name in (*MANDATORY_FIELDS, "views") for p in document[name])


def _fields_share(room: int) -> float:
    """Return the share of `room` (characters) for typed fields, interpolated linearly between two sizes."""
    (small, least), (large, most) = FIELD_SHARES
    return least + (most - least) * min(max((room - small) / (large - small), 0.0), 1.0)


def _share_room(full: Handover, room: int) -> dict[str, tuple[Point, ...]]:
    """Share `room` characters among the fields: each gets what it needs up to its share.

    What is left over goes to fields that need more, in order. Points of a model or the host come first,
    because they were paid for.
    """
    need = {
        r.name: sum(p.size for p in full[r.name])
        for r in HANDOVER_FIELDS
        if r.name not in (*MANDATORY_FIELDS, "views", "lines")
    }
    said = {name: sum(p.size for p in full[name] if p.by != "code") for name in need}
    told = sum(said.values())
    scale = min(1.0, _STATED_FACTOR * room / told) if told else 1.0
    due = {
        name: min(n, max(int(FIELD_BY_NAME[name].share * room), int(scale * said[name]))) for name, n in need.items()
    }
    spare = room - sum(due.values())
    for name in _GROWING_FIELDS:
        more = max(min(need[name] - due[name], spare), 0)
        due[name] += more
        spare -= more
    return {name: _choose_points(full[name], due[name], FIELD_BY_NAME[name]) for name in need}


_GROWING_FIELDS = ("todo", "handles", "skills", "tests", "ruled_out", "files", "next", "notes")
"""Fields that may use what others leave over, first one first."""


def _choose_points(points: Sequence[Point], room: int, row: FieldSpec) -> tuple[Point, ...]:
    """Take the points of highest worth that fit into `room` characters, in their order."""
    ranked = sorted(range(len(points)), key=lambda n: -_point_worth(points[n], n, len(points), row))
    kept: dict[int, Point] = {}
    for n in ranked:
        point = points[n] if points[n].size <= room else _cut_quotation(points[n], room) if row.verbatim else None
        if point is not None:
            kept[n] = point
            room -= point.size
    return tuple(kept[n] for n in sorted(kept))


def _cut_quotation(point: Point, room: int) -> Point | None:
    """Return a quotation cut to its first whole lines that fit; None if fewer than two do."""
    lines = point.text.split("\n")
    size, count = len(point.label) + 4, 0
    while count < len(lines) and size + len(lines[count]) + 1 <= room:
        size += len(lines[count]) + 1
        count += 1
    return replace(point, text="\n".join(lines[:count])) if count >= 2 else None


def _point_worth(point: Point, place: int, count: int, row: FieldSpec) -> float:
    """Return a point's rank within its field.

    Up to 2 for being recent, 3 more if a model or the host wrote it; in decisions and conclusions 0.5
    for each exact name (three at most) and 0.4 for a number.
    """
    value = 2.0 * (place + 1) / max(count, 1) + (3.0 if point.by != "code" else 0.0)
    if row.name in ("decisions", "conclusions"):
        value += 0.5 * min(len(find_names(point.text)), 3) + (0.4 if re.search(r"\d", point.text) else 0.0)
    return value


def shrink_document(document: Handover, size: int, phrases: Phrases) -> Handover:
    """Remove points in the fixed order of fields, oldest first, until the rendered text fits into `size`."""
    over = len(render_handover(document, phrases)) - size
    for name in DROP_ORDER:
        points = list(document[name])
        gone = 0
        while over > 0 and points:
            over -= points.pop(0).size
            gone += 1
        if gone:
            dropped = {**document.dropped, name: document.dropped.get(name, 0) + gone}
            if name == "lines":
                dropped.pop("lines")
            fields = {**document.fields, name: tuple(points)}
            document = Handover(
                language=document.language, fields=fields, dropped=dropped, generation=document.generation
            )
            over = len(render_handover(document, phrases)) - size
        if over <= 0:
            break
    return document
