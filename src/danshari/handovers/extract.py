"""Extract the hand-over document from the items by code alone.

No model is asked, and the same items give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from danshari.analysis.facts import Facts
from danshari.analysis.markers import Markers
from danshari.core.handover import Handover, Point, merge_handovers
from danshari.core.handover_markdown import (
    Phrases,
    parse_handover,
    render_handover,
)
from danshari.core.text import ShownText
from danshari.handovers.claims import next_step, standing_claims, told_points
from danshari.handovers.file_views import archive_index, last_file_views
from danshari.handovers.fit import fit_document
from danshari.handovers.key_lines import choose_key_lines
from danshari.handovers.language import conversation_language
from danshari.handovers.todo import running_handles, skill_rules, todo_points
from danshari.handovers.user_words import (
    binding_rules,
    choose_user_lines,
    label_requests,
    own_handover_span,
    spoken_text,
    user_words,
)
from danshari.handovers.work import collect_work


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionTables:
    """The tables of patterns and phrases that an extraction reads."""

    markers: Markers
    languages: Mapping[str, Phrases]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionOptions:
    """Options of an extraction: size, language, and what stays visible beside the document."""

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
class DocumentDraft:
    """The document at full length, without key lines."""

    document: Handover
    gone: frozenset[str] = frozenset()
    """Claims that later ones replaced: they must not come back as key lines."""


def extract_handover(
    facts: Facts, places: Sequence[int], tables: ExtractionTables, wanted: ExtractionOptions
) -> Handover:
    """Extract the document for the items at `places` (ascending), within the requested size."""
    return complete_document(facts, places, tables, wanted, draft_document(facts, places, tables, wanted))


def complete_document(
    facts: Facts, places: Sequence[int], tables: ExtractionTables, wanted: ExtractionOptions, begun: DocumentDraft
) -> Handover:
    """Cut a draft to the requested size, and fill the room left with key lines."""
    full = begun.document
    phrases = tables.languages[full.language]
    spoken = {at for at in places if facts.items[at].role == "user" and facts.items[at].kind == "text"}
    unspoken = [at for at in places if at not in spoken]

    def fill(room: int, known: str) -> Sequence[Point]:
        answers, deeds = (int(share * room) for share in _TOLD_SHARES[bool(facts.touched)])
        told = told_points(facts, unspoken, ShownText(known + wanted.visible), answers=answers, deeds=deeds)
        known += "".join(f"\n{p.label}\n{p.text}" for p in told)
        lines = choose_key_lines(
            facts, unspoken, room - sum(p.size for p in told), known + wanted.visible, focus=wanted.focus,
            stale=phrases.texts["changed"], users=[facts.items[at].text for at in spoken], gone=begun.gone,
        )  # fmt: skip
        return [*lines, *told]  # the first give way where a summarizer adds to the document

    room = int(_WORDS_SHARE * wanted.size)
    words = sum(p.size for p in full["words"])
    if not wanted.hard or words <= room:
        return fit_document(full, wanted.size, hard=wanted.hard, lines=fill, phrases=phrases)
    made = fit_document(
        _shorten_user_words(full, tables.markers, room), wanted.size, hard=True, lines=fill, phrases=phrases
    )
    spare = wanted.size - len(render_handover(made, phrases))
    if spare > _SPARE:
        full = _shorten_user_words(full, tables.markers, room + spare - _SPARE // 2)
        made = fit_document(full, wanted.size, hard=True, lines=fill, phrases=phrases)
    return made


def draft_document(
    facts: Facts,
    places: Sequence[int],
    tables: ExtractionTables,
    wanted: ExtractionOptions,
    *,
    older: Handover | None = None,
) -> DocumentDraft:
    """Extract every field except the key lines, at full length.

    `older` is the document of the last major compaction, whose points are merged in.
    """
    markers = tables.markers
    language = wanted.language or conversation_language(facts, markers, tables.languages.values())
    phrases = tables.languages[language]
    words = user_words(facts, places, markers, phrases)
    users = [at for at in facts.users if spoken_text(facts.items[at], markers).strip()]
    inside = set(places)
    words = label_requests(
        words, phrases, first=bool(users) and users[0] in inside, last=bool(users) and users[-1] in inside
    )
    said, gone = standing_claims(facts, places, markers)
    work = collect_work(facts, places, markers, phrases)
    known = wanted.visible + "\n".join(p.text for p in words)
    tested = {p.text for p in work.tests}
    attempts = [p for p in work.attempts.values() if p.text not in tested]
    attempts.sort(key=lambda p: not p.label)  # what was solved later gives way first
    fields: dict[str, list[Point]] = {
        "words": words,
        "rules": binding_rules(facts, places, markers, known),
        "todo": todo_points(facts, places),
        "handles": running_handles(facts, places, markers, phrases),
        "tests": work.tests,
        "ruled_out": [*attempts, *said["ruled_out"]],
        "decisions": said["decisions"],
        "conclusions": said["conclusions"],
        "files": list(work.files.values()),
        "commands": list(work.commands.values()),
        "skills": skill_rules(facts, places, markers),
        "next": next_step(facts, places, markers),
        "views": last_file_views(facts, places, wanted.restore),
        "index": archive_index(facts, places),
    }
    made = Handover(language=language, fields={k: tuple(v) for k, v in fields.items() if v})
    made = _remove_visible(made, wanted.visible)
    earlier = older or find_earlier_handover(facts, places, tables)
    return DocumentDraft(document=merge_handovers(earlier, made) if earlier else made, gone=gone)


def find_earlier_handover(facts: Facts, places: Sequence[int], tables: ExtractionTables) -> Handover | None:
    """Return the newest hand-over found in the texts of the items themselves, or None."""
    for at in reversed(places):
        item = facts.items[at]
        if span := own_handover_span(item, tables.markers):
            return parse_handover(item.text[slice(*span)], tables.languages)
    return None


def _remove_visible(document: Handover, visible: str) -> Handover:
    """Remove points that are visible beside the document anyway."""
    if not visible:
        return document
    shown = ShownText(visible)
    fields = {
        name: points
        if name in ("words", "todo", "files", "handles")
        else tuple(p for p in points if p.text not in shown)
        for name, points in document.fields.items()
    }
    return Handover(language=document.language, fields=fields)


def _shorten_user_words(document: Handover, markers: Markers, room: int) -> Handover:
    """Choose from the user's words where they alone exceed their share of a hard size.

    Lines that bind move to the rules.
    """
    binding, other = choose_user_lines(document["words"], markers, room)
    return document.with_field("words", other).with_field("rules", [*document["rules"], *binding])


_WORDS_SHARE = 0.65
"""Share of a hard size that the user's own words may take before they are chosen from."""
_TOLD_SHARES = {False: (0.65, 0.3), True: (0.03, 0.1)}
"""Shares of the room for key lines that answers given, and findings of helpers and deeds of other tools, may take: more
where no file was touched, because then they are all there is of the work."""
_SPARE = 60
"""Characters left over from which words are chosen once more, with that much more room."""
