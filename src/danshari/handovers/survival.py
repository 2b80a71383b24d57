"""What survived a major compaction, field by field: shown verbatim, in the archive only, or lost."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from danshari.core.handover import HANDOVER_FIELDS, Handover, Point
from danshari.core.items import ItemId
from danshari.core.text import ShownText


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """How many points of one field are shown, only archived, or lost."""

    field: str
    shown: int
    """Verbatim in the view."""
    archived: int
    """Not in the view, but their sources can be recalled."""
    lost: int

    @property
    def total(self) -> int:
        """All points of the field."""
        return self.shown + self.archived + self.lost


def measure_survival(full: Handover, view: str, held: Callable[[ItemId], bool]) -> tuple[Survival, ...]:
    """Count, for each field of `full`, how many points survive in the text of `view`.

    `held` tells whether the archive has the original of an item.
    """
    found = []
    text = ShownText(view)
    for row in HANDOVER_FIELDS:
        shown = archived = lost = 0
        for point in full[row.name]:
            if is_point_in_view(point, text):
                shown += 1
            elif point.source and all(map(held, point.source)):
                archived += 1
            else:
                lost += 1
        if shown or archived or lost:
            found.append(Survival(field=row.name, shown=shown, archived=archived, lost=lost))
    return tuple(found)


def is_point_in_view(point: Point, view: Container[str]) -> bool:
    """Return whether every line of a point occurs in the view's text."""
    return all(line.strip() in view for line in point.text.split("\n"))
