"""Trust nothing: what a summarizer answered is read as a change to named fields, checked, and repaired or refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari.analysis.identifiers import names
from danshari.analysis.markers import Markers, sentences
from danshari.core.handover import MODEL_FIELDS, Delta
from danshari.core.handover_markdown import OPENING, Phrases
from danshari.core.summary import Reply
from danshari.core.text import sendable
from danshari.handovers.language import spoken

PROSE = 6_000
"""Characters of a plain-prose answer that are taken as notes; more is no summary."""
_ECHO = 0.5
"""Share of the prompt's lines that an answer may repeat."""
_NUMBER = re.compile(r"\d{3,}")
"""Numbers that must stand in the conversation."""
_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?```\s*\Z", re.DOTALL)
_THOUGHT = re.compile(r"<(think|thinking|analysis|scratchpad)>.*?(?:</\1>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What an answer is held against."""

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


@dataclass(slots=True, kw_only=True)
class Verdict:
    """A change to apply, what was repaired in it, and why it was refused if it was."""

    delta: Delta = field(default_factory=Delta)
    repaired: list[str] = field(default_factory=list)
    refused: str = ""


def judged(reply: Reply, ground: Ground) -> Verdict:
    """Read and check one answer."""
    refused = _shape(reply)
    if refused:
        return Verdict(refused=refused)
    text = sendable(_THOUGHT.sub("", reply.text).strip())
    if not text:
        return Verdict(refused="reasoning only")
    if len(text) > max(ground.source, 200):
        return Verdict(refused=f"longer than what it replaces ({len(text)} characters against {ground.source})")
    if refused := _content(text, ground):
        return Verdict(refused=refused)
    found = _read(text, ground.markers.cues["answer"])
    if isinstance(found, str):
        return Verdict(refused=found)
    return _repaired(found, ground)


def _shape(reply: Reply) -> str:
    if reply.calls:
        return "a tool call instead of text"
    if reply.finish in ("length", "max_tokens", "max_output_tokens", "incomplete"):
        return "cut off at the output limit"
    if reply.finish in ("refusal", "content_filter", "safety"):
        return "refused by the provider"
    if not reply.text.strip():
        return "reasoning only" if reply.reasoning.strip() else "empty"
    return ""


def _content(text: str, ground: Ground) -> str:
    head = text[:600]
    if ground.markers.cues["blank"].search(head):
        return "claims that there is no earlier conversation"
    if ground.markers.cues["refusal"].search(head[:200]):
        return "a refusal"
    asked = {line.strip() for line in ground.prompt.split("\n") if len(line.strip()) > 24}
    said = [line.strip() for line in text.split("\n") if len(line.strip()) > 24]
    same = asked.intersection(said)
    if said and (sum(line in asked for line in said) > _ECHO * len(said) or len(same) > _ECHO * len(asked) > 2):
        return "an echo of the prompt"
    if text.startswith(OPENING):
        return "a copy of the document instead of a change to it"
    return ""


def _read(text: str, answers: re.Pattern[str]) -> Delta | str:
    """Read a change from JSON, fenced or bare; plain prose becomes notes; else say what is wrong."""
    fenced = _FENCED.match(text)
    body = fenced.group(1) if fenced else text
    if body.lstrip()[:1] in "{[":
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return "broken JSON"
        return _delta(value)
    if "```" in text or len(text) > PROSE or answers.search(text[:200]):
        return "an answer to the task instead of a change to the document"
    return Delta(add={"notes": (text,)})


def _delta(value: Any) -> Delta | str:
    if not isinstance(value, Mapping):
        return "JSON of another shape"
    given = value.get("add") if isinstance(value.get("add"), Mapping) else value
    assert isinstance(given, Mapping)
    add = {name: _texts(given.get(name)) for name in MODEL_FIELDS if given.get(name)}
    drop = _texts(value.get("drop"))
    if not any(add.values()) and not drop:
        empty = not value or set(value) <= {"add", "drop"} or set(value) <= set(MODEL_FIELDS)
        return Delta() if empty else "JSON of another shape"
    return Delta(add=add, drop=drop)


def _texts(value: Any) -> tuple[str, ...]:
    values: Sequence[Any] = value if isinstance(value, list) else [value] if value else []
    found = []
    for one in values:
        if isinstance(one, Mapping):
            one = " — ".join(str(v) for v in one.values() if isinstance(v, str | int | float))
        if isinstance(one, str) and one.strip():
            found.append(one.strip())
    return tuple(found)


def _repaired(delta: Delta, ground: Ground) -> Verdict:
    """Take out what is invented, what gives orders, and mask secrets; refuse where nothing sound is left."""
    made = Verdict()
    add: dict[str, tuple[str, ...]] = {}
    room = ground.limit
    whole = [text for texts in delta.add.values() for text in texts]
    if spoke := _other_language(whole, ground):
        return Verdict(refused=f"written in another language ({spoke} instead of {ground.language})")
    for name, texts in delta.add.items():
        sound = []
        for text in texts:
            kept = _sound(text, ground, made.repaired) if name == "notes" else _sound_point(text, ground, made.repaired)
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


def _sound_point(text: str, ground: Ground, repaired: list[str]) -> str:
    why = _fault(text, ground)
    if why:
        repaired.append(why)
    return "" if why else text


def _sound(text: str, ground: Ground, repaired: list[str]) -> str:
    """Keep the lines of a note that are sound."""
    kept = []
    for line in text.split("\n"):
        faults = [why for part in sentences(line) if (why := _fault(part, ground))]
        repaired.extend(faults)
        if not faults:
            kept.append(line)
    return "\n".join(kept).strip()


def _fault(text: str, ground: Ground) -> str:
    invented = [name for name in names(text) if not _is_known(name, ground.known)]
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


def _other_language(texts: Iterable[str], ground: Ground) -> str:
    """Name the language of an answer where it is clearly not the one asked for; code and names say nothing."""
    prose = [text for text in texts if len(text) >= 40]
    if not prose:
        return ""
    spoke = spoken(prose, ground.languages.values(), default="")
    return spoke if spoke and spoke != ground.language else ""


def known_names(texts: Iterable[str]) -> set[str]:
    """Collect the exact names of texts, and the parts of paths and dotted names."""
    found: set[str] = set()
    for text in texts:
        found.update(_NUMBER.findall(text))
        for name in names(text):
            found.add(name)
            found.update(part for part in re.split(r"[/.:@]", name) if part)
    return found
