"""Tables of the SQLite archive, and the conversion between rows and entries."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any

from danshari.archive.base import Entry
from danshari.core.text import replace_surrogates

SCHEMA_VERSION = 4
"""`PRAGMA user_version` of the file.

2 ties entries to texts by number instead of by checksum. 3 keeps the proxy's notes in a table of their own.
4 indexes every word of a passage: what was indexed before is indexed anew at the next write or search.
"""
_FIELDS = tuple(f.name for f in fields(Entry) if f.name != "text")
COLUMNS = ", ".join(f"entry.{name}" for name in _FIELDS)
COLUMN_NAMES = ", ".join(_FIELDS)
_MAX_INTEGER = 2**62
_FLAGS = ("failed", "pinned")
SCHEMA = """
CREATE TABLE IF NOT EXISTS text(
  id INTEGER PRIMARY KEY, sum TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS entry(
  id INTEGER PRIMARY KEY, digest TEXT NOT NULL, name TEXT, label TEXT, kind TEXT, turn INTEGER, session TEXT NOT NULL,
  project TEXT, at REAL, phase TEXT, tier TEXT, path TEXT, start INTEGER, call TEXT, importance REAL, failed INTEGER,
  pinned INTEGER, text INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS entry_text ON entry(text);
CREATE UNIQUE INDEX IF NOT EXISTS entry_digest ON entry(digest, session);
CREATE INDEX IF NOT EXISTS entry_session ON entry(session, turn);
CREATE INDEX IF NOT EXISTS entry_path ON entry(path) WHERE path != '';
CREATE TABLE IF NOT EXISTS passage(id INTEGER PRIMARY KEY, entry INTEGER NOT NULL, start INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS passage_entry ON passage(entry);
CREATE VIRTUAL TABLE IF NOT EXISTS word USING fts5(body, head, scope, content='',
  tokenize="unicode61 remove_diacritics 0 tokenchars '_.-'");
CREATE VIRTUAL TABLE IF NOT EXISTS rarity USING fts5vocab(word, 'row');
CREATE TABLE IF NOT EXISTS session(id TEXT PRIMARY KEY, version INTEGER NOT NULL, at REAL, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS edit(session TEXT NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY(session, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note(session TEXT NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL, at REAL,
  body BLOB NOT NULL, PRIMARY KEY(session, kind)) WITHOUT ROWID
"""
_UPGRADES = {
    1: (
        "ALTER TABLE entry ADD COLUMN text INTEGER NOT NULL DEFAULT 0",
        "UPDATE entry SET text = (SELECT id FROM text WHERE text.sum = entry.sum)",
        "DROP INDEX entry_sum",
        "ALTER TABLE entry DROP COLUMN sum",
    ),
    2: (
        "CREATE TABLE IF NOT EXISTS note(session TEXT NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL, at REAL, "
        "body BLOB NOT NULL, PRIMARY KEY(session, kind)) WITHOUT ROWID",
        *(
            f"INSERT INTO note SELECT substr(id, 1, length(id) - {len(kind) + 1}), '{kind}', version, at, body "
            f"FROM session WHERE id LIKE 'proxy-%:{kind}'"
            for kind in ("recalls", "branches")
        ),
        "DELETE FROM session WHERE id LIKE 'proxy-%:recalls' OR id LIKE 'proxy-%:branches'",
    ),
    3: ("INSERT INTO word(word) VALUES ('delete-all')", "DELETE FROM passage"),
}


def upgrade_statements(made: int) -> list[str]:
    """Return the SQL statements that bring a file of format `made` (0: new) to the present format."""
    steps = [step for number in range(made, SCHEMA_VERSION) for step in _UPGRADES[number]] if made else []
    return [*steps, *filter(str.strip, SCHEMA.split(";")), f"PRAGMA user_version = {SCHEMA_VERSION}"]


def entry_to_row(entry: Entry, *, at: float) -> list[Any]:
    """Return an entry's values in the order of `COLUMNS`."""
    values = {name: getattr(entry, name) for name in _FIELDS}
    values["at"] = at
    return [_column_value(value) for value in values.values()]


def _column_value(value: Any) -> Any:
    """Return a value that SQLite can store: no lone surrogates, no integer beyond 63 bits."""
    if isinstance(value, str):
        return replace_surrogates(value)
    return min(max(int(value), -_MAX_INTEGER), _MAX_INTEGER) if isinstance(value, int) else value


def entry_from_row(row: Sequence[Any], text: str) -> Entry:
    """Return the entry of a row in the order of `COLUMNS`."""
    values = dict(zip(_FIELDS, row, strict=True))
    for flag in _FLAGS:
        values[flag] = bool(values[flag])
    return Entry(text=text, **values)


def checksum(body: bytes) -> str:
    """Return 32 hex digits for some bytes; equal texts are stored once, and damage is detected."""
    return blake2b(body, digest_size=16).hexdigest()


def compress_original(body: bytes) -> bytes:
    """Compress the bytes of an original."""
    return zlib.compress(body, 1)


def decompress_original(body: bytes) -> str:
    """Decompress an original to its text."""
    return zlib.decompress(body).decode("utf-8", "surrogatepass")


def decompress_state(body: bytes) -> str:
    """Return a stored state as text; of a damaged one "", which no state is."""
    try:
        return decompress_original(body)
    except (zlib.error, ValueError, TypeError):
        return ""
