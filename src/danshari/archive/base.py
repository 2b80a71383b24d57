"""The archive's protocol, its entries, and search filters and results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from danshari.core.items import Digest, Item
from danshari.errors import RecallError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One original, with the metadata that a search filters by and an expiry decides by."""

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
        """The short id (12 digits) that placeholders show."""
        return self.digest[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """One search result: some lines of an original."""

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

    def scope_includes(self, entry: Entry) -> bool:
        """Return whether an entry belongs to this session or this project; without either, every entry does.

        The other filters are not checked.
        """
        if not self.session and not self.project:
            return True
        return bool(
            (self.session and entry.session == self.session) or (self.project and entry.project == self.project)
        )


NO_FILTERS = Filters()


class Archive(Protocol):
    """A store of originals; an original is stored before its edit is committed."""

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries; durable on return. Storing one again changes nothing."""

    def get(self, digest: str, *, within: Filters = NO_FILTERS) -> Entry:
        """Return the entry whose digest begins with `digest` (at least 6 digits).

        `within` limits the search to its session or project. Raises RecallError if none or several match.
        """

    def search(self, query: str, *, limit: int = 5, filters: Filters = NO_FILTERS) -> list[Passage]:
        """Find passages for a query, best first."""


@runtime_checkable
class SessionStore(Protocol):
    """An archive that also stores session states."""

    def save_session(self, session: str, previous_version: int, body: str, edits: Iterable[str], kept: int) -> bool:
        """Store a session's state and its edits after the first `kept`.

        Returns False if another process has stored a newer version since `version`.
        """

    def session_version(self, session: str) -> int:
        """Return the number of the state stored last; 0 if there is none."""

    def load_session(self, session: str) -> tuple[int, str, list[str]] | None:
        """Return a session's version, its state and its edits; None if there is none."""


@runtime_checkable
class NoteStore(Protocol):
    """An archive that also stores notes of other programs, such as the proxy, beside a session."""

    def save_note(self, session: str, kind: str, version: int, body: str) -> bool:
        """Store a text beside a session; False if another process has stored a newer one since `version`."""

    def load_note(self, session: str, kind: str) -> tuple[int, str]:
        """Return a note's version and its text; (0, "") if there is none."""


def entry_from_dict(data: Mapping[str, Any]) -> Entry:
    """Read an entry back; raises TypeError for anything else."""
    return Entry(**data)


def not_found_error(digest: str, found: int, total: int) -> RecallError:
    """Return the error for an id that matches none or several of the `total` entries."""
    many = f"{found} entries begin so; give more digits" if found else "no entry begins so"
    return RecallError(f"nothing recalled for {digest!r}: {many} ({total:,} entries in the archive)")


def make_entry(item: Item, label: str) -> Entry:
    """Return the archive entry of an item; non-text content (images, encrypted reasoning) is stored as JSON."""
    text = item.text if item.text or item.raw is None else json.dumps(item.raw, ensure_ascii=False, default=str)
    return Entry(
        digest=item.digest, text=text, name=item.name, label=label, kind=item.kind, turn=item.turn, call=item.call,
        failed=item.failed,
    )  # fmt: skip
