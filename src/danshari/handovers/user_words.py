"""The user's own words and the rules that bind, verbatim; under a hard limit, the telling ones first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from danshari.analysis.facts import Facts
from danshari.analysis.identifiers import names
from danshari.analysis.lines import ends
from danshari.analysis.markers import Markers, sentences
from danshari.core.handover import Point
from danshari.core.handover_markdown import Phrases, found_in
from danshari.handovers.claims import masked

PASTE = 8_000
"""Characters; a longer user text is an outsized paste: its two ends are quoted, the rest is archived data."""
_PASTE_KEPT = 2_400
_LONG_LINE = 300
"""Characters; a longer line is chosen from sentence by sentence."""
_LABELLED = re.compile(
    r"^[A-Z][A-Z _-]{2,}:\s|^(?:Goal|Note|Decision|Rule(?: \w+)?|Approach|New plan|Update|目标|规则|决定)[:：]\s?"
)
_ASIDE = re.compile(
    r"^(?:by the way|unrelated|random|off-topic|side note|quick (?:tangent|question)|oh,? did you|do you happen to "
    r"know|i just remembered|顺便问)",
    re.IGNORECASE,
)


def user_words(facts: Facts, places: Iterable[int], markers: Markers, phrases: Phrases) -> list[Point]:
    """Quote what people wrote, in order; the first request and the newest say so."""
    found: list[Point] = []
    for at in places:
        item = facts.items[at]
        if item.kind != "text" or item.role != "user":
            continue
        text = markers.own_words(without_handover(item.text))
        if text.strip():
            found.append(Point(text=_framed(text, item.digest[:12], phrases), turn=item.turn, source=(item.id,)))
    return found


def labelled(words: Sequence[Point], phrases: Phrases, *, first: bool, last: bool) -> list[Point]:
    """Say which words are the first request and which the newest."""
    marks = {0: phrases.texts["request"]} if first and words else {}
    if last and words:
        marks[len(words) - 1] = phrases.texts["now"] if len(words) > 1 or not first else phrases.texts["request"]
    return [Point(text=p.text, turn=p.turn, source=p.source, label=marks.get(n, "")) for n, p in enumerate(words)]


def without_handover(text: str) -> str:
    """Take rendered hand-overs out of a text."""
    while span := found_in(text):
        text = text[: span[0]].rstrip("\n") + text[span[1] :]
    return text


def _framed(text: str, recall: str, phrases: Phrases) -> str:
    """Squeeze an outsized paste inside its frame: both ends stay."""
    if len(text) <= PASTE:
        return text
    head, tail = ends(text, _PASTE_KEPT)
    left = len(text) - len(head) - len(tail)
    return f"{head}\n[danshari: {left} {phrases.texts['left_out']}, {recall}]\n{tail}"


def rules(facts: Facts, places: Iterable[int], markers: Markers, known: str) -> list[Point]:
    """Quote binding lines of system prompts and of machine-made reminders; what stands in `known` is not repeated."""
    found: list[Point] = []
    said: set[str] = set()
    for at in places:
        item = facts.items[at]
        if item.kind != "text" or item.role not in ("system", "user"):
            continue
        text = item.text
        if item.role == "user":
            blocks = markers.blocks.findall(text)
            text = "\n".join(blocks) if blocks else ""
        lines = [line for line in markers.rules(text) if line.strip() not in said and line.strip() not in known]
        said.update(line.strip() for line in lines)
        if lines:
            found.append(Point(text="\n".join(lines), label=item.role, turn=item.turn, source=(item.id,)))
    return found


def most_telling(words: Sequence[Point], markers: Markers, room: int) -> tuple[list[Point], list[Point]]:
    """Choose lines of words that do not fit in full: rules, labelled lines and exact values before talk.

    Gives the rules (a label such as `HARD CONSTRAINT:` goes into the heading) and the other words. A line that says
    the same with another value later is overtaken; a line that is repeated says less each time.
    """
    units: dict[str, tuple[int, int, str]] = {}
    counts: dict[str, int] = {}
    for place, point in enumerate(words):
        for number, unit in enumerate(_units(point.text)):
            key = masked(unit)
            counts[key] = counts.get(key, 0) + (units.get(key, (0, 0, unit))[2] == unit)
            units.pop(key, None)
            units[key] = (place, number, unit)
    last = len(words) - 1

    def rank(key: str) -> float:
        place, _, unit = units[key]
        at_an_end = 0.3 if place in (0, last) else 0.0
        return _worth(unit, markers) / max(counts[key], 1) + at_an_end + 1e-3 * place

    ranked = sorted(_standing(units, markers), key=rank, reverse=True)
    kept: list[tuple[int, int, str]] = []
    for key in ranked:
        place, number, unit = units[key]
        text = _LABELLED.sub("", unit, count=1)
        if len(text) + 1 <= room:
            kept.append((place, number, text))
            room -= len(text) + 1
    kept.sort()
    found = []
    for binding in (True, False):
        text = "\n".join(text for _, _, text in kept if bool(markers.imperative.search(text)) == binding)
        found.append([Point(text=text)] if text else [])
    return found[0], found[1]


def _standing(units: Mapping[str, tuple[int, int, str]], markers: Markers) -> list[str]:
    """Leave out plans that the user took back later: a reversal overtakes every plan said before it."""
    reversals = [place for place, _, unit in units.values() if markers.cues["reversal"].search(unit)]
    last = max(reversals, default=-1)
    return [
        key
        for key, (place, _, unit) in units.items()
        if place >= last or not markers.cues["plan"].search(unit) or markers.imperative.search(unit)
    ]


def _units(text: str) -> Iterator[str]:
    """Give a text's lines; long ones by sentences."""
    for line in text.split("\n"):
        if len(line) > _LONG_LINE:
            yield from sentences(line)
        elif line.strip():
            yield line.strip()


def _worth(sentence: str, markers: Markers) -> float:
    if _ASIDE.match(sentence):
        return 0.0
    worth = 0.2
    if _LABELLED.match(sentence):
        worth += 2.0
    if markers.imperative.search(sentence):
        worth += 1.0
    worth += 0.5 * min(len(names(sentence)), 2)
    worth += sum(
        0.6 for cue in ("decision", "cancelled", "deferred", "conclusion") if markers.cues[cue].search(sentence)
    )
    if re.search(r"\d", sentence):
        worth += 0.2
    return worth
