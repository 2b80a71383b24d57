"""Squeezing: of one long text, the lines a later action may need, verbatim, under their numbers.

Every line has a chance to be needed (`score`); neighbours share it, so that what stays reads in blocks. A text keeps
the likeliest lines that fit the room it is given; errors, totals and the ends of what ran come first, and a kept block
of code brings the definition that encloses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from danshari.analysis.facts import Facts
from danshari.analysis.first_seen import parts_of
from danshari.analysis.lines import (
    LONGEST_LINE,
    ends,
    tell_errors,
    tell_totals,
    telling,
)
from danshari.core.placeholder import clipped, squeezed
from danshari.core.policy import Policy
from danshari.shorten.json_rows import rows
from danshari.shorten.line_scorer import (
    CODE,
    DEFINITION,
    ROUNDS,
    Reading,
    family_of,
    file_of,
    forms,
    reading,
    score,
)

_RADIUS = {CODE: 8}
"""Lines on each side that share a line's chance; 1 in other texts."""
_MOST_JSON = 2_000_000
"""Characters of a text that is parsed as JSON."""
_OVERHEAD = 6
"""Characters that a kept line costs beside its own: its number."""
_GAP = 2
"""Lines left out between two kept ones that are kept after all: saying so would cost as much."""
_ERRORS, _TOTALS, _ENDS, _FILES = 2.5, 2.0, 3.0, 2.0
"""Log odds added to error lines, to totals, to the first and last lines, and to the first line of each file named, in
what is no code."""


def squeeze(
    facts: Facts,
    at: int,
    room: int,
    policy: Policy,
    *,
    note: str = "",
    now: int | None = None,
    text: str | None = None,
) -> str | None:
    """Write the item at `at` short; None if that does not shorten it.

    `room` is how many characters may stay; `now` is the position whose actions tell what is wanted, by default the
    item's own, as at its first sight.
    """
    item = facts.items[at]
    source = text if text is not None else facts.clean(at)
    short = _as_json(facts, at, source, room, now)
    if short is not None:
        return short if len(short) < len(item.text) else None
    lines = source.split("\n")
    numbers = chosen(facts, at, lines, room, now=now)
    if numbers and not thin(lines, numbers, room):
        text = squeezed(
            item, numbers, [lines[n] for n in numbers], note=note, total=len(lines), every=every(facts, at, policy)
        )
    elif len(source) > 4 * room or max(map(len, lines)) > room:
        text = clipped(item, *ends(source, room))
    else:
        return None
    return text if len(text) < len(item.text) else None


def thin(lines: Sequence[str], numbers: Sequence[int], room: int) -> bool:
    """Say whether what matters stands in lines too long to keep, so that the kept ones say next to nothing."""
    kept = sum(len(lines[n]) for n in numbers)
    long = sum(len(line) for line in lines if len(line) > LONGEST_LINE)
    return kept < room // 4 and long > kept


def _as_json(facts: Facts, at: int, source: str, room: int, now: int | None) -> str | None:
    """Shorten JSON as JSON; None if it is none."""
    if source.lstrip()[:1] not in ("{", "[") or len(source) > _MOST_JSON:
        return None
    place = at if now is None else now
    task, parts = facts.past.task(place)
    recent = facts.past.recent(place, ROUNDS)

    def wanted(words: set[str]) -> float:
        kin = sum(not parts.isdisjoint(parts_of(word)) for word in words)
        return 2.0 * len(words & recent) + 2.0 * len(words & task) + min(kin, 3)

    return rows(facts.items[at], source, room, wanted)


def every(facts: Facts, at: int, policy: Policy) -> int:
    """Say how many lines of the item at `at` share one number; 0 where numbers say nothing (hits, listings)."""
    act = facts.act_at(at)
    return 0 if act and act.kind in ("search", "list") else policy.number_every


def chosen(facts: Facts, at: int, lines: Sequence[str], room: int, *, now: int | None = None) -> list[int]:
    """Choose the lines that stay, as ascending 0-based numbers."""
    if facts.weights is None:
        return telling(lines, room, facts.wanted(at if now is None else now))
    read = reading(facts, at, lines, now=now)
    odds = shared(_weighed(read, score(read, facts.weights)), _RADIUS.get(family_of(read), 1))
    kept = _filled(read, odds, room)
    return sorted(_whole(read, kept)) if kept else []


def shared(odds: Sequence[float], radius: int) -> list[float]:
    """Give every line the mean of its neighbourhood, near lines counting more (a triangle of `radius` lines)."""
    for _ in range(2):  # two running means make a triangle
        total, count, found = 0.0, 0, []
        half = radius // 2
        for number in range(-half, len(odds)):
            if number + half < len(odds):
                total += odds[number + half]
                count += 1
            if number - half - 1 >= 0:
                total -= odds[number - half - 1]
                count -= 1
            if number >= 0:
                found.append(total / count)
        odds = found
    return list(odds)


def _weighed(read: Reading, odds: list[float]) -> list[float]:
    """Add what a reader of output must not miss, whatever the next action refers to."""
    if family_of(read) == CODE:
        return odds
    last, errors, totals = len(odds) - 1, tell_errors(read.keys), tell_totals(read.keys)
    files: set[str] = set()
    for number, key in enumerate(read.keys):
        if read.shape in ("hits", "diff") and (name := file_of(key)) and name not in files:
            files.add(name)
            odds[number] += _FILES
        if number < 2 or number > last - 3:
            odds[number] += _ENDS
        odds[number] += _ERRORS * errors[number] + _TOTALS * totals[number]
    return odds


def _filled(read: Reading, odds: Sequence[float], room: int) -> set[int]:
    kept: set[int] = set()
    used = 0
    for number in sorted(range(len(odds)), key=lambda n: (-odds[n], n)):
        size = len(read.lines[number]) + _OVERHEAD
        if read.keys[number] and len(read.lines[number]) <= LONGEST_LINE and used + size <= room:
            kept.add(number)
            used += size
    return kept


def _whole(read: Reading, kept: set[int]) -> set[int]:
    """Close small gaps, and put the definition line above a kept block of code."""
    order = sorted(kept)
    found = set(kept)
    for before, after in pairwise(order):
        if 1 < after - before <= _GAP + 1:
            found.update(n for n in range(before + 1, after) if len(read.lines[n]) <= LONGEST_LINE)
    if family_of(read) == CODE:
        form, above = forms(read), -1
        for number in range(len(read.lines)):
            if form[number] == DEFINITION:
                above = number
            elif number in kept and number - 1 not in kept and above >= 0:
                found.add(above)
    return found
