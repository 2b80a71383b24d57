"""Render a hand-over as compact Markdown in the conversation's language, and parse it again.

Quotations stand unchanged under a line `~ turn label`. A quoted line that looks like this markup
gets a backslash, so `parse_handover(render_handover(h)) == h.strip_metadata()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from danshari.core.handover import FIELD_BY_NAME, HANDOVER_FIELDS, HANDOVER_FORMAT, Handover, Point
from danshari.core.text import lazy_pattern

OPENING = "[danshari hand-over "
ENDING = "[danshari hand-over ends]"
_OPENING_LINE = lazy_pattern(r"\[danshari hand-over (\d+) ([\w-]+) (\d+): .*\]\Z")
_LABEL_LINE = lazy_pattern(r"~ (\d*)(?: (.*))?\Z")
_HEADING_LINE = lazy_pattern(r"## (.+?) ·(?: \(\+(\d+)\D*\))?\Z")
"""A heading ends in a middle dot, so that a user's own `## Goal` is no heading of ours and stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """The fixed words of a hand-over in one language."""

    language: str
    name: str
    """The language's own name and its English one, as told to a model."""
    opening: str
    """What the first line says of the document: derived, reference only."""
    more: str
    """Said of points that are in the archive only, after their number."""
    headings: Mapping[str, str]
    texts: Mapping[str, str] = field(default_factory=dict)
    """Short words used inside points."""
    common: frozenset[str] = frozenset()
    """Frequent small words, by which the language is told from others in the same script."""
    script: str = ""
    """A character class that gives the language away; empty for Latin script."""


def render_handover(document: Handover, phrases: Phrases) -> str:
    """Return the document as text."""
    lines = [f"{OPENING}{HANDOVER_FORMAT} {document.language} {document.generation}: {phrases.opening}]"]
    for row in HANDOVER_FIELDS:
        points, dropped = document[row.name], document.dropped.get(row.name, 0)
        if not points and not dropped:
            continue
        more = f" (+{dropped} {phrases.more})" if dropped else ""
        lines.append(f"## {phrases.headings[row.name]} ·{more}")
        for point in points:
            lines += _render_quotation(point, phrases) if row.verbatim else _render_point(point)
    lines.append(ENDING)
    return "\n".join(lines)


def _render_point(point: Point) -> list[str]:
    first, *rest = point.text.split("\n")
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _render_quotation(point: Point, phrases: Phrases) -> list[str]:
    label = " ".join(point.label.split())
    head = f"~ {point.turn or ''}" + (f" {label}" if label else "")
    known = set(phrases.headings.values())
    return [head, *(_escape_markup(line, known) for line in point.text.split("\n"))]


def _is_markup(line: str, headings: Iterable[str]) -> bool:
    if line.startswith(("~ ", "[danshari hand-over ")):
        return True
    found = _HEADING_LINE.match(line)
    return bool(found and found.group(1) in headings)


def _escape_markup(line: str, headings: Iterable[str]) -> str:
    return "\\" + line if _is_markup(line.lstrip("\\"), headings) else line


def _unescape_markup(line: str, headings: Iterable[str]) -> str:
    return line[1:] if line.startswith("\\") and _is_markup(line.lstrip("\\"), headings) else line


def parse_handover(text: str, languages: Mapping[str, Phrases]) -> Handover | None:
    """Parse the document in `text`; return None if there is none or its format is unknown."""
    span = find_handover_span(text)
    if span is None:
        return None
    lines = text[span[0] : span[1]].split("\n")[:-1]
    opened = _OPENING_LINE.match(lines[0])
    if opened is None or int(opened.group(1)) > HANDOVER_FORMAT or opened.group(2) not in languages:
        return None
    headings = {heading: name for name, heading in languages[opened.group(2)].headings.items()}
    fields: dict[str, list[_ReadPoint]] = {}
    dropped: dict[str, int] = {}
    name = ""
    for line in lines[1:]:
        headed = _HEADING_LINE.match(line)
        if headed and headed.group(1) in headings:
            name = headings[headed.group(1)]
            fields.setdefault(name, [])
            if headed.group(2):
                dropped[name] = int(headed.group(2))
        elif name:
            _add_line(fields[name], line, FIELD_BY_NAME[name].verbatim, headings)
    return Handover(
        language=opened.group(2),
        fields={k: tuple(map(_joined_point, points)) for k, points in fields.items() if points},
        dropped=dropped,
        generation=int(opened.group(3)),
    )


_ReadPoint = tuple[str, int, list[str]]
"""Label, turn and lines of a point that is being read."""


def _add_line(points: list[_ReadPoint], line: str, verbatim: bool, headings: Iterable[str]) -> None:
    """Add one line of a field to its points."""
    if not verbatim:
        if line.startswith("- "):
            points.append(("", 0, [line[2:]]))
        elif points:
            points[-1][-1].append(line[2:])
        return
    label = _LABEL_LINE.match(line)
    if label:
        points.append((label.group(2) or "", int(label.group(1) or 0), []))
    elif points:
        points[-1][-1].append(_unescape_markup(line, headings))


def _joined_point(read: _ReadPoint) -> Point:
    label, turn, lines = read
    return Point(text="\n".join(lines) if lines else "\0", label=label, turn=turn)


def find_handover_span(text: str, until: int | None = None) -> tuple[int, int] | None:
    """Return the (start, end) positions of the last rendered document in a text, or None if there is none.

    What stands from `until` on is not looked at.

    A document has an opening line, headings unless it is empty, and an ending line. Only its own opening line stands
    at the beginning of a line: an opening before it, in words that were never closed, belongs to something else.
    """
    end = text.rfind("\n" + ENDING, 0, len(text) if until is None else until)
    while end >= 0:
        start = _last_opening(text, end)
        if start < 0:
            return None
        first, *rest = text[start:end].split("\n")
        if _OPENING_LINE.match(first) and (not rest or any(map(_HEADING_LINE.match, rest))):
            return start, end + 1 + len(ENDING)
        end = text.rfind("\n" + ENDING, 0, start)
    return None


def _last_opening(text: str, end: int) -> int:
    """Return where the last opening line before `end` begins, -1 if there is none."""
    at = end
    while (at := text.rfind("\n" + OPENING, 0, at)) >= 0:
        if not text.startswith(ENDING, at + 1):
            return at + 1
    return 0 if text.startswith(OPENING) and not text.startswith(ENDING) else -1
