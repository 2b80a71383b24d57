"""Exact names in a text: identifiers, file names, long numbers, quoted phrases.

An agent must spell these right to act again, so hand-overs keep them and model answers are checked
against them.
"""

from __future__ import annotations

from danshari.core.text import lazy_pattern

_TOKEN = lazy_pattern(r"[A-Za-z_]\w*(?:[.-]\w+)*|\d[\w-]*")
_QUOTED = lazy_pattern(r"\"([^\"\\\n]{12,120})\"|'([^'\\\n]{12,120})'|`([^`\\\n]{12,120})`")
_EXACT = lazy_pattern(r"[_\d]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]")


def find_names(text: str, *, quoted: bool = False) -> tuple[str, ...]:
    """Return the distinct names in `text`, in order of occurrence.

    Paths are split into parts; dotted names are returned whole and in parts. `quoted` adds phrases of
    12 to 120 characters in quotation marks.
    """
    found: dict[str, None] = {}
    search = _EXACT.search
    for token in _TOKEN.findall(text):
        if "." not in token:  # nearly all: the plain case of `is_exact_name`, without the call
            if len(token) > 3 and (search(token) if token.isascii() and token[0] > "9" else is_exact_name(token)):
                found[token] = None
            continue
        parts = token.split(".")
        if all(len(part) > 1 for part in parts):
            found[token] = None
        found.update(dict.fromkeys(filter(is_exact_name, parts)))
    for phrase in map("".join, _QUOTED.findall(text)) if quoted and any(mark in text for mark in "\"'`") else ():
        if " " in phrase.strip() and phrase[0].isalnum():
            found[phrase] = None
    return tuple(found)


def is_exact_name(word: str) -> bool:
    """Return whether a word must be spelled exactly, by the strict rule used for hand-overs.

    It has four characters or more and an underscore, an inner capital or a digit; a number has five
    digits or more.
    """
    if len(word) < 4 or word.isdecimal():
        return len(word) >= 5
    return bool(_EXACT.search(word)) or (not word.isascii() and any(c.isdigit() for c in word))
