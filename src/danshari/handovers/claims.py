"""What the assistant stated: conclusions, decisions and cancellations, approaches ruled out, the next step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from danshari.analysis.facts import Facts
from danshari.analysis.markers import Markers, sentences
from danshari.core.handover import Point

SHORTEST, LONGEST = 16, 320
"""Characters of a sentence worth quoting."""
_WIDE = "\u2e7f"
"""Characters beyond it (CJK) say about twice as much."""
_RECENT = 3
"""Newest texts of the assistant that may say what comes next."""
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_VALUE = re.compile(r"(?<![\w-])\d[\d.,:/-]*(?![\w-])|\"[^\"]*\"")
"""What may change without the subject changing: numbers of their own, and quotations."""
_WORD = re.compile(r"[A-Za-z_]{4,}|[\u4e00-\u9fff]")
_COMMON = {"with", "that", "this", "from", "have", "will", "been", "into", "then", "when", "they", "their", "there"}
_STATED = ("ruled_out", "cancelled", "decision", "conclusion")
"""Cues in the order in which they name a sentence."""
_FIELD = {"ruled_out": "ruled_out", "cancelled": "decisions", "decision": "decisions", "conclusion": "conclusions"}


def stated(facts: Facts, places: Iterable[int], markers: Markers) -> tuple[dict[str, list[Point]], frozenset[str]]:
    """Quote the assistant's claims in force by field, in order; and name those that later ones replaced."""
    claimed, cancels = _claimed(facts, places, markers)
    standing = {name: in_force(points, cancels) for name, points in claimed.items()}
    kept = {p.text for points in standing.values() for p in points}
    return standing, frozenset(p.text for points in claimed.values() for p in points if p.text not in kept)


def _claimed(facts: Facts, places: Iterable[int], markers: Markers) -> tuple[dict[str, list[Point]], list[Point]]:
    """Collect the assistant's claims by field, and everybody's cancellations."""
    found: dict[str, list[Point]] = {"conclusions": [], "decisions": [], "ruled_out": []}
    cancels: list[Point] = []
    for at in places:
        item = facts.items[at]
        if item.kind != "text" or item.role not in ("assistant", "user"):
            continue
        for sentence in claims(item.text):
            cue = next((c for c in _STATED if markers.cues[c].search(sentence)), "")
            if not cue or (cue != "ruled_out" and markers.cues["next"].match(sentence)):
                continue
            point = Point(text=sentence, turn=item.turn, source=(item.id,))
            if cue == "cancelled":
                cancels.append(point)
            if item.role == "assistant":
                found[_FIELD[cue]].append(point)
    return found, cancels


def claims(text: str) -> Iterator[str]:
    """Give a text's sentences outside code blocks, of a quotable length."""
    for sentence in sentences(_FENCE.sub("\n", text)):
        plain = not sentence.startswith(("#", "|", "```", "<")) and not sentence.endswith((":", "："))
        if plain and len(sentence) + sum(c > _WIDE for c in sentence) >= SHORTEST and len(sentence) <= LONGEST:
            yield sentence


def in_force(points: Iterable[Point], cancels: Iterable[Point] = ()) -> list[Point]:
    """Leave out what was overtaken: the same claim with another value later, or a later cancellation that names it."""
    kept: dict[str, Point] = {}
    for point in points:
        kept.pop(masked(point.text), None)
        kept[masked(point.text)] = point
    standing = list(kept.values())
    for cancel in cancels:
        standing = [
            p for p in standing if p.turn > cancel.turn or p.text == cancel.text or not _names(cancel.text, p.text)
        ]
    return standing


def masked(text: str) -> str:
    """Write a claim without its values, so that two claims about the same thing are equal."""
    return " ".join(_VALUE.sub("#", text.lower() if text.isupper() else text).lower().split())


def _names(cancel: str, claim: str) -> bool:
    """Say whether a cancellation speaks of a claim: most of the claim's words stand in it."""
    words = _words(claim)
    return len(words) >= 2 and len(words & _words(cancel)) >= 0.6 * len(words)


def _words(text: str) -> set[str]:
    return {w.lower() for w in _WORD.findall(text)} - _COMMON


def next_step(facts: Facts, places: Iterable[int], markers: Markers) -> list[Point]:
    """Quote what the assistant last said it would do."""
    looked = 0
    for at in reversed(list(places)):
        item = facts.items[at]
        if item.kind != "text" or item.role != "assistant":
            continue
        looked += 1
        if looked > _RECENT:
            break
        every = [s for s in sentences(_FENCE.sub("\n", item.text)) if len(s) <= LONGEST]
        said = [s.rstrip(":：") for s in every if markers.cues["next"].search(s) and not s.endswith(("?", "？"))]
        if said:
            return [Point(text=said[-1], turn=item.turn, source=(item.id,))]
        if len(every) > 3:
            return []
    return []
