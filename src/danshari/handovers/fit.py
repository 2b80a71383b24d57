"""Bring a document to its size: every field its share, key lines the rest, and a fixed order of what gives way."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from danshari.analysis.identifiers import names
from danshari.core.handover import DROP_ORDER, FIELDS, MANDATORY, ROW, FieldRow, Handover, Point
from danshari.core.handover_markdown import Phrases, render

_FRAME = 60
"""Characters of opening and ending beside the opening's words."""
_SAID = 1.5
"""What a model and the host said may take, over the typed room; beyond it the newest stays."""
TYPED = ((6_000, 0.25), (12_000, 0.4))
"""(characters, share): the part of a document's room that typed fields may take; the larger it is, the more of it."""


def fitted(
    full: Handover,
    size: int,
    *,
    hard: bool,
    lines: Callable[[int, str], Sequence[Point]],
    phrases: Phrases,
) -> Handover:
    """Cut every field to its share, fill up with key lines, and let fields give way until the text fits.

    Mandatory fields stay whole whatever the size. They count only against a hard one, and leave at least a fifth of it.
    """
    fixed = fixed_size(full)
    frame = len(phrases.opening) + _FRAME
    room = max(size - fixed - frame, size // 5) if hard else size
    fields = {name: full[name] for name in (*MANDATORY, "views") if full[name]}
    dropped = dict(full.dropped)
    typed = _shared(full, int(room * _typed_share(room)))
    for row in FIELDS:
        if row.name in (*MANDATORY, "views", "lines") or not full[row.name]:
            continue
        fields[row.name] = typed[row.name]
        if missing := len(full[row.name]) - len(typed[row.name]):
            dropped[row.name] = dropped.get(row.name, 0) + missing
    made = Handover(language=full.language, fields=fields, dropped=dropped, generation=full.generation)
    text = render(made, phrases)
    left = fixed + room + frame - len(text) - 30
    if left > 80:
        made = made.with_field("lines", lines(left, text))
    return shrunk(made, max(size, fixed + size // 5) if hard else size + fixed + frame, phrases)


def fixed_size(document: Handover) -> int:
    """Give the characters that no size counts against: mandatory fields, and views, which have a size of their own."""
    return sum(p.size for name in (*MANDATORY, "views") for p in document[name])


def _typed_share(room: int) -> float:
    (small, least), (large, most) = TYPED
    return least + (most - least) * min(max((room - small) / (large - small), 0.0), 1.0)


def _shared(full: Handover, room: int) -> dict[str, tuple[Point, ...]]:
    """Give every field what it needs, up to its share; what some leave over goes to those that need more, in order.

    What a model or the host said was paid for, and is bounded at its source: it comes first.
    """
    need = {r.name: sum(p.size for p in full[r.name]) for r in FIELDS if r.name not in (*MANDATORY, "views", "lines")}
    said = {name: sum(p.size for p in full[name] if p.by != "code") for name in need}
    told = sum(said.values())
    scale = min(1.0, _SAID * room / told) if told else 1.0
    due = {name: min(n, max(int(ROW[name].share * room), int(scale * said[name]))) for name, n in need.items()}
    spare = room - sum(due.values())
    for name in _NEEDY:
        more = max(min(need[name] - due[name], spare), 0)
        due[name] += more
        spare -= more
    return {name: _chosen(full[name], due[name], ROW[name]) for name in need}


_NEEDY = ("todo", "tests", "ruled_out", "files", "handles", "next", "notes")
"""Fields that may use what others leave over, first one first."""


def _chosen(points: Sequence[Point], room: int, row: FieldRow) -> tuple[Point, ...]:
    """Take the points worth most for their place, and keep their order."""
    ranked = sorted(range(len(points)), key=lambda n: -_worth(points[n], n, len(points), row))
    kept: dict[int, Point] = {}
    for n in ranked:
        point = points[n] if points[n].size <= room else _begun(points[n], room) if row.verbatim else None
        if point is not None:
            kept[n] = point
            room -= point.size
    return tuple(kept[n] for n in sorted(kept))


def _begun(point: Point, room: int) -> Point | None:
    """Give the first whole lines of a quotation that does not fit; None if that is not at least two."""
    lines = point.text.split("\n")
    size, count = len(point.label) + 4, 0
    while count < len(lines) and size + len(lines[count]) + 1 <= room:
        size += len(lines[count]) + 1
        count += 1
    return replace(point, text="\n".join(lines[:count])) if count >= 2 else None


def _worth(point: Point, place: int, count: int, row: FieldRow) -> float:
    """Rank a point: a model's and a host's before code's, then exact names, then nearness."""
    value = 2.0 * (place + 1) / max(count, 1) + (3.0 if point.by != "code" else 0.0)
    if row.name in ("decisions", "conclusions"):
        value += 0.5 * min(len(names(point.text)), 3) + (0.4 if re.search(r"\d", point.text) else 0.0)
    return value


def shrunk(document: Handover, size: int, phrases: Phrases) -> Handover:
    """Let fields give way, in the fixed order, until the rendered text fits; mandatory fields never do."""
    over = len(render(document, phrases)) - size
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
            over = len(render(document, phrases)) - size
        if over <= 0:
            break
    return document
