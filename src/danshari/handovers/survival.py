"""What survived a major compaction, field by field: shown verbatim, in the archive only, or lost (seed 3, S15)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from danshari.core.handover import FIELDS, Handover, Point
from danshari.core.items import ItemId


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """How many points of one field are where."""

    field: str
    shown: int
    """Verbatim in the view."""
    archived: int
    """Not in the view, but their sources can be recalled."""
    lost: int

    @property
    def total(self) -> int:
        """Give all points of the field."""
        return self.shown + self.archived + self.lost


def consistency(full: Handover, view: str, held: Callable[[ItemId], bool]) -> tuple[Survival, ...]:
    """Hold everything the conversation established against what the model will read."""
    found = []
    for row in FIELDS:
        shown = archived = lost = 0
        for point in full[row.name]:
            if stands(point, view):
                shown += 1
            elif point.source and all(map(held, point.source)):
                archived += 1
            else:
                lost += 1
        if shown or archived or lost:
            found.append(Survival(field=row.name, shown=shown, archived=archived, lost=lost))
    return tuple(found)


def stands(point: Point, view: str) -> bool:
    """Say whether every line of a point stands in a view."""
    return all(line.strip() in view for line in point.text.split("\n"))
