"""Store where the branches of a session diverge, so that a later process can match requests to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from danshari.archive.base import Archive, SessionStore
from danshari.core.items import hash_strings
from danshari.errors import ArchiveError
from danshari.formats import Format


def message_digest(wire: Format, message: Any) -> str:
    """Return a digest of a message's content, independent of JSON spelling and cache marks."""
    return hash_strings(*(f"{piece.kind}:{piece.text or piece.body}" for piece in wire.split(message)))


def main_branch_name(root: str) -> str:
    """Return the name of a session's first branch."""
    return f"proxy-{root}"


class BranchStore:
    """The stored forks of one session.

    Each is a name, the index of the first message of its own, and that message's digest.
    """

    def __init__(self, root: str, wire: Format, archive: Archive | None) -> None:
        self._store = archive if isinstance(archive, SessionStore) else None
        self._root, self._wire, self._name = root, wire, f"{main_branch_name(root)}:branches"

    def _load(self) -> tuple[int, list[list[Any]]]:
        found = self._store.load_session(self._name) if self._store is not None else None
        return (found[0], json.loads(found[1])) if found else (0, [])

    def find_fork(self, messages: Sequence[Any]) -> str:
        """Return the name of the stored fork that a request belongs to; "" if it belongs to none."""
        fits = [
            (at, name)
            for name, at, mark in self._load()[1]
            if at < len(messages) and message_digest(self._wire, messages[at]) == mark
        ]
        return max(fits)[1] if fits else ""

    def add_fork(self, messages: Sequence[Any], at: int) -> str:
        """Store a new fork whose first message of its own is at index `at`, and return its name.

        An archive error is ignored: the fork is then known to this process only.
        """
        at = min(at, len(messages) - 1)
        mark = message_digest(self._wire, messages[at])
        name = f"{main_branch_name(self._root)}-{mark[:10]}"
        version, stored = self._load()
        if self._store is not None and [name, at, mark] not in stored:
            try:
                self._store.save_session(self._name, version, json.dumps([*stored, [name, at, mark]]), (), 0)
            except ArchiveError:
                return name  # it is found again while this process lives
        return name
