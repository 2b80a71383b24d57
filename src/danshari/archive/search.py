"""Ranked search: the rarest words of a query pick candidates, BM25 and what the query covers order them.

A word that stands in a large share of a million passages tells nothing and costs most, so it only orders what rarer
words found.
"""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import replace

from danshari.archive.base import Filters, Passage
from danshari.archive.schema import COLUMNS, entry_of_row
from danshari.archive.tokens import words

MOST_WORDS = 40
"""Words of a query that are looked at."""
CANDIDATES = 3_000
"""Passages that may be weighed for one query."""
_SHORTLIST = 16
"""Best candidates that are read in full."""
_COVER, _HEAD, _EXACT, _RECENT = 1.0, 0.6, 1.5, 0.15
"""Weights beside BM25 (scaled to 0 … 1): share of the query's weight that a passage holds, the same in path and call,
the query standing there as it is, and age."""


class Rarity:
    """How many passages hold a word; remembered, for counting a common one takes milliseconds."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._at = 0

    def __call__(self, base: sqlite3.Connection, asked: Sequence[str]) -> dict[str, int]:
        """Count every word's passages; what no passage holds is left out."""
        total = base.execute("SELECT max(id) FROM passage").fetchone()[0] or 0
        if total > 1.2 * self._at + 100:
            self._known.clear()
            self._at = total
        found = {}
        for word in asked:
            count = self._known.get(word, 0)
            if not count:
                row = base.execute("SELECT doc FROM rarity WHERE term = ?", (word,)).fetchone()
                count = row[0] if row else 0
            if count > 1_000:
                self._known[word] = count
            if count:
                found[word] = count
        return found


def find(
    base: sqlite3.Connection, rarity: Rarity, query: str, *, limit: int, filters: Filters, lines: int, scope: str
) -> list[Passage]:
    """Find passages, best first; `scope` are the words that limit the search to a session or project."""
    asked = words(query)[:MOST_WORDS]
    counts = rarity(base, asked)
    total = base.execute("SELECT max(id) FROM passage").fetchone()[0] or 1
    weights = {word: math.log(1 + total / count) for word, count in counts.items()}
    if not weights:
        return []
    chosen = _rarest(counts, scoped=bool(scope))
    match = " OR ".join(f'"{word}"' for word in chosen)
    match = f"{{body head}} : ({match})" + "".join(f' AND scope : "{word}"' for word in scope.split())
    if not scope and len(chosen) == 1 and counts[chosen[0]] > CANDIDATES:  # everything holds it: the newest will do
        sql = "SELECT rowid, 0.0 FROM word WHERE word MATCH ? ORDER BY rowid DESC LIMIT ?"
    else:
        sql = "SELECT rowid, bm25(word, 1.0, 2.0, 0.0) AS score FROM word WHERE word MATCH ? ORDER BY score LIMIT ?"
    rows = base.execute(sql, (match, _SHORTLIST * (4 if filters != Filters() else 1))).fetchall()
    shortlist = [
        (score, passage) for number, score in rows if filters.admits((passage := _passage(base, number, lines)).entry)
    ]
    return _distinct(base, _ordered(shortlist[:_SHORTLIST], weights, query), limit)


def _rarest(counts: dict[str, int], *, scoped: bool) -> list[str]:
    """Take words, the rarest first, while not too many passages hold them."""
    room = CANDIDATES * (20 if scoped else 1)
    found: list[str] = []
    for word in sorted(counts, key=lambda w: (counts[w], w)):
        if found and counts[word] > room:
            break
        found.append(word)
        room -= counts[word]
    return found


def _passage(base: sqlite3.Connection, number: int, lines: int) -> Passage:
    row = base.execute(
        f"SELECT {COLUMNS}, text.body, passage.start FROM passage JOIN entry ON entry.id = passage.entry "
        "JOIN text ON text.digest = entry.digest WHERE passage.id = ?",
        (number,),
    ).fetchone()
    text = zlib.decompress(row[-2]).decode("utf-8", "surrogatepass")
    entry, start = entry_of_row(row[:-2], text), row[-1]
    return Passage(entry=entry, start=start, end=min(start + lines - 1, text.count("\n") + 1))


def _ordered(
    shortlist: Sequence[tuple[float, Passage]], weights: dict[str, float], query: str
) -> list[tuple[float, Passage]]:
    """Order by BM25, what of the query a passage and its call hold, whether it stands there as it is, and age."""
    if not shortlist:
        return []
    best = min(score for score, _ in shortlist) or -1.0
    everything = sum(weights.values())
    newest = max(passage.entry.at for _, passage in shortlist)
    exact = " ".join(query.lower().split())
    scored = []
    for score, passage in shortlist:
        entry, text = passage.entry, passage.text
        body, head = set(words(text)), set(words(f"{entry.name} {entry.label} {entry.path}"))
        total = score / best
        total += _COVER * sum(w for word, w in weights.items() if word in body or word in head) / everything
        total += _HEAD * sum(w for word, w in weights.items() if word in head) / everything
        total += _EXACT * (len(exact) > 5 and exact in text.lower())
        total -= _RECENT * min((newest - entry.at) / 86_400, 1.0)
        scored.append((total, passage))
    return sorted(scored, key=lambda pair: (-pair[0], -pair[1].entry.turn, pair[1].entry.digest, pair[1].start))


def _distinct(base: sqlite3.Connection, ordered: Sequence[tuple[float, Passage]], limit: int) -> list[Passage]:
    found: list[Passage] = []
    seen: set[tuple[str, int]] = set()
    for score, passage in ordered:
        key = (passage.entry.digest, passage.start)
        if key not in seen:
            seen.add(key)
            found.append(replace(passage, score=round(score, 4), newer=_newer(base, passage)))
        if len(found) == limit:
            break
    return found


def _newer(base: sqlite3.Connection, passage: Passage) -> str:
    """Give the id of a later original of the same file in the same session."""
    entry = passage.entry
    if not entry.path:
        return ""
    row = base.execute(
        "SELECT digest FROM entry WHERE path = ? AND session = ? AND turn > ? AND digest != ? "
        "ORDER BY turn DESC LIMIT 1",
        (entry.path, entry.session, entry.turn, entry.digest),
    ).fetchone()
    return row[0][:12] if row else ""
