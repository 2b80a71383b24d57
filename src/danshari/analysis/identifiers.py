"""Exact names: what an agent must spell right to act again. Identifiers, files, long numbers, quoted phrases."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[A-Za-z_]\w*(?:[.-]\w+)*|\d[\w-]*")
_QUOTED = re.compile(r"\"([^\"\\\n]{12,120})\"|'([^'\\\n]{12,120})'|`([^`\\\n]{12,120})`")
_INNER = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]")


def names(text: str, *, quoted: bool = False) -> tuple[str, ...]:
    """Find the distinct names in `text`, in order; paths by their parts, dotted names whole and in parts.

    `quoted` adds phrases of 12 characters and more that stand in quotation marks.
    """
    found: dict[str, None] = {}
    for token in _TOKEN.findall(text):
        parts = token.split(".")
        if len(parts) > 1 and all(len(part) > 1 for part in parts):
            found[token] = None
        found.update(dict.fromkeys(filter(is_name, parts)))
    for phrase in map("".join, _QUOTED.findall(text)) if quoted else ():
        if " " in phrase.strip() and phrase[0].isalnum():
            found[phrase] = None
    return tuple(found)


def is_name(word: str) -> bool:
    """Say whether a word is exact: an underscore, an inner capital, a digit; numbers from five digits on."""
    if len(word) < 4 or word.isdecimal():
        return len(word) >= 5
    return "_" in word or bool(_INNER.search(word)) or any(c.isdigit() for c in word)
