"""What the assistant stated: conclusions, decisions, cancellations, rejected approaches, the next step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from danshari.analysis.facts import Facts
from danshari.analysis.lines import readable_ends
from danshari.analysis.markers import Markers, split_sentences
from danshari.core.handover import Point
from danshari.core.text import lazy_pattern

SHORTEST_CLAIM, LONGEST_CLAIM = 16, 320
"""Characters of a sentence worth quoting."""
_WIDE = "\u2e7f"
"""Characters beyond it (CJK) say about twice as much."""
_RECENT = 3
"""Newest texts of the assistant that may say what comes next."""
_FENCE = lazy_pattern(r"```.*?(?:```|\Z)", re.DOTALL)
_VALUE = lazy_pattern(r"(?<![\w-])\d[\d.,:/-]*(?![\w-])|\"[^\"]*\"")
"""What may change without the subject changing: numbers of their own, and quotations."""
_WORD = lazy_pattern(r"[A-Za-z_]{4,}|[\u4e00-\u9fff]")
_COMMON = {"with", "that", "this", "from", "have", "will", "been", "into", "then", "when", "they", "their", "there"}
_MOST_CLAIMS, _MOST_CANCELS = 2_000, 500
"""Newest claims of a field, and newest cancellations, that are held against each other."""
_CLAIM_CUES = ("ruled_out", "cancelled", "decision", "conclusion")
"""Cues in the order in which they name a sentence."""
_FIELD_OF_CUE = {
    "ruled_out": "ruled_out",
    "cancelled": "decisions",
    "decision": "decisions",
    "conclusion": "conclusions",
}


def standing_claims(
    facts: Facts, places: Iterable[int], markers: Markers
) -> tuple[dict[str, list[Point]], frozenset[str]]:
    """Return the assistant's claims still in force, by field, and the texts of claims that later ones replaced."""
    claimed, cancels = _collect_claims(facts, places, markers)
    standing = {name: current_claims(points, cancels) for name, points in claimed.items()}
    kept = {p.text for points in standing.values() for p in points}
    return standing, frozenset(p.text for points in claimed.values() for p in points if p.text not in kept)


def _collect_claims(
    facts: Facts, places: Iterable[int], markers: Markers
) -> tuple[dict[str, list[Point]], list[Point]]:
    """Return the assistant's claims by field, and the cancellations of assistant and user."""
    found: dict[str, list[Point]] = {"conclusions": [], "decisions": [], "ruled_out": []}
    cancels: list[Point] = []
    for at in places:
        item = facts.items[at]
        if item.kind != "text" or item.role not in ("assistant", "user"):
            continue
        for sentence in quotable_sentences(item.text):
            cue = next((c for c in _CLAIM_CUES if markers.cues[c].search(sentence)), "")
            if not cue or (cue != "ruled_out" and markers.cues["next"].match(sentence)):
                continue
            point = Point(text=sentence, turn=item.turn, source=(item.id,))
            if cue == "cancelled":
                cancels.append(point)
            if item.role == "assistant":
                found[_FIELD_OF_CUE[cue]].append(point)
    return found, cancels


def quotable_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text outside code blocks that have a quotable length."""
    for sentence in split_sentences(_FENCE.sub("\n", readable_ends(text))):
        plain = not sentence.startswith(("#", "|", "```", "<")) and not sentence.endswith((":", "："))
        if (
            plain
            and len(sentence) + sum(c > _WIDE for c in sentence) >= SHORTEST_CLAIM
            and len(sentence) <= LONGEST_CLAIM
        ):
            yield sentence


def current_claims(points: Iterable[Point], cancels: Iterable[Point] = ()) -> list[Point]:
    """Remove outdated claims.

    A claim is outdated by the same claim with another value later, or by a later cancellation that
    mentions it.
    """
    kept: dict[str, Point] = {}
    for point in points:
        kept.pop(claim_key(point.text), None)
        kept[claim_key(point.text)] = point
    standing = [(point, _claim_words(point.text)) for point in kept.values()]
    unread = [point for point, _ in standing[:-_MOST_CLAIMS]]
    standing = standing[-_MOST_CLAIMS:]
    for cancel in list(cancels)[-_MOST_CANCELS:]:
        said = _claim_words(cancel.text)
        standing = [
            (p, words)
            for p, words in standing
            if p.turn > cancel.turn or p.text == cancel.text or not _mentions_claim(said, words)
        ]
    return unread + [point for point, _ in standing]


def claim_key(text: str) -> str:
    """Return a claim with numbers and quotations masked, so that claims about the same thing are equal."""
    return " ".join(_VALUE.sub("#", text.lower() if text.isupper() else text).lower().split())


def _mentions_claim(cancel: set[str], claim: set[str]) -> bool:
    """Return whether the words of a cancellation hold at least 60 % of a claim's words."""
    return len(claim) >= 2 and len(claim & cancel) >= 0.6 * len(claim)


def _claim_words(text: str) -> set[str]:
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
        every = [s for s in split_sentences(_FENCE.sub("\n", item.text)) if len(s) <= LONGEST_CLAIM]
        said = [s.rstrip(":：") for s in every if markers.cues["next"].search(s) and not s.endswith(("?", "？"))]
        if said:
            return [Point(text=said[-1], turn=item.turn, source=(item.id,))]
        if len(every) > 3:
            return []
    return []
