"""What the builders of all formats share: items grouped into messages, parsed arguments, images, notes on losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
