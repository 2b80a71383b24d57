"""A recall call with its result, spelled in each format."""

from __future__ import annotations

import json
from typing import Any

from danshari.core.model import Digest, Item, ItemId, hashed
from danshari.formats.base import Format


def placed(wire: Format, query: str, text: str) -> list[Any]:
    """Build the assistant's recall call and its result."""
    call = f"recall_{hashed(query)[:16]}"
    common = {"call": call, "name": "recall", "turn": 1}
    items = [
        Item(id=ItemId(call + "c"), digest=Digest(call), role="assistant", kind="call",
             text=json.dumps({"query": query}), **common),  # type: ignore[arg-type]
        Item(id=ItemId(call + "r"), digest=Digest(call), role="tool", kind="result", text=text or "nothing found",
             **common),  # type: ignore[arg-type]
    ]  # fmt: skip
    return wire.build(items)
