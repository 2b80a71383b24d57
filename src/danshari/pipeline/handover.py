"""The hand-over document of a whole conversation, to continue in a new session or another agent."""

from __future__ import annotations

from typing import Any

from danshari import data
from danshari.core.handover import Handover
from danshari.core.handover_markdown import render_handover
from danshari.errors import ArgumentError
from danshari.formats import detect_format, find_format
from danshari.handovers.extract import ExtractionOptions, extract_handover
from danshari.pipeline import masking
from danshari.pipeline.major import extraction_tables
from danshari.pipeline.tracker import ConversationTrack


def handover(
    messages: Any,
    *,
    size: int = 16_000,
    hard: bool = False,
    language: str = "",
    focus: str = "",
    restore: int = 0,
    format: str | None = None,  # noqa: A002  (the word of the field)
) -> Handover:
    """Extract the hand-over document of a whole conversation, without a model. Secrets are masked.

    `size` limits it in characters, not counting the user's own words. With `hard` the limit covers those
    too, so some may be left out. `restore` adds the last seen content of files, up to so many characters.
    `focus` is text that key lines prefer. Raises ArgumentError for a negative size or an unknown language.
    `handover_text` renders the result.
    """
    for name, value in (("size", size), ("restore", restore)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(f"{name} = {value!r}; must be a number of characters, 0 or more")
    if language and language not in data.load_phrases():
        raise ArgumentError(f"language {language!r}; known: {', '.join(data.load_phrases())}")
    wire = find_format(format) if format else detect_format(messages)[0]
    track = ConversationTrack(wire, data.load_tools(), data.load_estimator("claude-new"))
    track.follow(wire.messages(messages), ())
    wanted = ExtractionOptions(size=size, hard=hard, language=language, focus=focus, restore=restore)
    facts = track.facts
    return masking.mask_document(
        extract_handover(facts, range(len(facts.items)), extraction_tables(), wanted),
        (item.text for item in facts.items),
    )


def handover_text(document: Handover) -> str:
    """Render a hand-over document as text, in the document's language."""
    return render_handover(document, data.load_phrases()[document.language])
