"""The user's own words and binding rules, quoted verbatim; under a hard limit the most telling lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from danshari.analysis.facts import Facts
from danshari.analysis.identifiers import find_names
from danshari.analysis.lines import text_ends
from danshari.analysis.markers import Markers, split_sentences
from danshari.core.handover import PASTE_LIMIT, Point
from danshari.core.handover_markdown import Phrases, find_handover_span
from danshari.core.items import Item
from danshari.core.text import ShownText, lazy_pattern
from danshari.handovers.claims import claim_key

_PASTE_KEPT = 2_400
_LONG_LINE = 300
"""Characters; a longer line is chosen from sentence by sentence."""
_LABELLED = lazy_pattern(
    r"^[A-Z][A-Z _-]{2,}:\s|^(?:Goal|Note|Decision|Rule(?: \w+)?|Approach|New plan|Update|目标|规则|决定)[:：]\s?"
)
_TAG_LINE = lazy_pattern(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]*)?>\Z")
_ASIDE = lazy_pattern(
    r"^(?:by the way|unrelated|random|off-topic|side note|quick (?:tangent|question)|oh,? did you|do you happen to "
    r"know|i just remembered|顺便问)",
    re.IGNORECASE,
)


def own_handover_span(item: Item, markers: Markers) -> tuple[int, int] | None:
    """Return where a hand-over of ours stands in an item, or None.

    Ours stands where a major compaction put it: in the user's role, before the first answer, at the end of its
    message. One that is found elsewhere was pasted, or was written by somebody else.
    """
    if item.kind != "text" or item.role != "user" or item.turn:
        return None
    span = find_handover_span(item.text)
    return span if span and not markers.human_text(item.text[span[1] :]).strip() else None


def spoken_text(item: Item, markers: Markers, left_out: str = "") -> str:
    """Return what a person wrote in a user text: without machine-made blocks and without hand-overs.

    In the place of a hand-over that is not ours stands the note `left_out`, with its size in characters at `{}`.
    """
    text = item.text
    if own := own_handover_span(item, markers):
        text = text[: own[0]].rstrip("\n") + text[own[1] :]
    kept: list[str] = []  # from the end
    until = len(text)
    while span := find_handover_span(text, until):
        kept += [text[span[1] : until], left_out.replace("{}", str(span[1] - span[0]))]
        until = span[0]
    return markers.human_text("".join([*kept, text[:until]][::-1]))


def user_words(facts: Facts, places: Iterable[int], markers: Markers, phrases: Phrases) -> list[Point]:
    """Quote what people wrote, in order; an outsized paste keeps only its two ends."""
    found: list[Point] = []
    for at in places:
        item = facts.items[at]
        if item.kind != "text" or item.role != "user":
            continue
        recall = item.digest[:12]
        text = spoken_text(item, markers, f"[danshari: {{}} {phrases.texts['left_out']}, {recall}]")
        if text.strip():
            found.append(Point(text=_shorten_paste(text, recall, phrases), turn=item.turn, source=(item.id,)))
    return found


def label_requests(words: Sequence[Point], phrases: Phrases, *, first: bool, last: bool) -> list[Point]:
    """Label the first request and the newest one."""
    marks = {0: phrases.texts["request"]} if first and words else {}
    if last and words:
        marks[len(words) - 1] = phrases.texts["now"] if len(words) > 1 or not first else phrases.texts["request"]
    return [Point(text=p.text, turn=p.turn, source=p.source, label=marks.get(n, "")) for n, p in enumerate(words)]


def _shorten_paste(text: str, recall: str, phrases: Phrases) -> str:
    """Shorten an outsized paste to its beginning and its end."""
    if len(text) <= PASTE_LIMIT:
        return text
    head, tail = text_ends(text, _PASTE_KEPT)
    left = len(text) - len(head) - len(tail)
    return f"{head}\n[danshari: {left} {phrases.texts['left_out']}, {recall}]\n{tail}"


def binding_rules(facts: Facts, places: Iterable[int], markers: Markers, known: str) -> list[Point]:
    """Quote the binding lines that system prompts and the client's own notices hold and `known` does not."""
    found: list[Point] = []
    said: set[str] = set()
    shown = ShownText(known)
    for at in places:
        item = facts.items[at]
        if item.kind != "text" or item.role not in ("system", "user"):
            continue
        binding = markers.client_rules(item.text) if item.role == "user" else markers.binding_lines(item.text)
        lines = [line for line in binding if line.strip() not in said and line.strip() not in shown]
        said.update(line.strip() for line in lines)
        if lines:
            found.append(Point(text="\n".join(lines), label=item.role, turn=item.turn, source=(item.id,)))
    return found


