"""An archive in memory, searched like the one on disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from danshari.archive.base import NO_FILTERS, Entry, Filters, Passage, not_found_error

if TYPE_CHECKING:
    from danshari.archive.sqlite import SqliteArchive


class MemoryArchive:
    """Originals in a dict, lost with the process unless saved; indexed at the first search."""

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

    def get(self, digest: str, *, within: Filters = NO_FILTERS) -> Entry:
        """Return the entry whose digest begins with `digest` (at least 6 digits); raises RecallError."""
        if digest in self._entries and within.scope_includes(self._entries[digest]):
            return self._entries[digest]
        able = [e for e in self._entries.values() if within.scope_includes(e)]
        found = [e for e in able if len(digest) >= 6 and e.digest.startswith(digest)]
        if len(found) == 1:
            return found[0]
        raise not_found_error(digest, len(found), len(self._entries))

    def search(self, query: str, *, limit: int = 5, filters: Filters = NO_FILTERS) -> list[Passage]:
        """Return passages for a query, best first, by the same ranking as the SQLite archive."""
        fresh = list(self._entries.values())[self._indexed :]
        self._index.put(fresh)
        self._indexed += len(fresh)
        return self._index.search(query, limit=limit, filters=filters)

    @cached_property
    def _index(self) -> SqliteArchive:
        from danshari.archive.sqlite import SqliteArchive  # SQLite is loaded when something is searched

        return SqliteArchive(":memory:")

    def to_dict(self) -> list[dict[str, Any]]:
        """Return all entries as plain JSON values."""
        return [asdict(entry) for entry in self._entries.values()]
