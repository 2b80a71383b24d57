"""Shorten one long text to the lines that a later action may need, verbatim and with their numbers.

The line scorer gives every line the odds of being needed; neighbours share them, so that kept lines
form blocks. The likeliest lines that fit are kept. In output, errors, totals and the ends count
more. In code, a kept block also keeps the definition line above it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from danshari.analysis.facts import Facts
from danshari.analysis.first_seen import split_identifier
from danshari.analysis.lines import (
    LONGEST_LINE,
    mark_error_lines,
    mark_total_lines,
    readable_numbers,
    select_telling_lines,
    text_ends,
)
from danshari.core.placeholder import render_kept_lines, render_text_ends
from danshari.core.policy import Policy
from danshari.shorten.json_rows import shorten_json
from danshari.shorten.line_scorer import (
    CODE_FAMILY,
    DEFINITION_BUCKET,
    RECENT_ROUNDS,
    LineContext,
    leading_file_name,
    line_forms,
    make_line_context,
    score_lines,
    weight_family,
)

_RADIUS = {CODE_FAMILY: 8}
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
    """Shorten the item at `at` to about `room` characters; return None if that does not make it shorter.

    `now` is the position whose recent actions tell what is relevant, by default the item's own. `text`
    replaces the item's cleaned text.
    """
    item = facts.items[at]
    source = text if text is not None else facts.clean_text(at)
    short = _try_json(facts, at, source, room, now)
    if short is not None:
        return short if len(short) < len(item.text) else None
    lines = source.split("\n")
    numbers = choose_kept_lines(facts, at, lines, room, now=now)
    if numbers and not is_thin_selection(lines, numbers, room):
        text = render_kept_lines(
            item,
            numbers,
            [lines[n] for n in numbers],
            note=note,
            total=len(lines),
            every=number_interval(facts, at, policy),
        )
    elif len(source) > 4 * room or max(map(len, lines)) > room:
        text = render_text_ends(item, *text_ends(source, room))
    else:
        return None
    return text if len(text) < len(item.text) else None


def is_thin_selection(lines: Sequence[str], numbers: Sequence[int], room: int) -> bool:
    """Return whether the selected lines say too little because the content stands in lines too long to keep."""
    kept = sum(len(lines[n]) for n in numbers)
    long = sum(len(line) for line in lines if len(line) > LONGEST_LINE)
    return kept < room // 4 and long > kept


def _try_json(facts: Facts, at: int, source: str, room: int, now: int | None) -> str | None:
    """Shorten JSON text as JSON; return None if it is no JSON or cannot be shortened so."""
    if source.lstrip()[:1] not in ("{", "[") or len(source) > _MOST_JSON:
        return None
    place = at if now is None else now
    task, parts = facts.past.task_names(place)
    recent = facts.past.recent_names(place, RECENT_ROUNDS)

    def row_relevance(words: set[str]) -> float:
        kin = sum(not parts.isdisjoint(split_identifier(word)) for word in words)
        return 2.0 * len(words & recent) + 2.0 * len(words & task) + min(kin, 3)

    return shorten_json(facts.items[at], source, room, row_relevance)


def number_interval(facts: Facts, at: int, policy: Policy) -> int:
    """Return how many lines share one line number; 0 for hits and listings, where numbers mean nothing."""
    act = facts.act_at(at)
    return 0 if act and act.kind in ("search", "list") else policy.admit.number_every


def choose_kept_lines(facts: Facts, at: int, lines: Sequence[str], room: int, *, now: int | None = None) -> list[int]:
    """Choose the lines that stay within `room` characters, as ascending 0-based numbers."""
    read_numbers = readable_numbers(lines)
    if len(read_numbers) < len(lines):
        found = _choose_lines(facts, at, [lines[n] for n in read_numbers], room, now)
        return [read_numbers[n] for n in found]
    return _choose_lines(facts, at, lines, room, now)


def _choose_lines(facts: Facts, at: int, lines: Sequence[str], room: int, now: int | None) -> list[int]:
    if facts.weights is None:
        return select_telling_lines(lines, room, facts.relevant_identifiers(at if now is None else now))
    read = make_line_context(facts, at, lines, now=now)
    odds = smooth_odds(_add_output_bonuses(read, score_lines(read, facts.weights)), _RADIUS.get(weight_family(read), 1))
    kept = _fill_room(read, odds, room)
    return sorted(_complete_blocks(read, kept)) if kept else []


def smooth_odds(odds: Sequence[float], radius: int) -> list[float]:
    """Smooth the odds over neighbouring lines: a weighted mean (triangle of `radius` lines on each side)."""
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


def _add_output_bonuses(read: LineContext, odds: list[float]) -> list[float]:
    """Add fixed log odds to lines of output that a reader must not miss.

    They are errors, totals, the first and last lines, and the first line of each file named. Code stays
    as it is.
    """
    if weight_family(read) == CODE_FAMILY:
        return odds
    last, errors, totals = len(odds) - 1, mark_error_lines(read.keys), mark_total_lines(read.keys)
    files: set[str] = set()
    for number, key in enumerate(read.keys):
        if read.shape in ("hits", "diff") and (name := leading_file_name(key)) and name not in files:
            files.add(name)
            odds[number] += _FILES
        if number < 2 or number > last - 3:
            odds[number] += _ENDS
        odds[number] += _ERRORS * errors[number] + _TOTALS * totals[number]
    return odds


def _fill_room(read: LineContext, odds: Sequence[float], room: int) -> set[int]:
    """Take lines by descending odds while they fit into `room` characters."""
    kept: set[int] = set()
    used = 0
    for number in sorted(range(len(odds)), key=lambda n: (-odds[n], n)):
        size = len(read.lines[number]) + _OVERHEAD
        if read.keys[number] and len(read.lines[number]) <= LONGEST_LINE and used + size <= room:
            kept.add(number)
            used += size
    return kept


def _complete_blocks(read: LineContext, kept: set[int]) -> set[int]:
    """Add the lines in small gaps and, in code, the definition line above each kept block."""
    order = sorted(kept)
    found = set(kept)
    for before, after in pairwise(order):
        if 1 < after - before <= _GAP + 1:
            found.update(n for n in range(before + 1, after) if len(read.lines[n]) <= LONGEST_LINE)
    if weight_family(read) == CODE_FAMILY:
        form, above = line_forms(read), -1
        for number in range(len(read.lines)):
            if form[number] == DEFINITION_BUCKET:
                above = number
            elif number in kept and number - 1 not in kept and above >= 0:
                found.add(above)
    return found
