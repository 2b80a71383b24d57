"""The branches that the archive holds: their trails, and by which beginnings they are found again.

Every branch with a state worth keeping has a note with its trail. Its name stands in two lists: of branches that begin
with the same words, and of those whose first answer is the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from danshari.archive.base import Archive, NoteStore, SessionStore
from danshari.core.items import hash_strings
from danshari.errors import ArchiveError
from danshari.proxy.sessions.trail import Stretch, Trail, compare, pack_trail, question_mark, unpack_trail

MAX_LISTED = 48
"""Branches of one beginning that are found again after a restart; older ones are forgotten."""
_TRAIL, _BRANCHES = "trail", "branches"


class Scope(NamedTuple):
    """Whose branches may be one: those of a tenant, a format and a client's own key."""

    tenant: str
    format: str
    key: str

    @property
    def home(self) -> str:
        """What branches of several keys have in common: the tenant, else the key itself."""
        return self.tenant or f"key {self.key}"


class StoredMatch(NamedTuple):
    """The stored branch that a request continues, or else the one it forked off; "" for none."""

    name: str = ""
    source: str = ""
    shared: int = 0
    """Answered stretches that both have in common."""


class BranchIndex:
    """The stored branches of all sessions."""

    def __init__(self, archive: Archive | None) -> None:
        self._notes = archive if isinstance(archive, NoteStore) else None
        self._sessions = archive if isinstance(archive, SessionStore) else None

    def is_free(self, name: str) -> bool:
        """Return whether the archive holds nothing under a name."""
        noted = self._notes.load_note(name, _TRAIL)[0] if self._notes is not None else 0
        return not noted and not (self._sessions.session_version(name) if self._sessions is not None else 0)

    def load(self, name: str) -> list[Stretch]:
        """Return the trail of a stored branch; empty if there is none."""
        stored = self._notes.load_note(name, _TRAIL)[1] if self._notes is not None else ""
        return unpack_trail(json.loads(stored)) if stored else []

    def find(self, scope: Scope, trail: Trail, usable: Callable[[str], bool]) -> StoredMatch:
        """Return the stored branch that a request continues, or else the one that shares most answers with it.

        `usable` says which names may be continued.
        """
        if not trail or not trail[0].said:
            return StoredMatch()
        found, length, source, shared = "", -1, "", 0
        for name, key in {tuple(row): None for place in _places(scope, trail) for row in self._listed(place)}:
            same = compare(self.load(name), trail)
            if same.continues and key == _key_digest(scope) and same.stretches > length and usable(name):
                found, length = name, same.stretches
            if same.stretches > shared:
                source, shared = name, same.stretches
        return StoredMatch(found, "" if found else source, length if found else shared)

    def store(self, scope: Scope, name: str, trail: Trail) -> bool:
        """Store a branch's trail and list it; False if the archive refuses, so that only this process knows it."""
        if self._notes is None:
            return True
        try:
            self._replace(name, _TRAIL, lambda _: json.dumps(pack_trail(trail)))
            row = [name, _key_digest(scope)]
            place = _places(scope, trail)[0]
            if row not in self._listed(place):
                self._replace(place, _BRANCHES, lambda stored: json.dumps(
                    [*[r for r in json.loads(stored or "[]") if r != row], row][-MAX_LISTED:]))  # fmt: skip
        except ArchiveError:
            return False
        return True

    def _listed(self, place: str) -> list[list[str]]:
        stored = self._notes.load_note(place, _BRANCHES)[1] if self._notes is not None else ""
        rows: list[list[str]] = json.loads(stored or "[]")
        return rows

    def _replace(self, place: str, kind: str, change: Callable[[str], str]) -> None:
        """Replace a note; once more if another process did so meanwhile."""
        assert self._notes is not None
        for _ in range(3):
            version, stored = self._notes.load_note(place, kind)
            if self._notes.save_note(place, kind, version, change(stored)):
                return


def _key_digest(scope: Scope) -> str:
    return hash_strings(scope.key)[:16] if scope.key else ""


def _places(scope: Scope, trail: Trail) -> list[str]:
    """Return where a branch may be listed: under its first answer, and under its first words until it has one."""
    marks = [*(hash_strings(*s.spoken) for s in trail[:1] if s.said), question_mark(trail)]
    return [f"proxy-at-{hash_strings(scope.home, scope.format, mark)[:24]}" for mark in marks]
