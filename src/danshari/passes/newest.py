"""The very last resort: the newest results or pastes alone exceed the window, and are reduced evenly.

Sent as they are they would be refused. Each keeps its most telling part, and its original can be recalled.
"""

from __future__ import annotations

from collections.abc import Sequence

from danshari.analysis.facts import Facts
from danshari.analysis.lines import text_ends
from danshari.core.edits import Effects, Replace
from danshari.core.handover import PASTE_LIMIT
from danshari.core.items import Item
from danshari.core.placeholder import render_text_ends
from danshari.core.policy import Policy
from danshari.shorten.text import squeeze

_LEAST = 150.0
"""Tokens that every reduced item keeps, if it has so many."""
_HEADLINE = 60.0
"""Tokens that the line which tells what was left out may take."""


def reduce_newest(facts: Facts, effects: Effects, sizes: Sequence[float], need: float, policy: Policy) -> list[Replace]:
    """Return edits that free about `need` tokens of what the newest turn brought, the largest items most.

    `sizes` are the tokens of every item as shown. Every item above a common limit is reduced to it.
    """
    found = {at: sizes[at] for at in range(facts.first_sight, len(facts.items)) if _is_reducible(facts, effects, at)}
    limit = _common_limit(sorted(found.values()), need)
    edits = []
    for at, size in found.items():
        item = facts.items[at]
        if size <= limit:
            continue
        shown = effects.texts[at].text if at in effects.texts else item.text
        room = int(len(shown) * max(limit - _HEADLINE, _LEAST) / size)
        text = _shorten(facts, at, shown, room, policy)
        if text is not None and len(text) < len(shown):
            why = "the newest results together exceed the window"
            edits.append(Replace(id=item.id, text=text, by="admit", reason="room", why=why))
    return edits


def _is_reducible(facts: Facts, effects: Effects, at: int) -> bool:
    """Return whether the item is a result, or a paste of the user too long to be words."""
    item = facts.items[at]
    return at not in effects.gone and (item.kind == "result" or is_paste(item))


def is_paste(item: Item) -> bool:
    """Return whether a user's text is so long that it is data rather than words."""
    return item.kind == "text" and item.role == "user" and len(item.text) > PASTE_LIMIT


def _common_limit(sizes: Sequence[float], need: float) -> float:
    """Return the size in tokens to which all larger ones must shrink so that `need` tokens are freed."""
    over = 0.0
    for number, size in enumerate(reversed(sizes), 1):
        over += size
        smaller = sizes[-number - 1] if number < len(sizes) else 0.0
        limit = (over - need) / number
        if limit >= smaller:
            return max(limit, _LEAST)
    return _LEAST


def _shorten(facts: Facts, at: int, shown: str, room: int, policy: Policy) -> str | None:
    """Return the text of an item in about `room` characters; of a paste its beginning and its end."""
    item = facts.items[at]
    if item.kind == "result":
        short = squeeze(facts, at, room, policy)
        if short is not None and len(short) < len(shown):
            return short
    return render_text_ends(item, *text_ends(item.text, room)) if room < len(item.text) else None
