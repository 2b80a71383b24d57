"""What the builders of all formats share: items grouped into messages, parsed arguments, images, notes on losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from danshari.core.items import Item
from danshari.core.text import parse_arguments
from danshari.formats.base import ImageSource


def group_items(items: Sequence[Item]) -> Iterator[tuple[str, list[Item]]]:
    """Group items into messages: a turn's assistant items, its results with media, runs of one role.

    Results come right after the turn that asked for them. Anything that stood in between follows them.
    """
    rank = {"assistant": 0, "tool": 1}
    ordered = sorted(items, key=lambda i: (i.turn, rank.get(i.role, 2)))
    for key, group in groupby(ordered, key=lambda i: (i.role, i.turn if i.role == "assistant" else 0)):
        yield key[0], list(group)


def parse_call_arguments(item: Item, lost: list[str]) -> dict[str, Any]:
    """Return a call's arguments as an object; other text is carried under `input`, with a note."""
    data = parse_arguments(item.text)
    if not data and item.text.strip() not in ("", "{}"):
        lost.append(f"call {item.call}: arguments are no JSON object; carried under `input`")
        return {"input": item.text}
    return data


def image_source(item: Item) -> ImageSource | None:
    """Return the image of a media item of any format; None for other media."""
    from danshari.formats import FORMATS  # the table imports this module

    raw = item.raw if isinstance(item.raw, dict) else {}
    return next((found for wire in FORMATS.values() if (found := wire.image_source(raw)) is not None), None)


def note_loss(item: Item, where: str, lost: list[str]) -> None:
    """Add a line about an item that the format cannot carry."""
    lost.append(f"{item.role} {item.kind} {item.name or ''}".strip() + f" has no place in {where}")


def unique_call_ids(items: Sequence[Item]) -> list[Item]:
    """Return the items with call ids that no two calls share: ids of some clients recur, other formats refuse that.

    A result belongs to the oldest open call with its id.
    """
    made: dict[str, int] = {}
    pending: dict[str, list[str]] = {}
    newest: dict[str, str] = {}
    out = []
    for item in items:
        name = item.call
        if name and item.kind == "call":
            count = made[name] = made.get(name, 0) + 1
            newest[name] = name if count == 1 else f"{name}-{count}"
            pending.setdefault(name, []).append(newest[name])
        elif name and item.kind == "result" and pending.get(name):
            newest[name] = pending[name].pop(0)
        out.append(replace(item, call=newest[name]) if newest.get(name, name) != name else item)
    return out
