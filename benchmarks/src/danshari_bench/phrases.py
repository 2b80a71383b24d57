"""Build a recall call and its result in any wire format."""

from __future__ import annotations

import json
from typing import Any

from danshari.core.items import (
    Digest,
    Item,
    ItemId,
    Kind,
    Role,
    hash_strings,
)
from danshari.formats.base import Format


def recall_messages(wire: Format, query: str, text: str) -> list[Any]:
    """Return the assistant's recall call and its result as messages."""
    call = f"recall_{hash_strings(query)[:16]}"
    ask = json.dumps({"query": query})
    return wire.build(
        [_make_item("assistant", "call", call, ask), _make_item("tool", "result", call, text or "nothing found")]
    )


def _make_item(role: Role, kind: Kind, call: str, text: str) -> Item:
    digest = Digest(hash_strings(kind, call, text))
    name = "recall"
    return Item(id=ItemId(digest[:24]), digest=digest, role=role, kind=kind, text=text, name=name, call=call, turn=1)
