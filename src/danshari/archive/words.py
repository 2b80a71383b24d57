"""Split texts into the words of the search index.

They are identifiers whole and in parts, path segments, numbers and CJK bigrams. SQLite's trigram
tokenizer misses two-character words, and its word tokenizer does not split `snake_case` or
`camelCase`. So the words are made here, for texts and queries alike.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

from danshari.core.text import lazy_pattern

_WORD = lazy_pattern(r"\w+(?:[.-]\w+)*")
_SCRIPT_RUN = lazy_pattern(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+|[^\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_NAME_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_JOINT = lazy_pattern(r"[.-]")
_LONGEST_WORD = 64
"""Characters of a word beyond which it is data, not a word (base64, minified code)."""


def index_words(text: str) -> list[str]:
    """Return the distinct index words of a text in order of first occurrence."""
    distinct = dict.fromkeys(_WORD.findall(text))
    return list(dict.fromkeys(chain.from_iterable(map(index_forms, distinct))))


def head_words(name: str, label: str, path: str) -> list[str]:
    """Return the index words of an original's tool, call and path, which are indexed separately."""
    return index_words(f"{name} {label} {path}")


@lru_cache(maxsize=65_536)
def index_forms(word: str) -> tuple[str, ...]:
    """Return a word's entries in the index.

    They are the word itself, its dotted parts, the stems of the parts of joined names, or CJK bigrams.
    """
    if len(word) > _LONGEST_WORD:
        return ()
    if not word.isascii():
        runs = _SCRIPT_RUN.findall(word)
        if len(runs) > 1:  # Chinese beside an identifier
            return tuple(dict.fromkeys(form for run in runs for form in index_forms(run)))
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
    made += [stem(piece) for piece in map(str.lower, _NAME_PART.findall(word)) if len(piece) > 2]
    return tuple(dict.fromkeys(made))


def stem(word: str) -> str:
    """Remove a common English ending.

    Words under 5 characters, and any with other than ASCII letters, stay.
    """
    if len(word) < 5 or not word.isalpha() or not word.isascii():
        return word
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            bare = word[: -len(ending)].rstrip("e") + ("y" if ending == "ies" else "")
            return bare[:-1] if ending in ("ing", "ed") and bare[-1:] == bare[-2:-1] else bare
    return word.rstrip("e") if len(word) > 5 else word
