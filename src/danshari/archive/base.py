"""The archive's plug, what it holds and what it gives back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from danshari.core.items import Digest, Item
from danshari.errors import RecallError


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

    def holds(self, entry: Entry) -> bool:
        """Say whether an entry is of this session or of this project; without either, every one is."""
        if not self.session and not self.project:
            return True
        return entry.session == self.session or bool(self.project and entry.project == self.project)


NONE = Filters()


class Archive(Protocol):
    """Where originals go before their edit is committed."""

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries; durable on return. Storing one again changes nothing."""

    def get(self, digest: str, *, within: Filters = NONE) -> Entry:
        """Give the entry whose digest begins with `digest` (at least 6 digits), of the session or the project `within`.

        Raises RecallError.
        """

    def search(self, query: str, *, limit: int = 5, filters: Filters = NONE) -> list[Passage]:
        """Find passages for a query, best first."""


@runtime_checkable
class Sessions(Protocol):
    """An archive that keeps sessions too."""

    def save_session(self, session: str, version: int, body: str, edits: Iterable[str], kept: int) -> bool:
        """Store a session's state and its edits after the first `kept`; False if it was stored elsewhere since."""

    def session_version(self, session: str) -> int:
        """Give the number of the state stored last; 0 if there is none."""

    def load_session(self, session: str) -> tuple[int, str, list[str]] | None:
        """Give a session's version, its state and its edits; None if there is none."""


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
