"""Shorten JSON to JSON: long lists keep their most relevant rows, long strings their beginning.

The result is one JSON object. Under `danshari` it says what was left out and how to get it; under
`data` stands the value with its structure. Keys, short values and kept rows are unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from danshari.analysis.first_seen import WORD_PATTERN
from danshari.analysis.lines import first_words
from danshari.core.items import Item
from danshari.core.placeholder import JSON_NOTE_KEY, recall_id

_MIN_ROWS = 3
"""Rows up to which a list stays whole."""
_MAX_STRING = 400
"""Characters of a string that stay."""
_MAX_DEPTH = 40
"""Levels below which nothing is looked at."""


@dataclass(slots=True)
class _Omissions:
    """Counts what was left out so far."""

    rows: int = 0
    characters: int = 0


def shorten_json(item: Item, text: str, room: int, wanted: Callable[[set[str]], float]) -> str | None:
    """Shorten JSON text to about `room` characters; return None if it is no JSON or cannot be shortened so.

    `wanted` returns how relevant a row is, from its words. The first and the last row of a list always
    stay.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    for share in (1.0, 0.5, 0.2, 0.05):
        cut = _Omissions()
        short = _shorten_value(value, int(share * room), wanted, cut, 0)
        written = _render_json(item, short, cut)
        if (cut.rows or cut.characters) and len(written) <= 1.2 * room:
            return written
    return None


def _render_json(item: Item, value: Any, cut: _Omissions) -> str:
    left = [f"{cut.rows} rows"] if cut.rows else []
    left += [f"{cut.characters} characters of long strings"] if cut.characters else []
    head = {"left out": " and ".join(left), "characters": len(item.text), "archived as": recall_id(item)}
    return json.dumps({JSON_NOTE_KEY: head, "data": value}, ensure_ascii=False)


def _shorten_value(value: Any, room: int, wanted: Callable[[set[str]], float], cut: _Omissions, depth: int) -> Any:
    """Shorten one JSON value to about `room` characters.

    In an object, values above an equal share of the room are shortened to what the smaller ones leave
    over.
    """
    if isinstance(value, str) and len(value) > _MAX_STRING:
        kept = first_words(value, _MAX_STRING)
        cut.characters += len(value) - len(kept)
        return kept
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, dict):
        share = room // max(len(value), 1)
        sizes = {key: len(json.dumps(inner, ensure_ascii=False)) for key, inner in value.items()}
        spare = room - sum(size for size in sizes.values() if size <= share)
        long = sum(size > share for size in sizes.values())
        return {
            key: inner
            if sizes[key] <= share
            else _shorten_value(inner, max(spare, 0) // max(long, 1), wanted, cut, depth + 1)
            for key, inner in value.items()
        }
    if isinstance(value, list) and len(value) > _MIN_ROWS:
        return _shorten_list(value, room, wanted, cut, depth)
    return (
        [_shorten_value(inner, room // len(value), wanted, cut, depth + 1) for inner in value]
        if isinstance(value, list)
        else value
    )


def _shorten_list(
    value: list[Any], room: int, wanted: Callable[[set[str]], float], cut: _Omissions, depth: int
) -> list[Any]:
    """Keep the first and last row and the most relevant ones, in their order, within the room."""
    texts = [json.dumps(row, ensure_ascii=False) for row in value]
    last = len(value) - 1
    scores = [wanted(set(WORD_PATTERN.findall(text))) + (100 if n in (0, last) else 0) for n, text in enumerate(texts)]
    kept: list[int] = []
    for n in sorted(range(len(value)), key=lambda n: (-scores[n], n)):
        if len(texts[n]) <= room or not kept:
            kept.append(n)
            room -= len(texts[n])
    cut.rows += len(value) - len(kept)
    return [_shorten_value(value[n], max(room, _MAX_STRING), wanted, cut, depth + 1) for n in sorted(kept)]
