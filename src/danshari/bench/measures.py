"""A rough count of what the next action needed and whether it was still there; the full measure comes apart.

Atoms are strict identifier-like tokens; a reference is an atom of an action's arguments that stood in an earlier
result, call or reply; it is supported if a line of the view holds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from danshari.compactor import Compactor
from danshari.core.facts import Facts
from danshari.core.text import parse_arguments
from danshari.formats.base import plain

ATOM = re.compile(
    r"[A-Za-z_][\w-]*(?:\.[A-Za-z_]\w*)+|[A-Za-z]+_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*|[A-Za-z]+\d\w*|\d{5,}|[0-9a-f]{7,40}"
)
"""Dotted names and file names, snake_case, camelCase, words with digits, long numbers, hashes. Version 0 (rough)."""
_NUMBERED = re.compile(r"^\s*\d+(?:→|\t|\| |:|-)", re.MULTILINE)
HOT = 3


@dataclass(slots=True)
class Support:
    """Counts over one session; shares are properties so that sums pool."""

    hot: int = 0
    hot_kept: int = 0
    old: int = 0
    old_kept: int = 0
    edits: int = 0
    edits_kept: int = 0
    edits_unseen: int = 0
    """Edits whose old text does not even stand in the full context."""
    actions: int = 0
    actions_kept: int = 0

    def add(self, other: Support) -> None:
        """Add another session's counts."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Watch:
    """Follows the replay: indexes atoms and lines of the full context, and asks the view for them."""

    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor
        self._known = 0
        self._atoms: dict[str, list[int]] = {}
        self._lines: dict[str, list[int]] = {}
        self._head: set[str] = set()

    def action(self, message: Any, support: Support) -> None:
        """Count the references of the next assistant message against the view just sent."""
        facts = self._compactor.facts
        if facts is None:
            return
        self._index(facts)
        pieces = self._compactor_pieces(message)
        needed_old, kept_old = 0, 0
        for name, arguments in pieces:
            for atom in sorted(set(ATOM.findall(arguments))):
                places = self._atoms.get(atom)
                if atom in self._head or not places:
                    continue
                kept = self._holds(atom, places)
                if facts.turn - facts.items[places[-1]].turn < HOT:
                    support.hot += 1
                    support.hot_kept += kept
                else:
                    needed_old += 1
                    kept_old += kept
            self._edit(name, arguments, facts, support)
        support.old += needed_old
        support.old_kept += kept_old
        if needed_old:
            support.actions += 1
            support.actions_kept += kept_old == needed_old

    def _compactor_pieces(self, message: Any) -> list[tuple[str, str]]:
        format = self._compactor.view_format()  # noqa: A001
        return [(p.name, p.text) for p in format.pieces(plain(message)) if p.kind == "call"]

    def _index(self, facts: Facts) -> None:
        first_user = next((u for u in facts.users), -1)
        for at in range(self._known, len(facts.items)):
            item = facts.items[at]
            if item.role == "system" or at == first_user:
                self._head |= set(ATOM.findall(item.text))
                continue
            for atom in set(ATOM.findall(item.text)):
                self._atoms.setdefault(atom, []).append(at)
            if item.kind in ("result", "call"):
                for line in set(_lines(item.text)):
                    self._lines.setdefault(line, []).append(at)
        self._known = len(facts.items)

    def _holds(self, wanted: str, places: list[int]) -> bool:
        effects = self._compactor.view().effects
        for at in reversed(places):
            if at in effects.gone:
                continue
            edit = effects.texts.get(at)
            if edit is None or wanted in edit.text:
                return True
        return any(wanted in fold.text for _, fold in effects.folds.values())

    def _edit(self, name: str, arguments: str, facts: Facts, support: Support) -> None:
        row = facts.tools.row(name)
        if not row.old:
            return
        data = parse_arguments(arguments)
        texts = [data[k] for k in row.old if isinstance(data.get(k), str)]
        texts += [
            e[k] for e in data.get("edits") or () if isinstance(e, dict) for k in row.old if isinstance(e.get(k), str)
        ]
        for text in texts:
            lines = [line for line in _lines(text) if line]
            if not lines:
                continue
            if not all(line in self._lines for line in lines):
                support.edits_unseen += 1
                continue
            support.edits += 1
            support.edits_kept += all(self._holds(line, self._lines[line]) for line in lines)


def _lines(text: str) -> list[str]:
    """Split into stripped lines without line numbers; JSON arguments are split at their escaped line ends."""
    if text[:1] == "{" and "\\n" in text:
        text = text.replace("\\n", "\n").replace('\\"', '"').replace("\\t", "\t")
    return [line.strip() for line in _NUMBERED.sub("", text).split("\n")]