def choose_user_lines(words: Sequence[Point], markers: Markers, room: int) -> tuple[list[Point], list[Point]]:
    """Choose lines of the user's words that fit into `room` characters; return (rules, other words).

    Rules, labelled lines and exact values come first. What a person quotes in a fence, behind `>` or in a tag binds
    nobody and is no rule. A label such as `HARD CONSTRAINT:` is removed. A
    line repeated later with another value is outdated, and a line repeated as it is counts less.
    """
    units: dict[str, tuple[int, int, str]] = {}
    counts: dict[str, int] = {}
    pasted: set[str] = set()
    for place, point in enumerate(words):
        for number, (unit, quoted) in enumerate(_split_units(point.text)):
            key = claim_key(unit)
            if quoted:
                pasted.add(key)
            counts[key] = counts.get(key, 0) + (units.get(key, (0, 0, unit))[2] == unit)
            units.pop(key, None)
            units[key] = (place, number, unit)
    last = len(words) - 1

    def rank(key: str) -> float:
        place, _, unit = units[key]
        at_an_end = 0.3 if place in (0, last) else 0.0
        return _sentence_worth(unit, markers) / max(counts[key], 1) + at_an_end + 1e-3 * place

    ranked = sorted(_drop_reversed_plans(units, markers), key=rank, reverse=True)
    kept: list[tuple[int, int, str, bool]] = []
    for key in ranked:
        place, number, unit = units[key]
        text = _LABELLED.sub("", unit, count=1)
        if len(text) + 1 <= room:
            kept.append((place, number, text, key not in pasted and bool(markers.imperative.search(text))))
            room -= len(text) + 1
    kept.sort()
    found = []
    for binding in (True, False):
        text = "\n".join(text for _, _, text, binds in kept if binds == binding)
        found.append([Point(text=text)] if text else [])
    return found[0], found[1]


def _drop_reversed_plans(units: Mapping[str, tuple[int, int, str]], markers: Markers) -> list[str]:
    """Remove plans that the user took back later: a reversal cancels every plan before it, except rules."""
    reversals = [place for place, _, unit in units.values() if markers.cues["reversal"].search(unit)]
    last = max(reversals, default=-1)
    return [
        key
        for key, (place, _, unit) in units.items()
        if place >= last or not markers.cues["plan"].search(unit) or markers.imperative.search(unit)
    ]


def _split_units(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a text, long lines sentence by sentence, and whether they stand in a quotation."""
    closing = ""
    for line in text.split("\n"):
        bare = line.strip()
        inside = bool(closing)
        if closing:
            closing = "" if bare.endswith(closing) else closing
        elif bare.startswith(("```", "~~~")):
            closing, inside = bare[:3], True
        elif (opened := _TAG_LINE.match(bare)) and f"</{opened[1]}>" in text:
            closing, inside = f"</{opened[1]}>", True
        quoted = inside or bare.startswith(">")
        if len(line) > _LONG_LINE:
            yield from ((unit, quoted) for unit in split_sentences(line))
        elif bare:
            yield bare, quoted


def _sentence_worth(sentence: str, markers: Markers) -> float:
    """Return how much a sentence is worth keeping; 0 for an aside.

    0.2, plus 2 for a label, 1 for an imperative, 0.5 for each exact name (two at most), 0.6 for each
    cue of a decision, cancellation, deferral or conclusion, and 0.2 for a number.
    """
    if _ASIDE.match(sentence):
        return 0.0
    worth = 0.2
    if _LABELLED.match(sentence):
        worth += 2.0
    if markers.imperative.search(sentence):
        worth += 1.0
    worth += 0.5 * min(len(find_names(sentence)), 2)
    worth += sum(
        0.6 for cue in ("decision", "cancelled", "deferred", "conclusion") if markers.cues[cue].search(sentence)
    )
    if re.search(r"\d", sentence):
        worth += 0.2
    return worth
