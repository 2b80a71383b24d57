"""Check what a compaction or a format did: differences between payload and view, lost words of the user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from danshari import data
from danshari.compaction import Compaction
from danshari.core.edits import View
from danshari.core.handover import PASTE_LIMIT
from danshari.core.items import Item
from danshari.formats.base import Format
from danshari.handovers.user_words import spoken_text


def view_differences(format: Format, payload: Any, shown: View) -> list[str]:  # noqa: A002
    """Return where a written payload differs from the view it was written from, empty if nowhere."""
    got = _join_user_texts([_item_content(i) for i in format.read(payload)])
    want = _join_user_texts([_item_content(i) for i in shown.conversation()])
    if got == want:
        return []
    at = next((n for n, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), min(len(got), len(want)))
    return [f"item {at} of {len(got)}/{len(want)}: got {got[at : at + 1]} want {want[at : at + 1]}"]


def _join_user_texts(contents: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Join neighbouring user texts, because a hand-over may become a paragraph of string content."""
    found: list[tuple[Any, ...]] = []
    for content in contents:
        if found and content[:2] == found[-1][:2] == ("user", "text"):
            found[-1] = (*content[:4], f"{found[-1][4]}\n\n{content[4]}", content[5])
        else:
            found.append(content)
    return found


def _item_content(item: Item) -> tuple[Any, ...]:
    text: Any = item.text
    if item.kind == "call":
        try:
            text = json.loads(item.text)
        except ValueError:
            text = item.text
    return item.role, item.kind, item.name, item.call, text, item.failed


def find_lost_words(source: Sequence[Any], result: Compaction, format: Format) -> list[str]:  # noqa: A002
    """List the texts of the user or the system that the view lacks or changed.

    A user's words may be quoted in a hand-over, line by line. Text that machines wrote under the user's role
    may go.
    """
    view = [i.text for i in format.read(result.messages) if i.kind == "text" and i.role in ("user", "system")]
    shown, lines = list(view), {line for text in view for line in text.split("\n")}
    markers, lost = data.load_markers(), []
    for item in format.read(source):
        if item.kind != "text" or item.role not in ("user", "system"):
            continue
        if item.text in shown:
            shown.remove(item.text)
        elif item.role == "system" or not _is_quoted(spoken_text(item, markers), lines):
            lost.append(f"{item.role} words lost: {item.text[:60]!r}")
    return lost


def _is_quoted(words: str, lines: set[str]) -> bool:
    """Return whether every line is in the view. Of a long paste, only the first line has to be."""
    wanted = words.split("\n") if len(words) <= PASTE_LIMIT else words[:200].split("\n")[:1]
    return all(line in lines or f"\\{line}" in lines or not line.strip() for line in wanted)
