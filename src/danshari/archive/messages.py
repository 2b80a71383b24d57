"""Whole messages in the archive: what an edit takes out of sight and what is no text of an item.

Beside the texts of items, the message that held them is stored as JSON, with its keys in order: ids, citations,
signatures, titles and fields that nobody here knows. Long texts stand in it by reference, so they are stored once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from danshari.archive.base import Entry
from danshari.core.items import Digest, Item, ItemId, hash_strings

MESSAGE_KIND = "message"
"""`Entry.kind` of whole messages; they are found by an item's id and never by their words."""
_REFERENCE = "danshari:text"
"""Key of the object that stands for a long text. An object of the caller's own with this key is put inside one."""
_LEAST = 200
"""Characters from which a text stands by reference."""


def stored_message_digest(item: ItemId) -> Digest:
    """Return the digest under which the message that holds an item is stored."""
    return Digest(hash_strings(MESSAGE_KIND, item))


def message_entries(message: Any, items: Iterable[Item]) -> list[Entry]:
    """Return one entry for each of the items, all of them holding their whole message (JSON values)."""
    parts = list(items)
    texts = {item.text: item.digest for item in parts if item.kind != "call" and len(item.text) >= _LEAST}
    body = json.dumps(_with_references(message, texts), ensure_ascii=False, default=str)
    return [
        Entry(
            digest=stored_message_digest(item.id),
            text=body,
            name=item.name,
            kind=MESSAGE_KIND,
            turn=item.turn,
            call=item.call,
        )
        for item in parts
    ]


def read_message(entry: Entry, text_of: Callable[[str], str]) -> Any:
    """Return the message that an entry holds; `text_of` returns the original of a digest."""
    return _without_references(json.loads(entry.text), text_of)


def _with_references(value: Any, texts: Mapping[str, Digest]) -> Any:
    if isinstance(value, str):
        return {_REFERENCE: texts[value]} if value in texts else value
    if isinstance(value, Mapping):
        made = {key: _with_references(v, texts) for key, v in value.items()}
        return {_REFERENCE: [made]} if _REFERENCE in made else made
    if isinstance(value, list | tuple):
        return [_with_references(v, texts) for v in value]
    return value


def _without_references(value: Any, text_of: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_REFERENCE}:
            held = value[_REFERENCE]
            if isinstance(held, str):
                return text_of(held)
            return {key: _without_references(v, text_of) for key, v in held[0].items()}
        return {key: _without_references(v, text_of) for key, v in value.items()}
    if isinstance(value, list):
        return [_without_references(v, text_of) for v in value]
    return value
