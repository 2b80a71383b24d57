"""The words under which originals are found: identifiers whole and in parts, path segments, numbers, CJK bigrams.

SQLite's own trigram tokenizer misses two-character words, and its word tokenizer knows nothing of `snake_case` or
`camelCase`; so the index holds words that are made here, and a query is cut the same way.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain

_WORD = re.compile(r"\w+(?:[.-]\w+)*")
_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+|[^\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_JOINT = re.compile(r"[.-]")
_LONGEST = 64
"""Characters of a word beyond which it is data, not a word (base64, minified code)."""
_MOST = 400
"""Distinct words of one passage that are indexed."""


def words(text: str) -> list[str]:
    """Give the distinct words of a text as the index holds them, in order of first sight, at most 400."""
    distinct = dict.fromkeys(_WORD.findall(text))
    return list(dict.fromkeys(chain.from_iterable(map(forms, distinct))))[:_MOST]


def head_words(name: str, label: str, path: str) -> list[str]:
    """Give the words of an original's tool, call and path, which the index holds apart."""
    return words(f"{name} {label} {path}")


@lru_cache(maxsize=65_536)
def forms(word: str) -> tuple[str, ...]:
    """Give a word's entries in the index: itself, its dotted parts, the parts of joined names, or CJK bigrams."""
    if len(word) > _LONGEST:
        return ()
    if not word.isascii():
        runs = _WIDE.findall(word)
        if len(runs) > 1:  # Chinese beside an identifier
            return tuple(dict.fromkeys(form for run in runs for form in forms(run)))
        if word[0] >= "\u2e80":
            return tuple(word[n : n + 2] for n in range(len(word) - 1)) or (word,)
    low = word.lower()
    if low == word and word.isalpha():
        return (stem(word),)
    if word.isdecimal():
        return (word,)
    made = [low]
    if "." in word or "-" in word:
        made += [part for part in _JOINT.split(low) if len(part) > 1]
    made += [stem(piece) for piece in map(str.lower, _PIECE.findall(word)) if len(piece) > 2]
    return tuple(dict.fromkeys(made))


def stem(word: str) -> str:
    """Strip the commonest English endings of a plain word; names with digits, dots or underscores stay."""
    if len(word) < 5 or not word.isalpha() or not word.isascii():
        return word
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            bare = word[: -len(ending)].rstrip("e") + ("y" if ending == "ies" else "")
            return bare[:-1] if ending in ("ing", "ed") and bare[-1:] == bare[-2:-1] else bare
    return word.rstrip("e") if len(word) > 5 else word
