"""An archive that lives in memory; searched as the one on disk is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from danshari.archive.base import NONE, Entry, Filters, Passage, not_found

if TYPE_CHECKING:
    from danshari.archive.sqlite import SqliteArchive


class MemoryArchive:
    """Originals in a dict, gone with the process unless saved; an index is made when something is searched."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        self._indexed = 0
        self.put(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries; storing one again changes nothing."""
        for entry in entries:
            self._entries.setdefault(entry.digest, entry)

    def get(self, digest: str, *, within: Filters = NONE) -> Entry:
        """Give the entry whose digest begins with `digest` (at least 6 digits); raises RecallError."""
        if digest in self._entries and within.holds(self._entries[digest]):
            return self._entries[digest]
        able = [e for e in self._entries.values() if within.holds(e)]
        found = [e for e in able if len(digest) >= 6 and e.digest.startswith(digest)]
        if len(found) == 1:
            return found[0]
        raise not_found(digest, len(found), len(self._entries))

    def search(self, query: str, *, limit: int = 5, filters: Filters = NONE) -> list[Passage]:
        """Find passages for a query, best first; as the SQLite archive does."""
        fresh = list(self._entries.values())[self._indexed :]
        self._index.put(fresh)
        self._indexed += len(fresh)
        return self._index.search(query, limit=limit, filters=filters)

    @cached_property
    def _index(self) -> SqliteArchive:
        from danshari.archive.sqlite import SqliteArchive  # SQLite is loaded when something is searched

        return SqliteArchive(":memory:")

    def to_dict(self) -> list[dict[str, Any]]:
        """Give all entries as plain JSON values."""
        return [asdict(entry) for entry in self._entries.values()]
