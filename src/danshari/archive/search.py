"""Ranked search: the rarest words of a query select candidates; BM25 and query coverage order them.

A word that occurs in a large share of all passages says little and costs most, so it only helps to
order candidates that rarer words found.

The score is the sum of: BM25, scaled to 0 ... 1; 1.0 x the share of the query's weight that the
passage or its head (tool, call, path) contains; 0.6 x the share that the head contains; 1.5 if the
whole query, of more than 5 characters, occurs as it is; minus 0.15 x the days, one at most, that
the original is older than the newest candidate. A word's weight is log(1 + passages / passages that
contain it).
"""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import replace

from danshari.archive.base import Filters, Passage
from danshari.archive.schema import COLUMNS, decompress_original, entry_from_row
from danshari.archive.words import head_words, index_words

MAX_QUERY_WORDS = 40
"""Words of a query that are looked at."""
MAX_CANDIDATES = 3_000
"""Passages that may be weighed for one query."""
_SHORTLIST = 16
"""Best candidates that are read in full."""
_COVER, _HEAD, _EXACT, _RECENT = 1.0, 0.6, 1.5, 0.15
"""Weights beside BM25 (scaled to 0 … 1): share of the query's weight that a passage holds, the same in path and call,
the query standing there as it is, and age."""


class WordRarity:
    """How many passages contain a word; counts of common words are cached, because they take milliseconds."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._at = 0

    def __call__(self, base: sqlite3.Connection, asked: Sequence[str]) -> dict[str, int]:
        """Return the number of passages for each word; words that no passage contains are left out."""
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


def search_passages(
    base: sqlite3.Connection, rarity: WordRarity, query: str, *, limit: int, filters: Filters, lines: int, scope: str
) -> list[Passage]:
    """Return passages, best first.

    `lines` is the length of a passage; `scope` holds the words that limit the search to a session or
    project.
    """
    asked = index_words(query)[:MAX_QUERY_WORDS]
    counts = rarity(base, asked)
    total = base.execute("SELECT max(id) FROM passage").fetchone()[0] or 1
    weights = {word: math.log(1 + total / count) for word, count in counts.items()}
    if not weights:
        return []
    chosen = _rarest_words(counts, scoped=bool(scope))
    match = " OR ".join(f'"{word}"' for word in chosen)
    match = f"{{body head}} : ({match})" + "".join(f' AND scope : "{word}"' for word in scope.split())
    where, values = _conditions(filters)
    joined = " JOIN passage ON passage.id = word.rowid JOIN entry ON entry.id = passage.entry" if where else ""
    if not scope and len(chosen) == 1 and counts[chosen[0]] > MAX_CANDIDATES:  # everything holds it: the newest will do
        score, order = "0.0", "word.rowid DESC"
    else:
        score, order = "bm25(word, 1.0, 2.0, 0.0)", "score"
    rows = base.execute(
        f"SELECT word.rowid, {score} AS score FROM word{joined} WHERE word MATCH ?{where} ORDER BY {order} LIMIT ?",
        (match, *values, max(_SHORTLIST, 2 * limit)),
    ).fetchall()
    shortlist = [(found, passage) for number, found in rows if (passage := _load_passage(base, number, lines))]
    return _distinct_passages(base, _rank_passages(shortlist, weights, query), limit)


def _conditions(filters: Filters) -> tuple[str, list[object]]:
    """Return the SQL conditions and their values for the filters."""
    where, values = "", list[object]()
    for name in ("session", "project", "name", "tier", "phase"):
        if value := getattr(filters, name):
            where += f" AND entry.{name} = ?"
            values.append(value)
    if filters.path:
        where += " AND instr(entry.path, ?) > 0"
        values.append(filters.path)
    if filters.failed is not None:
        where += " AND entry.failed = ?"
        values.append(int(filters.failed))
    return where, values


def _rarest_words(counts: dict[str, int], *, scoped: bool) -> list[str]:
    """Return the rarest words while the passages that contain them stay within the number of candidates."""
    room = MAX_CANDIDATES * (20 if scoped else 1)
    found: list[str] = []
    for word in sorted(counts, key=lambda w: (counts[w], w)):
        if found and counts[word] > room:
            break
        found.append(word)
        room -= counts[word]
    return found


def _load_passage(base: sqlite3.Connection, number: int, lines: int) -> Passage | None:
    """Read a passage; return None if it is gone or its original is damaged."""
    row = base.execute(
        f"SELECT {COLUMNS}, text.body, passage.start FROM passage JOIN entry ON entry.id = passage.entry "
        "JOIN text ON text.id = entry.text WHERE passage.id = ?",
        (number,),
    ).fetchone()
    if row is None:
        return None
    try:
        text = decompress_original(row[-2])
    except zlib.error:
        return None
    entry, start = entry_from_row(row[:-2], text), row[-1]
    return Passage(entry=entry, start=start, end=min(start + lines - 1, text.count("\n") + 1))


def _rank_passages(
    shortlist: Sequence[tuple[float, Passage]], weights: dict[str, float], query: str
) -> list[tuple[float, Passage]]:
    """Return the passages with their scores, best first (the formula stands at the top of this module)."""
    if not shortlist:
        return []
    best = min(score for score, _ in shortlist) or -1.0
    everything = sum(weights.values())
    newest = max(passage.entry.at for _, passage in shortlist)
    exact = " ".join(query.lower().split())
    scored = []
    for score, passage in shortlist:
        entry, text = passage.entry, passage.text
        body, head = set(index_words(text)), set(head_words(entry.name, entry.label, entry.path))
        total = score / best
        total += _COVER * sum(w for word, w in weights.items() if word in body or word in head) / everything
        total += _HEAD * sum(w for word, w in weights.items() if word in head) / everything
        total += _EXACT * (len(exact) > 5 and exact in text.lower())
        total -= _RECENT * min((newest - entry.at) / 86_400, 1.0)
        scored.append((total, passage))
    return sorted(scored, key=lambda pair: (-pair[0], -pair[1].entry.turn, pair[1].entry.digest, pair[1].start))


def _distinct_passages(base: sqlite3.Connection, ordered: Sequence[tuple[float, Passage]], limit: int) -> list[Passage]:
    """Return the first `limit` distinct passages, each with the id of a newer original of its file."""
    found: list[Passage] = []
    seen: set[tuple[str, int]] = set()
    for score, passage in ordered:
        key = (passage.entry.digest, passage.start)
        if key not in seen:
            seen.add(key)
            found.append(replace(passage, score=round(score, 4), newer=_newer_id(base, passage)))
        if len(found) == limit:
            break
    return found


def _newer_id(base: sqlite3.Connection, passage: Passage) -> str:
    """Return the id of a later original of the same file in the same session, or an empty string."""
    entry = passage.entry
    if not entry.path:
        return ""
    row = base.execute(
        "SELECT digest FROM entry WHERE path = ? AND session = ? AND turn > ? AND digest != ? "
        "ORDER BY turn DESC LIMIT 1",
        (entry.path, entry.session, entry.turn, entry.digest),
    ).fetchone()
    return row[0][:12] if row else ""
