"""Maintenance of an archive: expiry, verification, statistics, export and import."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from danshari.archive.base import Entry, entry_from_dict
from danshari.archive.index import index_rows
from danshari.archive.schema import COLUMNS, checksum, decompress_original, entry_from_row
from danshari.archive.sqlite import SqliteArchive
from danshari.core.items import canonical_arguments
from danshari.errors import ArchiveError

EXPIRY_DAYS: Mapping[str, float] = {"transient": 14, "process": 60, "evidence": 180, "conclusion": 730}
"""Days after which originals of a tier may go; a default, for `danshari archive expire`."""
EXPIRY_ROUNDS: Mapping[str, int] = {}
"""Rounds after which originals of a tier may go, counted to the session's newest original; none by default."""
EXPORT_FORMAT = 1
"""Format number of an export."""
_DAY = 86_400.0
_JOIN_TEXT = "JOIN text ON text.id = entry.text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """How many originals an expiry removed, or would remove, and the bytes of their texts."""

    entries: int
    size: int


def expire(
    archive: SqliteArchive,
    *,
    now: float,
    days: Mapping[str, float] = EXPIRY_DAYS,
    rounds: Mapping[str, int] = EXPIRY_ROUNDS,
    most: int = 0,
    spare: Iterable[str] = (),
    dry_run: bool = False,
) -> ExpiryResult:
    """Remove originals past their tier's days or rounds, then the oldest until `most` bytes of text remain.

    `now` is in seconds since the epoch; `most` = 0 means no limit. Pinned originals and the sessions in
    `spare` stay, and an unknown tier counts as process.
    """
    kept = [*spare]

    def work(base: sqlite3.Connection) -> ExpiryResult:
        due = _find_expired(base, now, days, rounds, kept)
        freed = _count_freed_bytes(base, due)
        if most:
            freed = _add_oldest(base, due, freed, most, kept)
        if not dry_run:
            _remove_entries(base, due)
            _remove_old_sessions(base, now - days.get("conclusion", EXPIRY_DAYS["conclusion"]) * _DAY, kept)
        return ExpiryResult(entries=len(due), size=freed)

    return archive.transaction("written", work)


def _removable_condition(kept: Sequence[str]) -> str:
    """Return the SQL condition for entries that may be removed: not pinned, not of a spared session."""
    return f"NOT pinned AND session NOT IN ({', '.join('?' * len(kept))})"


def _find_expired(
    base: sqlite3.Connection, now: float, days: Mapping[str, float], rounds: Mapping[str, int], kept: Sequence[str]
) -> dict[int, int]:
    """Return the entries past their tier's days or rounds, each with the bytes of its text."""
    due: dict[int, int] = {}
    removable = f"SELECT entry.id, size FROM entry {_JOIN_TEXT} WHERE {_removable_condition(kept)}"
    for tier, limit in days.items():
        names = (tier, "") if tier == "process" else (tier, tier)
        due.update(
            base.execute(
                f"{removable} AND tier IN (?, ?) AND at < ?",
                (*kept, *names, now - limit * _DAY),
            )
        )
    for tier, count in rounds.items():
        due.update(
            base.execute(
                f"{removable} AND tier = ? AND turn + ? < "
                "(SELECT max(turn) FROM entry e WHERE e.session = entry.session)",
                (*kept, tier, count),
            )
        )
    return due


def _add_oldest(base: sqlite3.Connection, due: dict[int, int], freed: int, most: int, kept: Sequence[str]) -> int:
    """Add the oldest entries to `due` until at most `most` bytes of text would remain.

    Returns the bytes freed in all.
    """
    total = base.execute("SELECT coalesce(sum(size), 0) FROM text").fetchone()[0]
    oldest = base.execute(
        f"SELECT entry.id, size FROM entry {_JOIN_TEXT} WHERE {_removable_condition(kept)} ORDER BY at, entry.id",
        kept,
    ).fetchall()
    for number, size in oldest:
        if total - freed <= most:
            break
        if number not in due:
            due[number] = size
            freed = _count_freed_bytes(base, due) if len(due) < 200 or not len(due) % 100 else freed + size
    return _count_freed_bytes(base, due)


