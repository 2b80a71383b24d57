"""The archive's plug and an in-memory archive; originals are kept under the digest of their item."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from danshari.core.model import Digest, Item
from danshari.errors import RecallError


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One original with what a search may look at."""

    digest: Digest
    text: str
    name: str = ""
    """Tool name."""
    label: str = ""
    """Path or command of the call it belongs to."""
    kind: str = "result"
    turn: int = 0

    @property
    def id(self) -> str:
        """The short id that placeholders show."""
        return self.digest[:12]


class Archive(Protocol):
    """Where originals go before their edit is committed."""

    def put(self, entries: Iterable[Entry]) -> None:
        """Store entries; storing one again changes nothing."""

    def get(self, digest: str) -> Entry:
        """Give the entry whose digest begins with `digest`; raises RecallError if there is none."""

    def search(self, query: str, *, limit: int = 5) -> list[Entry]:
        """Find entries for a query, best first."""


class MemoryArchive:
    """Originals in a dict, searched word by word; gone with the process unless saved."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
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
        many = f"{len(found)} entries begin so; give more digits" if found else "no entry begins so"
        raise RecallError(f"nothing recalled for {digest!r}: {many} ({len(self._entries)} entries in the archive)")

    def search(self, query: str, *, limit: int = 5) -> list[Entry]:
        """Rank entries by how many query words they hold, the label counting double, the newest first."""
        words = [w for w in query.lower().split() if w]
        scored = []
        for place, entry in enumerate(self._entries.values()):
            text, label = entry.text.lower(), f"{entry.name} {entry.label}".lower()
            score = sum((w in text) + 2 * (w in label) for w in words)
            if score:
                scored.append((score, place, entry))
        scored.sort(key=lambda row: (-row[0], -row[1]))
        return [entry for _, _, entry in scored[:limit]]

    def to_dict(self) -> list[dict[str, Any]]:
        """Give all entries as plain JSON values."""
        return [asdict(entry) for entry in self._entries.values()]


def entry_of(item: Item, label: str) -> Entry:
    """Make the archive entry of an item; what is no text (images, sealed reasoning, server tools) is kept as JSON."""
    text = item.text if item.text or item.raw is None else json.dumps(item.raw, ensure_ascii=False, default=str)
    return Entry(digest=item.digest, text=text, name=item.name, label=label, kind=item.kind, turn=item.turn)
