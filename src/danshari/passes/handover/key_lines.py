"""Which lines of what leaves are most likely needed next: verbatim, under the place they came from."""

from __future__ import annotations

from collections.abc import Sequence

from danshari.core.facts import Facts
from danshari.core.handover import Point
from danshari.core.lines import names
from danshari.passes.handover.views import source_label


def key_lines(facts: Facts, places: Sequence[int], room: int, known: str, *, focus: str = "") -> list[Point]:
    """Choose lines within `room` characters, labels included; what stands in `known` is not repeated."""
    seen = names(known)
    chosen: dict[int, list[str]] = {}
    for at in reversed(places):
        item = facts.items[at]
        if item.kind not in ("result", "call", "text"):
            continue
        cost = len(source_label(facts, at)) + 8
        for line in reversed(item.text.split("\n")):
            line = line.strip()
            if not 8 <= len(line) <= 300:
                continue
            fresh = names(line) - seen
            need = len(line) + 1 + (cost if at not in chosen else 0)
            if fresh and need <= room:
                seen |= fresh
                chosen.setdefault(at, []).append(line)
                room -= need
        if room < 20:
            break
    return [
        Point(text="\n".join(reversed(chosen[at])), label=source_label(facts, at), turn=facts.items[at].turn, source=(facts.items[at].id,))
        for at in sorted(chosen)
    ]
