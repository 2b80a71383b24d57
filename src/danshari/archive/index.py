"""Turn originals into index rows (passages and their words), and write them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from danshari.archive.base import Entry
from danshari.archive.messages import MESSAGE_KIND
from danshari.archive.schema import COLUMNS, checksum, decompress_original, entry_from_row
from danshari.archive.words import head_words, index_words

PASSAGE_LINES = 40
"""Lines of one passage."""
_UNINDEXED = "entry.id > (SELECT coalesce(max(entry), 0) FROM passage)"
"""Entries are indexed in the order of their numbers, whoever does it, so what is left is what comes after the last."""
IndexRow = tuple[int, str, str, str]
"""First line, words of the passage, words of its head, words of its scope."""


def split_passages(text: str) -> Iterator[tuple[int, str]]:
    """Yield passages of 40 lines of a text, each with its 1-based first line."""
    lines = text.split("\n")
    for start in range(0, len(lines), PASSAGE_LINES):
        yield start + 1, "\n".join(lines[start : start + PASSAGE_LINES])


def scope_words(session: str, project: str) -> str:
    """Return the words that limit a search to a session or project."""
    return " ".join(f"{kind}{checksum(name.encode())[:10]}" for kind, name in (("s", session), ("p", project)) if name)


def index_rows(entry: Entry) -> list[IndexRow]:
    """Return the index rows of an original, one per passage."""
    scope = scope_words(entry.session, entry.project)
    if entry.kind == MESSAGE_KIND:
        return [(1, "", "", scope)]  # no word finds it, but its place in the order is taken
    head = " ".join(head_words(entry.name, entry.label, entry.path))
    return [(start, " ".join(index_words(text)), head, scope) for start, text in split_passages(entry.text)]


def load_unindexed(base: sqlite3.Connection, limit: int) -> list[tuple[int, Entry]]:
    """Return the oldest `limit` entries that are not indexed, with their row numbers."""
    rows = base.execute(
        f"SELECT entry.id, {COLUMNS}, text.body FROM entry JOIN text ON text.id = entry.text WHERE {_UNINDEXED} "
        "ORDER BY entry.id LIMIT ?",
        (limit,),
    )
    return [(row[0], entry_from_row(row[1:-1], decompress_original(row[-1]))) for row in rows.fetchall()]


def count_unindexed(base: sqlite3.Connection) -> int:
    """Return the number of entries that are not indexed."""
    count: int = base.execute(f"SELECT count(*) FROM entry WHERE {_UNINDEXED}").fetchone()[0]
    return count


def write_passages(base: sqlite3.Connection, made: Iterable[tuple[int, Sequence[IndexRow]]]) -> None:
    """Write index rows; skip entries that another process has indexed or removed in the meantime."""
    last = base.execute("SELECT coalesce(max(entry), 0) FROM passage").fetchone()[0]
    for number, rows in made:
        if number <= last or not base.execute("SELECT 1 FROM entry WHERE id = ?", (number,)).fetchone():
            continue
        for start, body, head, scope in rows:
            cursor = base.execute("INSERT INTO passage(entry, start) VALUES (?, ?)", (number, start))
            base.execute(
                "INSERT INTO word(rowid, body, head, scope) VALUES (?, ?, ?, ?)", (cursor.lastrowid, body, head, scope)
            )
