"""The hand-over: a typed document that replaces old items, extracted by code and extended by a model.

A field holds points, and a point records the items it was taken from. Sizes are characters of the
rendered document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from danshari.core.items import ItemId

HANDOVER_FORMAT = 1
"""Format number of a stored or rendered hand-over."""

PASTE_LIMIT = 8_000
"""Characters; a longer user text is an outsized paste: its two ends are quoted, the rest is archived data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One entry of a field, with its source."""

    text: str
    label: str = ""
    """What stands above a verbatim text: path, command, status, recall id."""
    turn: int = 0
    """Turn it became true; 0 for what was there before the first answer, and where it is not known."""
    source: tuple[ItemId, ...] = ()
    """Items it was taken from."""
    by: str = "code"
    """`code`, `model` or `host`."""
    key: str = ""
    """Points of a field with equal keys speak of the same thing: the newest stands."""

    @property
    def size(self) -> int:
        """Characters the point takes when rendered, its own markup included."""
        return len(self.text) + len(self.label) + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """How one field of the document is treated: its share of the size, quoted or not, open to a model."""

    name: str
    share: float
    """Share of the document's room it may fill; 0: as much as it needs."""
    verbatim: bool = False
    """Whether its texts are quotations, written unchanged under a label line."""
    model: bool = False
    """Whether a model may add to it and take from it."""
    oldest: bool = False
    """Whether the newest points give way first."""


