"""The archive on disk: one SQLite file with a write-ahead log, used by many processes at once.

Texts are compressed and stored once per digest; their metadata (session, turn, path ...) once per
session. The search index has one row per passage of 40 lines. A file that SQLite cannot read is
renamed when it is opened, never overwritten.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from danshari.archive.base import NO_FILTERS, Entry, Filters, Passage, not_found_error
from danshari.archive.forks import close_before_forks
from danshari.archive.index import (
    PASSAGE_LINES,
    count_unindexed,
    index_rows,
    load_unindexed,
    scope_words,
    write_passages,
)
from danshari.archive.schema import (
    COLUMN_NAMES,
    COLUMNS,
    SCHEMA_VERSION,
    checksum,
    compress_original,
    decompress_original,
    decompress_state,
    entry_from_row,
    entry_to_row,
    upgrade_statements,
)
from danshari.archive.search import WordRarity, search_passages
from danshari.core.text import replace_surrogates
from danshari.errors import ArchiveError, VersionError

_BATCH = 500
"""Entries that are written in one transaction."""
_log = logging.getLogger("danshari")
_T = TypeVar("_T")


class SqliteArchive:
    """Originals and sessions in one SQLite file; safe for threads and processes, readable by its owner only.

    `patience` is how many seconds to wait for another process that writes. With `defer`, `put` leaves
    indexing to `index` or to the next search.

    A commit survives the death of any process. After a power cut the newest commits may be missing, but
    never half written (SQLite's `synchronous = NORMAL`). Raises ArchiveError if the file cannot be
    created or written (folder read-only, disk full, locked by another program), VersionError if a newer
    danshari made it.
    """

    def __init__(
        self, path: str | Path, *, clock: Callable[[], float] = time.time, patience: float = 10.0, defer: bool = False
    ) -> None:
        self.path = Path(path) if str(path) != ":memory:" else None
        self._clock, self._patience, self._defer = clock, patience, defer
        self._lock = threading.RLock()
        self.notes: list[str] = []
        """What happened to the file: set aside because it could not be read."""
        self._rarity = WordRarity()
        self._base = self._open()
        self._released = False
        """Whether the connection was closed for a fork; the next use opens another."""
        close_before_forks(self)

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────

    def _open(self) -> sqlite3.Connection:
        """Open the file; rename it and start a new one if SQLite cannot read it."""
        for _ in range(2):
            inode = self._inode()
            try:
                return self._connect()
            except sqlite3.DatabaseError as error:
                if self.path is None or not is_damaged_file(error):
                    raise self._archive_error("opened", error) from None
                if inode == self._inode():  # else another process has set it aside already
                    self._set_aside(error)
            except OSError as error:
                raise self._archive_error("made", error) from None
        return self._connect()

    def _inode(self) -> int:
        return self.path.stat().st_ino if self.path is not None and self.path.exists() else 0

    def _connect(self) -> sqlite3.Connection:
        """Connect and set up the database; create the file, readable by its owner only, if it is missing."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
        name = str(self.path) if self.path is not None else ":memory:"
        base = sqlite3.connect(name, timeout=self._patience, isolation_level=None, check_same_thread=False)
        self._enable_wal(base)
        base.execute("PRAGMA synchronous = NORMAL")
        base.execute("PRAGMA cache_size = -32000")
        base.execute("PRAGMA mmap_size = 268435456")
        made = base.execute("PRAGMA user_version").fetchone()[0]
        if made > SCHEMA_VERSION:
            raise VersionError(
                f"{name}: made by a newer danshari (format {made}, this one reads {SCHEMA_VERSION}): upgrade it"
            )
        if made < SCHEMA_VERSION:
            self._create_tables(base)
        return base

    def _create_tables(self, base: sqlite3.Connection) -> None:
        """Create the tables, or upgrade them to this format; another process may have done so already."""
        base.execute("BEGIN IMMEDIATE")
        with base:
            made = base.execute("PRAGMA user_version").fetchone()[0]
            for statement in upgrade_statements(made):
                base.execute(statement)

    def _enable_wal(self, base: sqlite3.Connection) -> None:
        """Switch to the write-ahead log, retrying while another process holds the lock."""
        until = time.monotonic() + self._patience
        while True:
            try:
                base.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def _set_aside(self, error: Exception) -> None:
        """Rename the unreadable file and its log files to a free name, and add a note about it."""
        assert self.path is not None
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.unreadable-{number}")).exists():
            number += 1
        for suffix in ("-wal", "-shm"):
            beside = self.path.with_name(self.path.name + suffix)
            if beside.exists():
                beside.rename(aside.with_name(aside.name + suffix))
        self.path.rename(aside)
        self.notes.append(
            f"{self.path} could not be read ({error}); it was set aside as {aside.name}, a new one begins"
        )
        _log.warning(self.notes[-1])

    def _archive_error(self, what: str, error: Exception) -> ArchiveError:
        return ArchiveError(f"{self.path}: the archive cannot be {what}: {error}")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._released = False
            self._base.close()

    def release_for_fork(self) -> None:
        """Close the connection before a fork, waiting for running work; SQLite allows no connection to cross one."""
        self._lock.acquire()
        with contextlib.suppress(sqlite3.ProgrammingError):  # closed already
            if self.path is not None and not self._base.in_transaction:
                self._base.close()
                self._released = True

    def resume_after_fork(self, *, child: bool) -> None:
        """Allow use again; a child has a lock of its own."""
        if child:
            self._lock = threading.RLock()
        else:
            self._lock.release()

    def __enter__(self) -> SqliteArchive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run_work(self, what: str, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` under the lock; errors of SQLite become ArchiveError."""
        with self._lock:
            if self._released:
                self._base, self._released = self._open(), False
            try:
                return work(self._base)
            except (sqlite3.Error, zlib.error) as error:
                raise self._archive_error(what, error) from None

    def run_query(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run a caller's own query; the tables are those of `archive.schema`."""
        return self._run_work("read", work)

    def transaction(self, what: str, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` in one transaction: all of its statements take effect or none."""

        def inside(base: sqlite3.Connection) -> _T:
            with self._begin_transaction(base):
                return work(base)

        return self._run_work(what, inside)

    @contextlib.contextmanager
    def _begin_transaction(self, base: sqlite3.Connection) -> Iterator[None]:
        base.execute("BEGIN IMMEDIATE")
        with base:  # commits, or rolls back on whatever is raised
            yield

    # ── originals ────────────────────────────────────────────────────────────────────────────────────────────

    def __len__(self) -> int:
        count: int = self._run_work("read", lambda base: base.execute("SELECT count(*) FROM entry").fetchone()[0])
        return count

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries; durable on return. Storing one again changes nothing."""
        every = list(entries)
        for start in range(0, len(every), _BATCH):
            batch = every[start : start + _BATCH]
            self.transaction("written", lambda base, batch=batch: self._put(base, batch))  # type: ignore[misc]
        if every and not self._defer:
            self.index()

    def _put(self, base: sqlite3.Connection, entries: Iterable[Entry]) -> None:
        for entry in entries:
            row = entry_to_row(entry, at=entry.at or self._clock())
            known = "SELECT 1 FROM entry WHERE digest = ? AND session = ?"
            if base.execute(known, (entry.digest, replace_surrogates(entry.session))).fetchone():
                continue
            text = self._put_text(base, entry.text.encode("utf-8", "surrogatepass"))
            marks = ", ".join("?" * len(row))
            base.execute(f"INSERT INTO entry({COLUMN_NAMES}, text) VALUES ({marks}, ?)", (*row, text))

    def _put_text(self, base: sqlite3.Connection, body: bytes) -> int:
        """Store a text unless it is there already; return its row number."""
        sum_ = checksum(body)
        made = base.execute(
            "INSERT OR IGNORE INTO text(sum, size, body) VALUES (?, ?, ?)", (sum_, len(body), compress_original(body))
        )
        if made.rowcount:
            return made.lastrowid or 0
        number: int = base.execute("SELECT id FROM text WHERE sum = ?", (sum_,)).fetchone()[0]
        return number

    def index(self, limit: int = 0) -> int:
        """Make stored entries searchable, oldest first, at most `limit` (0: all); return how many are left.

        Words are made outside the transaction, so that no other process waits for them. Any process may do
        this for all.
        """
        done, room = 0, min(limit or _BATCH, _BATCH)
        while rows := self._run_work("read", lambda base: load_unindexed(base, room)):
            made = [(number, index_rows(entry)) for number, entry in rows]
            self.transaction("written", lambda base, made=made: write_passages(base, made))  # type: ignore[misc]
            done += len(rows)
            if limit and done >= limit:
                return self._run_work("read", count_unindexed)
        return 0

    def get(self, digest: str, *, within: Filters = NO_FILTERS) -> Entry:
        """Return the entry whose digest begins with `digest` (at least 6 digits).

        `within` limits the search to its session or project. Raises RecallError if none or several match.
        """
        return self._run_work("read", lambda base: self._get(base, digest, within))

    def _get(self, base: sqlite3.Connection, digest: str, within: Filters) -> Entry:
        """Return the entry of an exact digest, else the only one that begins with it; raises RecallError."""
        query = f"SELECT {COLUMNS}, text.body FROM entry JOIN text ON text.id = entry.text WHERE "
        values: list[str] = []
        if within.session or within.project:
            query += "((entry.session = ? AND entry.session != '') OR (entry.project = ? AND entry.project != '')) AND "
            values = [within.session, within.project]
        rows = base.execute(f"{query}entry.digest = ? ORDER BY entry.id DESC LIMIT 1", (*values, digest)).fetchall()
        if not rows and len(digest) >= 6:
            rows = base.execute(
                f"{query}entry.digest >= ? AND entry.digest < ? GROUP BY entry.digest LIMIT 3",
                (*values, digest, digest + "g"),
            ).fetchall()
        if len(rows) != 1:
            raise not_found_error(digest, len(rows), base.execute("SELECT count(*) FROM entry").fetchone()[0])
        return entry_from_row(rows[0][:-1], decompress_original(rows[0][-1]))

    def search(self, query: str, *, limit: int = 5, filters: Filters = NO_FILTERS) -> list[Passage]:
        """Return passages for a query, best first; entries not indexed yet are indexed first."""
        with contextlib.suppress(ArchiveError):  # a folder that is read-only is searched as far as it is indexed
            self.index()
        scope = scope_words(filters.session, filters.project)

        def work(base: sqlite3.Connection) -> list[Passage]:
            return search_passages(
                base, self._rarity, query, limit=limit, filters=filters, lines=PASSAGE_LINES, scope=scope
            )

        return self._run_work("searched", work)

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────

    def save_session(self, session: str, previous_version: int, body: str, edits: Iterable[str], kept: int) -> bool:
        """Store a session's state and the edits after the first `kept`.

        `previous_version` is the number of the state that this one follows, 0 for the first. Returns False if
        another process has stored one in the meantime. Edits stored from number `kept` on are replaced.
        """
        added = [(session, kept + n, edit) for n, edit in enumerate(edits)]

        def work(base: sqlite3.Connection) -> bool:
            row = base.execute("SELECT version FROM session WHERE id = ?", (session,)).fetchone()
            if (row[0] if row else 0) != previous_version:
                return False
            base.execute(
                "INSERT OR REPLACE INTO session(id, version, at, body) VALUES (?, ?, ?, ?)",
                (
                    session,
                    previous_version + 1,
                    self._clock(),
                    compress_original(body.encode("utf-8", "surrogatepass")),
                ),
            )
            base.execute("DELETE FROM edit WHERE session = ? AND number >= ?", (session, kept))
            base.executemany("INSERT INTO edit(session, number, body) VALUES (?, ?, ?)", added)
            return True

        return self.transaction("written", work)

    def session_version(self, session: str) -> int:
        """Return the number of the state stored last; 0 if there is none."""

        def work(base: sqlite3.Connection) -> int:
            row = base.execute("SELECT version FROM session WHERE id = ?", (session,)).fetchone()
            return row[0] if row else 0

        return self._run_work("read", work)

    def load_session(self, session: str) -> tuple[int, str, list[str]] | None:
        """Return a session's version, its state and its edits; None if there is none."""

        def work(base: sqlite3.Connection) -> tuple[int, str, list[str]] | None:
            row = base.execute("SELECT version, body FROM session WHERE id = ?", (session,)).fetchone()
            if row is None:
                return None
            edits = base.execute("SELECT body FROM edit WHERE session = ? ORDER BY number", (session,)).fetchall()
            return row[0], decompress_state(row[1]), [edit for (edit,) in edits]

        return self._run_work("read", work)

    def save_note(self, session: str, kind: str, version: int, body: str) -> bool:
        """Store a text beside a session; False if another process has stored a newer one since `version`."""
        packed = compress_original(body.encode("utf-8", "surrogatepass"))

        def work(base: sqlite3.Connection) -> bool:
            row = base.execute("SELECT version FROM note WHERE session = ? AND kind = ?", (session, kind)).fetchone()
            if (row[0] if row else 0) != version:
                return False
            base.execute(
                "INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?)",
                (session, kind, version + 1, self._clock(), packed),
            )
            return True

        return self.transaction("written", work)

    def load_note(self, session: str, kind: str) -> tuple[int, str]:
        """Return a note's version and its text; (0, "") if there is none."""

        def work(base: sqlite3.Connection) -> tuple[int, str]:
            query = "SELECT version, body FROM note WHERE session = ? AND kind = ?"
            row = base.execute(query, (session, kind)).fetchone()
            return (row[0], decompress_original(row[1])) if row else (0, "")

        return self._run_work("read", work)

    def sessions(self) -> list[dict[str, Any]]:
        """List the stored sessions, newest first: id, seconds since the epoch, edits, originals."""

        def work(base: sqlite3.Connection) -> list[dict[str, Any]]:
            rows = base.execute(
                "SELECT id, at, (SELECT count(*) FROM edit WHERE session = s.id), "
                "(SELECT count(*) FROM entry WHERE session = s.id) FROM session s ORDER BY at DESC"
            )
            return [dict(zip(("session", "at", "edits", "originals"), row, strict=True)) for row in rows]

        return self._run_work("read", work)


def is_damaged_file(error: sqlite3.Error) -> bool:
    """Return whether an error means that the file itself cannot be read."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
