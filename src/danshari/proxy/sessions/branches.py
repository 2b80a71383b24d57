"""Where the branches of a session part, stored so that a later process finds each one again by what it holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from danshari.archive.base import Archive, Sessions
from danshari.core.items import hashed
from danshari.errors import ArchiveError
from danshari.formats import Format


def said(wire: Format, message: Any) -> str:
    """Give the digest of what a message says, whatever its spelling and cache marks."""
    return hashed(*(f"{piece.kind}:{piece.text or piece.body}" for piece in wire.split(message)))


def main_branch(root: str) -> str:
    """Name the first branch of a session."""
    return f"proxy-{root}"


class Branches:
    """The forks of one session: name, place of the first message of their own, and its digest."""

    def __init__(self, root: str, wire: Format, archive: Archive | None) -> None:
        self._store = archive if isinstance(archive, Sessions) else None
        self._root, self._wire, self._name = root, wire, f"{main_branch(root)}:branches"

    def _load(self) -> tuple[int, list[list[Any]]]:
        found = self._store.load_session(self._name) if self._store is not None else None
        return (found[0], json.loads(found[1])) if found else (0, [])

    def fitting(self, messages: Sequence[Any]) -> str:
        """Give the stored branch that a request belongs to; "" if it is none of the forks."""
        fits = [
            (at, name)
            for name, at, mark in self._load()[1]
            if at < len(messages) and said(self._wire, messages[at]) == mark
        ]
        return max(fits)[1] if fits else ""

    def fork(self, messages: Sequence[Any], at: int) -> str:
        """Name a new fork whose message `at` is its own, and store it."""
        at = min(at, len(messages) - 1)
        mark = said(self._wire, messages[at])
        name = f"{main_branch(self._root)}-{mark[:10]}"
        version, stored = self._load()
        if self._store is not None and [name, at, mark] not in stored:
            try:
                self._store.save_session(self._name, version, json.dumps([*stored, [name, at, mark]]), (), 0)
            except ArchiveError:
                return name  # it is found again while this process lives
        return name
