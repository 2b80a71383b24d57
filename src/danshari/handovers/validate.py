"""Check a summarizer's answer before it is used.

The answer is parsed as a change to named fields. Invented names, orders and secrets are removed or
masked, and an unusable answer is refused with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari.analysis.identifiers import find_names
from danshari.analysis.markers import Markers, split_sentences
from danshari.core.handover import MODEL_FIELDS, Delta
from danshari.core.handover_markdown import OPENING, Phrases
from danshari.core.summary import Reply
from danshari.core.text import lazy_pattern, replace_surrogates
from danshari.handovers.language import detect_language

MAX_PROSE = 6_000
"""Characters of a plain-prose answer that are taken as notes; more is no summary."""
_MAX_ECHO = 0.5
"""Share of the prompt's lines that an answer may repeat."""
LONG_LINE = 40
"""Characters from which a line of prose that stands in the conversation too counts as copied."""
_MAX_COPIED = 0.8
"""Share of a prose answer's characters that may be lines copied from the conversation."""
_NUMBER = lazy_pattern(r"\d{3,}")
"""Numbers that must stand in the conversation."""
_FENCED = lazy_pattern(r"\A\s*```(?:json)?(?>\s*\n)(.*?)\n?```\s*\Z", re.DOTALL)
_THOUGHT = lazy_pattern(r"<(think|thinking|analysis|scratchpad)>.*?(?:</\1>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What an answer is checked against."""

    known: Collection[str]
    """Exact names that stand in the conversation."""
    words: str
    """The user's own words."""
    prompt: str
    """The instruction that was sent."""
    language: str
    source: int
    """Characters of what the hand-over replaces."""
    limit: int
    """Characters a change may add."""
    markers: Markers
    languages: Mapping[str, Phrases]
    mask: Callable[[str], str] = str
    lines: Collection[str] = frozenset()
    """Long lines that stand in what the hand-over replaces, stripped."""


@dataclass(slots=True, kw_only=True)
class AnswerVerdict:
    """A change to apply, what was repaired in it, and the reason if it was refused."""

    delta: Delta = field(default_factory=Delta)
    repaired: list[str] = field(default_factory=list)
    refused: str = ""


def check_answer(reply: Reply, ground: CheckContext) -> AnswerVerdict:
    """Parse and check one answer."""
    refused = _shape_problem(reply)
    if refused:
        return AnswerVerdict(refused=refused)
    text = replace_surrogates(_THOUGHT.sub("", reply.text).strip())
    if not text:
        return AnswerVerdict(refused="reasoning only")
    if len(text) > max(ground.source, 200):
        return AnswerVerdict(refused=f"longer than what it replaces ({len(text)} characters against {ground.source})")
    if refused := _content_problem(text, ground):
        return AnswerVerdict(refused=refused)
    found = _parse_change(text, ground.markers.cues["answer"])
    if isinstance(found, str):
        return AnswerVerdict(refused=found)
    return _repair_delta(found, ground)


def _shape_problem(reply: Reply) -> str:
    """Return why a reply is unusable by its form (cut off, refused, empty, a tool call), or an empty string."""
    if reply.calls:
        return "a tool call instead of text"
    if reply.finish in ("length", "max_tokens", "max_output_tokens", "incomplete"):
        return "cut off at the output limit"
    if reply.finish in ("refusal", "content_filter", "safety"):
        return "refused by the provider"
    if not reply.text.strip():
        return "reasoning only" if reply.reasoning.strip() else "empty"
    return ""


def _content_problem(text: str, ground: CheckContext) -> str:
    """Return why a text is unusable by its content (a refusal, an echo of the prompt), or an empty string."""
    head = text[:600]
    if ground.markers.cues["blank"].search(head):
        return "claims that there is no earlier conversation"
    if ground.markers.cues["refusal"].search(head[:200]):
        return "a refusal"
    asked = {line.strip() for line in ground.prompt.split("\n") if len(line.strip()) > 24}
    said = [line.strip() for line in text.split("\n") if len(line.strip()) > 24]
    same = asked.intersection(said)
    if said and (sum(line in asked for line in said) > _MAX_ECHO * len(said) or len(same) > _MAX_ECHO * len(asked) > 2):
        return "an echo of the prompt"
    prose = [line for line in said if len(line) >= LONG_LINE]
    if text.lstrip()[:1] not in "{[`" and prose:
        copied = sum(len(line) for line in prose if line in ground.lines)
        if copied > _MAX_COPIED * sum(map(len, said)):
            return "an echo of the conversation"
    if text.startswith(OPENING):
        return "a copy of the document instead of a change to it"
    return ""


def _parse_change(text: str, answers: re.Pattern[str]) -> Delta | str:
    """Parse a change from JSON, fenced or bare; short plain prose becomes notes.

    Returns a sentence that says what is wrong if neither works.
    """
    fenced = _FENCED.match(text)
    body = fenced.group(1) if fenced else text
    if body.lstrip()[:1] in "{[":
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return "broken JSON"
        return _delta_from_json(value)
    if "```" in text or len(text) > MAX_PROSE or answers.search(text[:200]):
        return "an answer to the task instead of a change to the document"
    return Delta(add={"notes": (text,)})


def _delta_from_json(value: Any) -> Delta | str:
    if not isinstance(value, Mapping):
        return "JSON of another shape"
    given = value.get("add") if isinstance(value.get("add"), Mapping) else value
    assert isinstance(given, Mapping)
    add = {name: _text_list(given.get(name)) for name in MODEL_FIELDS if given.get(name)}
    drop = _text_list(value.get("drop"))
    if not any(add.values()) and not drop:
        empty = not value or set(value) <= {"add", "drop"} or set(value) <= set(MODEL_FIELDS)
        return Delta() if empty else "JSON of another shape"
    return Delta(add=add, drop=drop)


def _text_list(value: Any) -> tuple[str, ...]:
    values: Sequence[Any] = value if isinstance(value, list) else [value] if value else []
    found = []
    for one in values:
        if isinstance(one, Mapping):
            one = " — ".join(str(v) for v in one.values() if isinstance(v, str | int | float))
        if isinstance(one, str) and one.strip():
            found.append(one.strip())
    return tuple(found)


def _repair_delta(delta: Delta, ground: CheckContext) -> AnswerVerdict:
    """Remove invented or commanding points and mask secrets; refuse the change if nothing is left."""
    made = AnswerVerdict()
    add: dict[str, tuple[str, ...]] = {}
    room = ground.limit
    whole = [text for texts in delta.add.values() for text in texts]
    if spoke := _other_language(whole, ground):
        return AnswerVerdict(refused=f"written in another language ({spoke} instead of {ground.language})")
    for name, texts in delta.add.items():
        sound = []
        for text in texts:
            kept = (
                _check_note(text, ground, made.repaired)
                if name == "notes"
                else _check_point(text, ground, made.repaired)
            )
            if kept and len(kept) > room:
                made.repaired.append("more than was asked for")
                continue
            if kept:
                room -= len(kept)
                masked = ground.mask(kept)
                if masked != kept:
                    made.repaired.append("secrets masked")
                sound.append(masked)
        if sound:
            add[name] = tuple(sound)
    if whole and not add and not delta.drop:
        made.refused = "nothing in it stands in the conversation: " + "; ".join(dict.fromkeys(made.repaired))[:200]
        return made
    made.delta = Delta(add=add, drop=delta.drop)
    return made


def _check_point(text: str, ground: CheckContext, repaired: list[str]) -> str:
    """Return the point, or an empty string if it has a problem, which is added to `repaired`."""
    why = _find_problem(text, ground)
    if why:
        repaired.append(why)
    return "" if why else text


def _check_note(text: str, ground: CheckContext, repaired: list[str]) -> str:
    """Return the lines of a note that have no problem."""
    kept = []
    for line in text.split("\n"):
        faults = [why for part in split_sentences(line) if (why := _find_problem(part, ground))]
        repaired.extend(faults)
        if not faults:
            kept.append(line)
    return "\n".join(kept).strip()


def _find_problem(text: str, ground: CheckContext) -> str:
    """Return what is wrong with a statement, or an empty string.

    A name or number that the conversation does not contain is invented; an order must quote the user.
    """
    invented = [name for name in find_names(text) if not _is_known(name, ground.known)]
    if invented:
        return f"invented: {', '.join(sorted(invented)[:3])}"
    unknown = [n for n in _NUMBER.findall(text) if n not in ground.known]
    if unknown:
        return f"invented: {', '.join(unknown[:3])}"
    if ground.markers.cues["orders"].search(text) and " ".join(text.split()) not in " ".join(ground.words.split()):
        return "an order that the user did not give"
    return ""


def _is_known(name: str, known: Collection[str]) -> bool:
    if name in known:
        return True
    return all(part in known for part in re.split(r"[/.:]", name) if len(part) > 3) and not name.isdecimal()


def _other_language(texts: Iterable[str], ground: CheckContext) -> str:
    """Return the answer's language if it is clearly not the requested one, else an empty string."""
    prose = [text for text in texts if len(text) >= 40]
    if not prose:
        return ""
    spoke = detect_language(prose, ground.languages.values(), default="")
    return spoke if spoke and spoke != ground.language else ""


def collect_names(texts: Iterable[str]) -> set[str]:
    """Return the exact names and numbers in `texts`, and the parts of paths and dotted names."""
    found: set[str] = set()
    for text in texts:
        found.update(_NUMBER.findall(text))
        for name in find_names(text):
            found.add(name)
            found.update(part for part in re.split(r"[/.:@]", name) if part)
    return found
