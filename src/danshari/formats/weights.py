"""Estimate the tokens of blocks that are not understood, by what stands in them rather than by their length."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_LONG = 512
"""Characters from which a string without a space is bytes rather than a word."""
_SEALED = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_SEALED_SHARE = 6
"""Characters of sealed bytes (encrypted reasoning, citations' indexes) for one token: an estimate, as for reasoning."""
_TYPES = ("media_type", "mimeType", "mime_type")


def opaque_weight(value: Any, length: int, *, image: int, file: int) -> int:
    """Return the estimated tokens of a JSON value that is `length` characters long when written.

    Images and files inside it count `image` and `file` tokens each, sealed bytes a sixth of their characters, and all
    else a quarter.
    """
    tokens, left = 0, length
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            kind = next((str(part[name]) for name in _TYPES if name in part), "")
            data = part.get("data")
            if kind and isinstance(data, str) and len(data) >= _LONG:
                tokens += image if kind.startswith("image/") else file
                left -= len(data)
                waiting += [v for name, v in part.items() if name != "data"]
            else:
                waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, str) and len(part) >= _LONG:
            if part.startswith("data:"):
                tokens += image if part.startswith("data:image/") else file
                left -= len(part)
            elif _SEALED.fullmatch(part):
                tokens += len(part) // _SEALED_SHARE
                left -= len(part)
    return tokens + max(left, 0) // 4
