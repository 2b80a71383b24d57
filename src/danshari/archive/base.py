"""The archive's plug, what it holds and gives back, and an archive that lives in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from danshari.core.model import Digest, Item
from danshari.errors import RecallError

if TYPE_CHECKING:
    from danshari.archive.sqlite import SqliteArchive


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One original with what a search may look at and what decides how long it stays."""

    digest: Digest
    text: str = field(repr=False)
    name: str = ""
    """Tool name."""
    label: str = ""
    """Arguments of the call it belongs to, shortened."""
    kind: str = "result"
    turn: int = 0
    session: str = ""
    project: str = ""
    at: float = 0.0
    """Seconds since the epoch at which it was archived."""
    phase: str = ""
    tier: str = ""
    path: str = ""
    """File that it shows or changes."""
    start: int = 0
    """First line of the file that it shows; 0: unknown."""
    call: str = ""
    """The provider's id of the call it belongs to."""
    importance: float = 0.0
    """Share of it that the policy keeps when it gets old, by its tier."""
    failed: bool = False
    pinned: bool = False

    @property
    def id(self) -> str:
        """The short id that placeholders show."""
        return self.digest[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """What a search found: some lines of an original."""

    entry: Entry
    start: int
    """First line, 1-based."""
    end: int
    """Last line."""
    score: float = 0.0
    """Higher is better; only comparable within one search."""
    newer: str = ""
    """Id of a later original of the same file; "" if this is the newest."""

    @property
    def text(self) -> str:
        """The lines, verbatim."""
        lines = self.entry.text.split("\n")
        return "\n".join(lines[self.start - 1 : self.end])


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a search is limited to; empty: no limit."""

    session: str = ""
    project: str = ""
    path: str = ""
    """Part of a file's path."""
    name: str = ""
    """Tool name."""
    tier: str = ""
    phase: str = ""
    failed: bool | None = None
    """Only what failed (ruled-out approaches), or only what did not."""

    def admits(self, entry: Entry) -> bool:
        """Say whether an entry passes."""
        same = ("session", "project", "name", "tier", "phase")
        return (
            all(not (wanted := getattr(self, f)) or wanted == getattr(entry, f) for f in same)
            and self.path in entry.path
            and self.failed in (None, entry.failed)
        )


NONE = Filters()


class Archive(Protocol):
    """Where originals go before their edit is committed."""

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries; durable on return. Storing one again changes nothing."""

    def get(self, digest: str) -> Entry:
        """Give the entry whose digest begins with `digest` (at least 6 digits); raises RecallError."""

    def search(self, query: str, *, limit: int = 5, filters: Filters = NONE) -> list[Passage]:
        """Find passages for a query, best first."""


@runtime_checkable
class Sessions(Protocol):
    """An archive that keeps sessions too."""

    def save_session(self, session: str, version: int, body: str, edits: Iterable[str], kept: int) -> bool:
        """Store a session's state and its edits after the first `kept`; False if it was stored elsewhere since."""

    def load_session(self, session: str) -> tuple[int, str, list[str]] | None:
        """Give a session's version, its state and its edits; None if there is none."""


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

    def get(self, digest: str) -> Entry:
        """Give the entry whose digest begins with `digest` (at least 6 digits); raises RecallError."""
        if digest in self._entries:
            return self._entries[digest]
        found = [e for key, e in self._entries.items() if len(digest) >= 6 and key.startswith(digest)]
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


def entry_from_dict(data: Mapping[str, Any]) -> Entry:
    """Read an entry back; raises TypeError for anything else."""
    return Entry(**data)


def not_found(digest: str, found: int, total: int) -> RecallError:
    """Say why an id gave nothing."""
    many = f"{found} entries begin so; give more digits" if found else "no entry begins so"
    return RecallError(f"nothing recalled for {digest!r}: {many} ({total:,} entries in the archive)")


def entry_of(item: Item, label: str) -> Entry:
    """Make the archive entry of an item; what is no text (images, sealed reasoning, server tools) is kept as JSON."""
    text = item.text if item.text or item.raw is None else json.dumps(item.raw, ensure_ascii=False, default=str)
    return Entry(
        digest=item.digest, text=text, name=item.name, label=label, kind=item.kind, turn=item.turn, call=item.call,
        failed=item.failed,
    )  # fmt: skip
