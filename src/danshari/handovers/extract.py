"""The hand-over document, worked out from the items alone: no model, the same bytes every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from danshari.analysis.facts import Facts
from danshari.analysis.markers import Markers
from danshari.core.handover import Handover, Point, merged
from danshari.core.handover_markdown import (
    Phrases,
    found_in,
    parse,
    render,
)
from danshari.handovers.claims import next_step, stated
from danshari.handovers.file_views import archived, last_views
from danshari.handovers.fit import fitted
from danshari.handovers.key_lines import key_lines
from danshari.handovers.language import language_of
from danshari.handovers.todo import handles, skills, todo
from danshari.handovers.user_words import (
    labelled,
    most_telling,
    rules,
    user_words,
)
from danshari.handovers.work import work_of

__all__ = ["Draft", "Tables", "Wanted", "carried", "draft", "extract", "filled", "language_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables an extraction reads."""

    markers: Markers
    languages: Mapping[str, Phrases]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for: size, language, what stays visible beside the document."""

    size: int
    """Characters of the rendered document, mandatory fields aside."""
    language: str = ""
    """Empty: that of the user's words."""
    hard: bool = False
    """Whether the size holds for everything: then even user words are chosen from."""
    visible: str = ""
    """Texts that stand in the view beside the document; what stands there is not repeated."""
    restore: int = 0
    """Characters of files to show as last seen."""
    focus: str = ""
    """What matters next, in the user's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Everything but the key lines, at full length."""

    document: Handover
    gone: frozenset[str] = frozenset()
    """Claims that later ones replaced: they must not come back as key lines."""


def extract(facts: Facts, places: Sequence[int], tables: Tables, wanted: Wanted) -> Handover:
    """Work out the document that stands for the items at `places` (ascending), within the size asked for."""
    return filled(facts, places, tables, wanted, draft(facts, places, tables, wanted))


def filled(facts: Facts, places: Sequence[int], tables: Tables, wanted: Wanted, begun: Draft) -> Handover:
    """Bring a draft to the size asked for, and fill it up with key lines."""
    full = begun.document
    phrases = tables.languages[full.language]
    spoken = {at for at in places if facts.items[at].role == "user" and facts.items[at].kind == "text"}
    unspoken = [at for at in places if at not in spoken]

    def fill(room: int, known: str) -> Sequence[Point]:
        return key_lines(
            facts, unspoken, room, known + wanted.visible, focus=wanted.focus, stale=phrases.texts["changed"],
            users=[facts.items[at].text for at in spoken], gone=begun.gone,
        )  # fmt: skip

    room = int(_WORDS_SHARE * wanted.size)
    words = sum(p.size for p in full["words"])
    if not wanted.hard or words <= room:
        return fitted(full, wanted.size, hard=wanted.hard, lines=fill, phrases=phrases)
    made = fitted(_pressed(full, tables.markers, room), wanted.size, hard=True, lines=fill, phrases=phrases)
    spare = wanted.size - len(render(made, phrases))
    if spare > _SPARE:
        full = _pressed(full, tables.markers, room + spare - _SPARE // 2)
        made = fitted(full, wanted.size, hard=True, lines=fill, phrases=phrases)
    return made


def draft(
    facts: Facts, places: Sequence[int], tables: Tables, wanted: Wanted, *, older: Handover | None = None
) -> Draft:
    """Work out every field but the key lines, at full length; `older` is the document of the last major compaction."""
    markers = tables.markers
    language = wanted.language or language_of(facts, markers, tables.languages.values())
    phrases = tables.languages[language]
    words = user_words(facts, places, markers, phrases)
    users = [at for at in facts.users if markers.own_words(facts.items[at].text).strip()]
    inside = set(places)
    words = labelled(words, phrases, first=bool(users) and users[0] in inside, last=bool(users) and users[-1] in inside)
    said, gone = stated(facts, places, markers)
    work = work_of(facts, places, markers, phrases)
    known = wanted.visible + "\n".join(p.text for p in words)
    attempts = [p for p in work.attempts.values() if p.text not in {t.text for t in work.tests}]
    attempts.sort(key=lambda p: not p.label)  # what was solved later gives way first
    fields: dict[str, list[Point]] = {
        "words": words,
        "rules": rules(facts, places, markers, known),
        "todo": todo(facts, places, markers),
        "handles": handles(facts, places, markers, phrases),
        "tests": work.tests,
        "ruled_out": [*attempts, *said["ruled_out"]],
        "decisions": said["decisions"],
        "conclusions": said["conclusions"],
        "files": list(work.files.values()),
        "commands": list(work.commands.values()),
        "skills": skills(facts, places, markers),
        "next": next_step(facts, places, markers),
        "views": last_views(facts, places, wanted.restore),
        "index": archived(facts, places),
    }
    made = Handover(language=language, fields={k: tuple(v) for k, v in fields.items() if v})
    made = _unseen(made, wanted.visible)
    earlier = older or carried(facts, places, tables)
    return Draft(document=merged(earlier, made) if earlier else made, gone=gone)


def carried(facts: Facts, places: Sequence[int], tables: Tables) -> Handover | None:
    """Read the newest hand-over that stands in the items themselves (an earlier one whose sources are gone)."""
    for at in reversed(places):
        item = facts.items[at]
        if item.kind == "text" and item.role == "user" and found_in(item.text):
            return parse(item.text, tables.languages)
    return None


def _unseen(document: Handover, visible: str) -> Handover:
    """Leave out statements that stand in the view beside the document anyway."""
    if not visible:
        return document
    fields = {
        name: points
        if name in ("words", "todo", "files", "handles")
        else tuple(p for p in points if p.text not in visible)
        for name, points in document.fields.items()
    }
    return Handover(language=document.language, fields=fields)


def _pressed(document: Handover, markers: Markers, room: int) -> Handover:
    """Choose from the user's words where they alone take more than their part of a hard size."""
    binding, other = most_telling(document["words"], markers, room)
    return document.with_field("words", other).with_field("rules", [*document["rules"], *binding])


_WORDS_SHARE = 0.65
"""Share of a hard size that the user's own words may take before they are chosen from."""
_SPARE = 60
"""Characters left over from which words are chosen once more, with that much more room."""
