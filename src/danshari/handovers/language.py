"""Detect the language the user writes in, among those that have phrases."""

from __future__ import annotations

import re
from collections.abc import Iterable

from danshari.analysis.facts import Facts
from danshari.analysis.markers import Markers
from danshari.core.handover_markdown import Phrases
from danshari.core.text import lazy_pattern
from danshari.handovers.user_words import spoken_text

_WORD = lazy_pattern(r"[^\W\d_]+")
_CODE = lazy_pattern(
    r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|(?:(?<![^\s/\\_])[^\s/\\_]*+|[^\s/\\_]{0,200})[/\\_]\S*", re.DOTALL
)
_SAMPLE_CHARACTERS = 6_000
"""Characters of the user's words that decide."""


def detect_language(texts: Iterable[str], languages: Iterable[Phrases], *, default: str = "en") -> str:
    """Return the language code of the texts, or `default`.

    The script decides where it can, else the frequent small words.
    """
    text = _CODE.sub(" ", "\n".join(texts)[: 2 * _SAMPLE_CHARACTERS])[:_SAMPLE_CHARACTERS]
    rows = list(languages)
    letters = sum(c.isalpha() for c in text)
    if not letters:
        return default
    for row in sorted(rows, key=lambda r: r.language in ("zh",)):  # kana before the characters Japanese shares
        if row.script and len(re.findall(row.script, text)) > (0.05 if row.language == "ja" else 0.15) * letters:
            return row.language
    words = [w.lower() for w in _WORD.findall(text)]
    scores = {r.language: sum(w in r.common for w in words) for r in rows if r.common}
    best = max(scores, key=lambda code: (scores[code], code == default), default=default)
    return best if scores.get(best, 0) > max(scores.get(default, 0), 0.08 * len(words)) else default


def conversation_language(facts: Facts, markers: Markers, languages: Iterable[Phrases]) -> str:
    """Return the language code of a conversation's user."""
    texts = [spoken_text(facts.items[at], markers) for at in facts.users]
    return detect_language([t[:2000] for t in texts[-8:] + texts[:1]], languages)