def _remove_old_sessions(base: sqlite3.Connection, before: float, kept: Sequence[str]) -> None:
    """Remove the state of sessions that were last used before `before` and have no originals left."""
    base.execute(
        f"DELETE FROM session WHERE at < ? AND id NOT IN ({', '.join('?' * len(kept))}) "
        "AND NOT EXISTS (SELECT 1 FROM entry WHERE session = session.id)",
        (before, *kept),
    )
    base.execute("DELETE FROM edit WHERE session NOT IN (SELECT id FROM session)")
    base.execute("DELETE FROM note WHERE at < ? AND session NOT IN (SELECT id FROM session)", (before,))


def _count_freed_bytes(base: sqlite3.Connection, due: Mapping[int, int]) -> int:
    """Return the bytes of the texts that only entries in `due` use."""
    held: dict[int, tuple[int, int]] = {}
    for number, size in due.items():
        text = base.execute("SELECT text FROM entry WHERE id = ?", (number,)).fetchone()[0]
        held[text] = (held.get(text, (0, 0))[0] + 1, size)
    counted = (
        (base.execute("SELECT count(*) FROM entry WHERE text = ?", (k,)).fetchone()[0], n, z)
        for k, (n, z) in held.items()
    )
    return sum(size for all_, mine, size in counted if all_ == mine)


