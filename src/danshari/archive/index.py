"""From originals to the words under which they are found: passages, their words, and the rows that hold them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from danshari.archive.base import Entry
from danshari.archive.schema import COLUMNS, checksum, entry_of_row, unpacked
from danshari.archive.words import head_words, words

PASSAGE = 40
"""Lines of one passage."""
_NEWER = "entry.id > (SELECT coalesce(max(entry), 0) FROM passage)"
"""Entries are indexed in the order of their numbers, whoever does it, so what is left is what comes after the last."""
Row = tuple[int, str, str, str]
"""First line, words of the passage, words of its head, words of its scope."""


def passages(text: str) -> Iterator[tuple[int, str]]:
    """Cut a text into passages of 40 lines, each with its 1-based first line; very long lines count as many."""
    lines = text.split("\n")
    for start in range(0, len(lines), PASSAGE):
        yield start + 1, "\n".join(lines[start : start + PASSAGE])


def scope_words(session: str, project: str) -> str:
    """Give the words that limit a search to a session or project."""
    return " ".join(f"{kind}{checksum(name.encode())[:10]}" for kind, name in (("s", session), ("p", project)) if name)


def passages_of(entry: Entry) -> list[Row]:
    """Give the index rows of an original."""
    scope = scope_words(entry.session, entry.project)
    head = " ".join(head_words(entry.name, entry.label, entry.path))
    return [(start, " ".join(words(text)), head, scope) for start, text in passages(entry.text)]


def unindexed(base: sqlite3.Connection, limit: int) -> list[tuple[int, Entry]]:
    """Give the oldest entries that are not in the index, with their numbers."""
    rows = base.execute(
        f"SELECT entry.id, {COLUMNS}, text.body FROM entry JOIN text ON text.id = entry.text WHERE {_NEWER} "
        "ORDER BY entry.id LIMIT ?",
        (limit,),
    )
    return [(row[0], entry_of_row(row[1:-1], unpacked(row[-1]))) for row in rows.fetchall()]


def count_unindexed(base: sqlite3.Connection) -> int:
    """Count the entries that are not in the index."""
    count: int = base.execute(f"SELECT count(*) FROM entry WHERE {_NEWER}").fetchone()[0]
    return count


def write_passages(base: sqlite3.Connection, made: Iterable[tuple[int, Sequence[Row]]]) -> None:
    """Write index rows, but for what another process indexed or removed meanwhile."""
    last = base.execute("SELECT coalesce(max(entry), 0) FROM passage").fetchone()[0]
    for number, rows in made:
        if number <= last or not base.execute("SELECT 1 FROM entry WHERE id = ?", (number,)).fetchone():
            continue
        for start, body, head, scope in rows:
            cursor = base.execute("INSERT INTO passage(entry, start) VALUES (?, ?)", (number, start))
            base.execute(
                "INSERT INTO word(rowid, body, head, scope) VALUES (?, ?, ?, ?)", (cursor.lastrowid, body, head, scope)
            )
