"""JSON written short and still JSON: long lists keep the rows that name what is wanted, long strings their beginning.

The whole stays one JSON object: under `danshari` it says what was left out and how to get it, under `data` stands the
value with its shape intact. Keys, short values and kept rows are as they were.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from danshari.analysis.first_seen import WORD
from danshari.analysis.lines import beginning
from danshari.core.items import Item
from danshari.core.placeholder import JSON_HEAD, recall_id

_FEW = 3
"""Rows up to which a list stays whole."""
_STRING = 400
"""Characters of a string that stay."""
_DEEP = 40
"""Levels below which nothing is looked at."""


@dataclass(slots=True)
class _Cut:
    """What was left out so far."""

    rows: int = 0
    characters: int = 0


def rows(item: Item, text: str, room: int, wanted: Callable[[set[str]], float]) -> str | None:
    """Write JSON text within about `room` characters; None if it is no JSON or cannot be shortened so.

    `wanted` says how much the words of a row are wanted; the first and last row of a list stay.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    for share in (1.0, 0.5, 0.2, 0.05):
        cut = _Cut()
        short = _short(value, int(share * room), wanted, cut, 0)
        written = _written(item, short, cut)
        if (cut.rows or cut.characters) and len(written) <= 1.2 * room:
            return written
    return None


def _written(item: Item, value: Any, cut: _Cut) -> str:
    left = [f"{cut.rows} rows"] if cut.rows else []
    left += [f"{cut.characters} characters of long strings"] if cut.characters else []
    head = {"left out": " and ".join(left), "characters": len(item.text), "archived as": recall_id(item)}
    return json.dumps({JSON_HEAD: head, "data": value}, ensure_ascii=False)


def _short(value: Any, room: int, wanted: Callable[[set[str]], float], cut: _Cut, depth: int) -> Any:
    if isinstance(value, str) and len(value) > _STRING:
        kept = beginning(value, _STRING)
        cut.characters += len(value) - len(kept)
        return kept
    if depth > _DEEP:
        return value
    if isinstance(value, dict):
        share = room // max(len(value), 1)
        sizes = {key: len(json.dumps(inner, ensure_ascii=False)) for key, inner in value.items()}
        spare = room - sum(size for size in sizes.values() if size <= share)
        long = sum(size > share for size in sizes.values())
        return {
            key: inner if sizes[key] <= share else _short(inner, max(spare, 0) // max(long, 1), wanted, cut, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list) and len(value) > _FEW:
        return _chosen(value, room, wanted, cut, depth)
    return (
        [_short(inner, room // len(value), wanted, cut, depth + 1) for inner in value]
        if isinstance(value, list)
        else value
    )


def _chosen(value: list[Any], room: int, wanted: Callable[[set[str]], float], cut: _Cut, depth: int) -> list[Any]:
    """Keep the first and last row and the most wanted ones, in their order, within the room."""
    texts = [json.dumps(row, ensure_ascii=False) for row in value]
    last = len(value) - 1
    scores = [wanted(set(WORD.findall(text))) + (100 if n in (0, last) else 0) for n, text in enumerate(texts)]
    kept: list[int] = []
    for n in sorted(range(len(value)), key=lambda n: (-scores[n], n)):
        if len(texts[n]) <= room or not kept:
            kept.append(n)
            room -= len(texts[n])
    cut.rows += len(value) - len(kept)
    return [_short(value[n], max(room, _STRING), wanted, cut, depth + 1) for n in sorted(kept)]