def _remove_entries(base: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Delete entries with their passages and index words, and the texts that no other entry uses."""
    for number in numbers:
        row = base.execute(
            f"SELECT {COLUMNS}, text.id, body FROM entry {_JOIN_TEXT} WHERE entry.id = ?",
            (number,),
        ).fetchone()
        entry, original = entry_from_row(row[:-2], decompress_original(row[-1])), row[-2]
        rows = {start: rest for start, *rest in index_rows(entry)}
        for passage, start in base.execute("SELECT id, start FROM passage WHERE entry = ?", (number,)).fetchall():
            base.execute(
                "INSERT INTO word(word, rowid, body, head, scope) VALUES ('delete', ?, ?, ?, ?)",
                (passage, *rows[start]),
            )
        base.execute("DELETE FROM passage WHERE entry = ?", (number,))
        base.execute("DELETE FROM entry WHERE id = ?", (number,))
        base.execute(
            "DELETE FROM text WHERE id = ? AND NOT EXISTS (SELECT 1 FROM entry WHERE text = text.id)", (original,)
        )


def verify_archive(archive: SqliteArchive) -> list[str]:
    """Read everything back and return a list of what is wrong; empty if all is well. Nothing is changed."""

    def work(base: sqlite3.Connection) -> list[str]:
        """Run the checks on an open connection and return what is wrong."""
        found = [f"file: {row[0]}" for row in base.execute("PRAGMA integrity_check(20)") if row[0] != "ok"]
        for number, body, size, sum_ in base.execute("SELECT id, body, size, sum FROM text"):
            try:
                text = zlib.decompress(body)
            except zlib.error as error:
                found.append(f"original {number}: cannot be unpacked ({error})")
                continue
            if len(text) != size or checksum(text) != sum_:
                found.append(f"original {number}: its bytes changed")
        for what, query in _LINK_CHECKS.items():
            count = base.execute(query).fetchone()[0]
            if count:
                found.append(f"{count} {what}")
        return found

    try:
        return archive.run_query(work)
    except ArchiveError as error:
        return [str(error)]


_LINK_CHECKS = {
    "entries have no original": "SELECT count(*) FROM entry WHERE text NOT IN (SELECT id FROM text)",
    "originals belong to no entry": "SELECT count(*) FROM text WHERE id NOT IN (SELECT text FROM entry)",
    "passages belong to no entry": "SELECT count(*) FROM passage WHERE entry NOT IN (SELECT id FROM entry)",
    "entries are not in the index": "SELECT count(*) FROM entry WHERE id NOT IN (SELECT entry FROM passage) "
    "AND id < (SELECT max(entry) FROM passage)",
    "edits belong to no session": "SELECT count(*) FROM edit WHERE session NOT IN (SELECT id FROM session)",
}


def archive_statistics(archive: SqliteArchive) -> dict[str, Any]:
    """Return counts and sizes in bytes.

    They cover originals, sessions, texts and the file, with counts by tier, tool and project.
    """

    def work(base: sqlite3.Connection) -> dict[str, Any]:
        """Collect the figures on an open connection."""

        def one(query: str) -> Any:
            return base.execute(query).fetchone()[0]

        return {
            "originals": one("SELECT count(*) FROM entry"),
            "texts": one("SELECT count(*) FROM text"),
            "sessions": one("SELECT count(DISTINCT session) FROM entry"),
            "text_bytes": one("SELECT coalesce(sum(size), 0) FROM text"),
            "packed_bytes": one("SELECT coalesce(sum(length(body)), 0) FROM text"),
            "file_bytes": one("PRAGMA page_count") * one("PRAGMA page_size"),
            **{
                f"by_{column}": dict(
                    base.execute(f"SELECT {column}, count(*) FROM entry GROUP BY 1 ORDER BY 2 DESC LIMIT 20")
                )
                for column in ("tier", "name", "project")
            },
        }

    return archive.run_query(work)


def last_turn(archive: SqliteArchive, session: str) -> int:
    """Return the highest turn of a session's originals; 0 if there are none."""
    return archive.run_query(
        lambda base: base.execute("SELECT max(turn) FROM entry WHERE session = ?", (session,)).fetchone()[0] or 0
    )


def export_archive(archive: SqliteArchive, *, session: str = "") -> Iterator[str]:
    """Yield the archive, or one session's part, as JSON lines: a head line, then one line per original."""
    yield json.dumps({"danshari_archive": EXPORT_FORMAT})
    last = 0
    while True:
        rows = archive.run_query(
            lambda base, last=last: base.execute(  # type: ignore[misc]
                f"SELECT entry.id, {COLUMNS}, body FROM entry {_JOIN_TEXT} "
                "WHERE entry.id > ? AND (? = '' OR session = ?) ORDER BY entry.id LIMIT 200",
                (last, session, session),
            ).fetchall()
        )
        if not rows:
            return
        for row in rows:
            yield json.dumps(asdict(entry_from_row(row[1:-1], decompress_original(row[-1]))), ensure_ascii=True)
        last = rows[-1][0]


def _refuse_other_text(archive: SqliteArchive, entry: Entry) -> None:
    """Raise ValueError if the archive holds other originals, and not this one, under the entry's digest."""
    held = archive.run_query(
        lambda base: base.execute(f"SELECT body FROM entry {_JOIN_TEXT} WHERE digest = ?", (entry.digest,)).fetchall()
    )
    texts = [canonical_arguments(decompress_original(body)) for (body,) in held]
    if texts and canonical_arguments(entry.text) not in texts:  # calls may differ in spelling
        raise ValueError(f"the archive holds another text as original {entry.id}")


def import_archive(archive: SqliteArchive, lines: Iterable[str]) -> int:
    """Import an export; return the number of originals read.

    Raises ArchiveError at the first line that is not part of an export, or that gives another text to the id of an
    original held already: an import never changes what an id recalls.
    """
    batch: list[Entry] = []
    count = 0
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            if number == 1:
                if value.get("danshari_archive") != EXPORT_FORMAT:
                    raise ValueError(f"format {value.get('danshari_archive')!r}, this danshari reads {EXPORT_FORMAT}")
                continue
            entry = entry_from_dict(value)
            _refuse_other_text(archive, entry)
            batch.append(entry)
        except (ValueError, TypeError, AttributeError) as error:
            raise ArchiveError(
                f"line {number} is no line of an export: {error} ({count} originals were read)"
            ) from None
        count += 1
        if len(batch) == 500:
            archive.put(batch)
            batch = []
    archive.put(batch)
    return count