HANDOVER_FIELDS: tuple[FieldSpec, ...] = (
    FieldSpec(name="goal", share=0.0, model=True),
    FieldSpec(name="words", share=0.0, verbatim=True),
    FieldSpec(name="rules", share=0.0, verbatim=True),
    FieldSpec(name="live", share=0.0, verbatim=True),
    FieldSpec(name="todo", share=0.12, verbatim=True),
    FieldSpec(name="handles", share=0.05),
    FieldSpec(name="tests", share=0.06, verbatim=True),
    FieldSpec(name="ruled_out", share=0.25, verbatim=True, model=True),
    FieldSpec(name="decisions", share=0.08, model=True),
    FieldSpec(name="conclusions", share=0.08, model=True),
    FieldSpec(name="files", share=0.12),
    FieldSpec(name="commands", share=0.06, verbatim=True),
    FieldSpec(name="skills", share=0.08, verbatim=True),
    FieldSpec(name="notes", share=0.2, model=True),
    FieldSpec(name="next", share=0.05, model=True),
    FieldSpec(name="views", share=0.0, verbatim=True),
    FieldSpec(name="lines", share=1.0, verbatim=True),
    FieldSpec(name="index", share=0.05),
)
"""In the order they are read."""
FIELD_BY_NAME: Mapping[str, FieldSpec] = {row.name: row for row in HANDOVER_FIELDS}
MANDATORY_FIELDS = ("goal", "words", "rules", "live")
"""Fields that are never shortened."""
DROP_ORDER = (
    "index", "lines", "views", "commands", "notes", "skills", "files", "conclusions", "decisions", "tests",
    "ruled_out", "handles", "todo", "next",
)  # fmt: skip
"""Which field gives way first where the document must still shrink."""
MODEL_FIELDS = tuple(row.name for row in HANDOVER_FIELDS if row.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """The hand-over document; an immutable value that converts to and from JSON."""

    language: str = "en"
    fields: Mapping[str, tuple[Point, ...]] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Field → points that gave way to the size and are in the archive only."""
    generation: int = 1
    """How many major compactions went into it."""

    def __getitem__(self, name: str) -> tuple[Point, ...]:
        return self.fields.get(name, ())

    def __bool__(self) -> bool:
        return any(self.fields.values())

    def with_field(self, name: str, points: Iterable[Point]) -> Handover:
        """Return a copy with one field replaced."""
        return replace(self, fields={**self.fields, name: tuple(points)})

    def strip_metadata(self) -> Handover:
        """Return a copy without what the rendered text does not show.

        That is sources, authors, keys, and the labels and turns of points that are not quotations.
        """
        kept = {
            row.name: tuple(
                Point(text=p.text, label=p.label if row.verbatim else "", turn=p.turn if row.verbatim else 0)
                for p in self[row.name]
            )
            for row in HANDOVER_FIELDS
            if self[row.name]
        }
        dropped = {k: n for k, n in self.dropped.items() if n and k in FIELD_BY_NAME}
        return replace(self, fields=kept, dropped=dropped)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values with a format number."""
        points = {row.name: [_point_to_dict(p) for p in self[row.name]] for row in HANDOVER_FIELDS if self[row.name]}
        return {
            "danshari_handover": HANDOVER_FORMAT,
            "language": self.language,
            "generation": self.generation,
            "fields": points,
            "dropped": {k: n for k, n in self.dropped.items() if n},
        }


def _point_to_dict(point: Point) -> dict[str, Any]:
    full = {"text": point.text, "label": point.label, "turn": point.turn, "source": list(point.source),
            "by": point.by, "key": point.key}  # fmt: skip
    return {k: v for k, v in full.items() if v or k == "text"}


def handover_from_dict(data: Mapping[str, Any]) -> Handover:
    """Read `Handover.to_dict` back; raises KeyError, TypeError or ValueError on anything else."""
    if int(data["danshari_handover"]) > HANDOVER_FORMAT:
        raise ValueError(
            f"hand-over of format {data['danshari_handover']}; this danshari reads up to {HANDOVER_FORMAT}"
        )
    fields = {}
    for name, points in data["fields"].items():
        if name not in FIELD_BY_NAME:
            raise ValueError(f"unknown field {name!r}")
        fields[name] = tuple(
            Point(**{**p, "source": tuple(ItemId(str(i)) for i in p.get("source", ()))}) for p in points
        )
    return Handover(
        language=str(data["language"]),
        fields=fields,
        dropped={str(k): int(n) for k, n in data["dropped"].items()},
        generation=int(data["generation"]),
    )


def keep_newest_points(points: Iterable[Point]) -> tuple[Point, ...]:
    """Remove outdated and duplicate points.

    Of two points with the same key the later one stays, at the place of the earlier; equal texts count
    once.
    """
    found: dict[str, Point] = {}
    for point in points:
        found[point.key or " ".join(point.text.split())] = point
    return tuple(found.values())


def merge_handovers(older: Handover, newer: Handover) -> Handover:
    """Add to `newer` the points that only `older` has: a model's points, and points whose sources are gone.

    Where both documents have a point, the newer one counts. Fields that code computes in full are not
    carried over.
    """
    fields = dict(newer.fields)
    for row in HANDOVER_FIELDS:
        known = {" ".join(p.text.split()) for p in newer[row.name]}
        keys = {p.key for p in newer[row.name] if p.key}
        carried = [
            p
            for p in older[row.name]
            if (p.by == "model" or not p.source) and p.key not in keys and " ".join(p.text.split()) not in known
        ]
        if row.name in ("notes", "next", "live", "index", "todo", "tests") and newer[row.name]:
            continue
        if carried:
            fields[row.name] = keep_newest_points([*carried, *newer[row.name]])
    return replace(newer, fields=fields, generation=older.generation + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A model's change to a document: points to add, by field, and texts of points to remove."""

    add: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drop: Sequence[str] = ()

    def __bool__(self) -> bool:
        return any(self.add.values()) or bool(self.drop)


def apply_delta(document: Handover, delta: Delta, *, turn: int) -> Handover:
    """Apply a delta and return the new document.

    Only fields that a model may write change. A model's new notes and next steps replace its earlier
    ones.
    """
    fields = dict(document.fields)
    gone = {" ".join(t.split()) for t in delta.drop}
    for name in MODEL_FIELDS:
        kept = [p for p in document[name] if " ".join(p.text.split()) not in gone]
        fresh = [Point(text=t.strip(), turn=turn, by="model") for t in delta.add.get(name, ()) if t.strip()]
        if name in ("notes", "next") and fresh:  # a model's newest account stands alone
            kept = [p for p in kept if p.by != "model"]
        fields[name] = keep_newest_points([*kept, *fresh])
    return replace(document, fields=fields)
