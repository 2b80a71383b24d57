"""`handover`: the document of a whole conversation, to move to a new session or to another agent."""

from __future__ import annotations

from typing import Any

from danshari import data
from danshari.core.handover import Handover
from danshari.core.handover_markdown import render
from danshari.errors import ArgumentError
from danshari.formats import detect, named
from danshari.handovers.extract import Wanted, extract
from danshari.pipeline import masking
from danshari.pipeline.major import tables
from danshari.pipeline.tracker import Track


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
    """Work out the hand-over of a whole conversation, without a model; secrets are masked.

    `size` is in characters, the user's words aside; `hard` holds it for everything, so that even words are chosen
    from. `restore` adds files as last seen, up to so many characters. `handover_text` renders it.
    """
    for name, value in (("size", size), ("restore", restore)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ArgumentError(f"{name} = {value!r}; must be a number of characters, 0 or more")
    if language and language not in data.phrases():
        raise ArgumentError(f"language {language!r}; known: {', '.join(data.phrases())}")
    wire = named(format) if format else detect(messages)[0]
    track = Track(wire, data.tools(), data.estimator("claude-new"))
    track.follow(wire.messages(messages), ())
    wanted = Wanted(size=size, hard=hard, language=language, focus=focus, restore=restore)
    facts = track.facts
    return masking.masked_document(
        extract(facts, range(len(facts.items)), tables(), wanted), (item.text for item in facts.items)
    )


def handover_text(document: Handover) -> str:
    """Render a document in its own language."""
    return render(document, data.phrases()[document.language])
