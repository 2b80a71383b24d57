"""What the assistant stated: conclusions, decisions, cancellations, rejected approaches, the next step."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence

from danshari.analysis.facts import Facts
from danshari.analysis.identifiers import find_names
from danshari.analysis.lines import readable_ends
from danshari.analysis.markers import Markers, split_sentences
from danshari.analysis.records import entry_text, is_short_result
from danshari.core.handover import Point
from danshari.core.text import cut_at_space, lazy_pattern, parse_arguments

SHORTEST_CLAIM, LONGEST_CLAIM = 16, 320
"""Characters of a sentence worth quoting."""
_WIDE = "\u2e7f"
"""Characters beyond it (CJK) say about twice as much."""
_TOLD, _TOLD_PROBE, _TOLD_LABEL = 320, 4_000, 60
"""Characters quoted of one answer or deed, of a text that are read for it, and of the call that led to it."""
_PLAIN = 0.95
"""Share of letters and plain marks from which a text is prose."""
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


def told_points(facts: Facts, places: Sequence[int], known: Container[str], *, answers: int, deeds: int) -> list[Point]:
    """Quote what has no names to be found by: answers given, findings of helpers, and what other tools did.

    The newest that `known` does not contain, in order of time, within so many characters of answers and of findings
    and deeds.
    """
    every = [point for at in places if (point := _told_point(facts, at)) is not None]
    done = _newest_points([p for p in every if p.label], known, deeds)
    said = _newest_points([p for p in every if not p.label], known, answers)
    return sorted([*done, *said], key=lambda p: p.turn)


def _newest_points(points: Sequence[Point], known: Container[str], room: int) -> list[Point]:
    """Return the newest points that fit into `room` characters; of points with the same label the newest."""
    found: list[Point] = []
    labels: set[str] = set()
    for point in reversed(points):
        if point.size > room or point.label in labels:
            continue
        if not point.label and all(line in known for line in point.text.split("\n")):
            continue
        labels |= {point.label} - {""}
        found.append(point)
        room -= point.size
    return found


def _told_point(facts: Facts, at: int) -> Point | None:
    """Return the quotation of one answer, finding or deed; None if the item is none."""
    item = facts.items[at]
    label, text = "", ""
    if item.kind == "text" and item.role == "assistant" and _ends_an_answer(facts, at) and _is_told(item.text):
        text = _beginning(item.text, nameless=False) if len(item.text) <= _TOLD else ""
    elif item.kind == "result" and (act := facts.act_at(at)) is not None and act.kind in ("agent", "other"):
        call = facts.items[facts.call_of[at]]
        asked = entry_text(parse_arguments(call.text))
        helper = act.kind == "agent" or (_is_told(item.text) and _is_told(asked))
        if helper or is_short_result(item.text):
            label, text = _describe_call(call.name, call.text), _beginning(item.text, nameless=helper)
    if not text or (not label and len(text) < SHORTEST_CLAIM):
        return None
    return Point(text=text, label=label, turn=item.turn, source=(item.id,))


def _ends_an_answer(facts: Facts, at: int) -> bool:
    """Return whether a text of the assistant is the last thing of its turn, before the user speaks."""
    follows = next((i for i in facts.items[at + 1 : at + 3] if i.kind != "reasoning"), None)
    return follows is None or (follows.role == "user" and follows.kind in ("text", "media"))


def _is_told(text: str) -> bool:
    """Return whether a text is mostly prose: words with few marks between them."""
    probe = cut_at_space(text, _TOLD_PROBE)
    plain = sum(c.isalnum() or c in " ,.!?'\u2019\n" for c in probe)
    return (text.count(" ") >= 4 or any(c > _WIDE for c in probe)) and plain > _PLAIN * len(probe)


def _beginning(text: str, *, nameless: bool) -> str:
    """Return the first lines of a text, without code, up to the size that is quoted of one answer.

    `nameless` leaves out lines with exact names: those are found as key lines.
    """
    kept: list[str] = []
    room = _TOLD
    for line in _FENCE.sub("\n", cut_at_space(text, _TOLD_PROBE)).split("\n"):
        bare = line.strip()
        if not bare or bare.startswith(("```", "#", "|")) or bare.endswith((":", "：", "**")):
            continue
        if nameless and find_names(bare):
            continue
        if len(bare) > room:
            cut = [] if kept else list(split_sentences(bare[: _TOLD + 1]))[:-1]
            return "\n".join(kept) if kept or not cut else bare[: bare.find(cut[-1]) + len(cut[-1])]
        kept.append(bare)
        room -= len(bare) + 1
    return "\n".join(kept)


def _describe_call(name: str, arguments: str) -> str:
    """Return a call in short: its name and its values."""
    given = parse_arguments(arguments)
    said = " ".join(f"{k}={v}" for k, v in given.items() if isinstance(v, str | int | float)) or arguments
    return cut_at_space(" ".join(f"{name} {said}".split()), _TOLD_LABEL)
