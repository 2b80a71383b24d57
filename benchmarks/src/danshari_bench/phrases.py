"""A recall call with its result, spelled in each format."""

from __future__ import annotations

import json
from typing import Any

from danshari.core.items import (
    Digest,
    Item,
    ItemId,
    Kind,
    Role,
    hashed,
)
from danshari.formats.base import Format


def placed(wire: Format, query: str, text: str) -> list[Any]:
    """Build the assistant's recall call and its result."""
    call = f"recall_{hashed(query)[:16]}"
    ask = json.dumps({"query": query})
    return wire.build([_item("assistant", "call", call, ask), _item("tool", "result", call, text or "nothing found")])


def _item(role: Role, kind: Kind, call: str, text: str) -> Item:
    digest = Digest(hashed(kind, call, text))
    name = "recall"
    return Item(id=ItemId(digest[:24]), digest=digest, role=role, kind=kind, text=text, name=name, call=call, turn=1)
