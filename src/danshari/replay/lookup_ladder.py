"""Where a reference that the view no longer supports could be had from: a pointer, a blind search, or nowhere.

P: its source call or path is still named and the file was not written since. R: one search with a query built only
from what the view shows and the action's other words finds it among the first three passages. L: lost. They are never
added up, and each costs one extra round.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import comb

from danshari.archive.base import entry_of
from danshari.archive.index import passages
from danshari.archive.sqlite import SqliteArchive
from danshari.core.items import Digest
from danshari.replay.atoms import AtomClass, classify
from danshari.replay.must_keep import History, pointer_lines
from danshari.replay.references import Needs, Reference, Round
from danshari.replay.visibility import Sight

TOP = 3
_WORD = re.compile(r"[A-Za-z_]\w+|\d{3,}|[一-鿿]{2}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WIDE = re.compile(r"[一-鿿]")
_MOST_WORDS = 60
KINDS: dict[AtomClass, str] = {
    "identifier": "identifier", "dotted": "identifier", "file": "path", "number": "number", "hash": "number",
    "quoted": "words",
}  # fmt: skip
"""Class of an atom → kind of search."""
QUERY_KINDS = (*dict.fromkeys(KINDS.values()), "command", "chinese")


class Store:
    """Everything a session said so far, in the archive's own index: the search that is judged is the one shipped."""

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self._archive = SqliteArchive(":memory:")
        self._atoms: dict[tuple[str, int], frozenset[str]] = {}
        self._holding: Counter[str] = Counter()
        self._at = 0

    def advance(self, until: int) -> None:
        """Take in the items before position `until`."""
        lines, facts = self.needs.lines, self.needs.facts
        entries = []
        for at in range(self._at, until):
            item, act = facts.items[at], facts.act_at(at)
            label = facts.items[facts.call_of[at]].text[:300] if at in facts.call_of else ""
            entry = replace(entry_of(item, label), digest=Digest(item.id), path=act.path if act else "")
            entries.append(entry)
            for start, text in passages(entry.text):
                atoms = frozenset(a for n in lines.of_kind(item.kind, text) for a in lines.atoms[n])
                self._atoms[item.id, start] = atoms
                self._holding.update(atoms)
        self._archive.put(entries)
        self._at = max(self._at, until)

    def search(self, query: Sequence[str]) -> list[frozenset[str]]:
        """Give the atoms of the first three passages for a query of words."""
        found = self._archive.search(" ".join(query), limit=TOP) if query else []
        return [self._atoms[passage.entry.digest, passage.start] for passage in found]

    def by_chance(self, atom: str) -> float:
        """Give the chance that three passages drawn at random hold the atom."""
        total, holding = len(self._atoms), self._holding[atom]
        if total <= TOP:
            return float(holding > 0)
        return 1 - comb(total - holding, TOP) / comb(total, TOP)


def words(text: str) -> list[str]:
    """Give the words of a text as the index holds them: whole, and the parts of joined names."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(word.lower())
        parts = [part for piece in word.split("_") for part in _PART.findall(piece)]
        if len(parts) > 1:
            found += [part.lower() for part in parts if len(part) > 2]
    return found


class Ladder:
    """Sorts unsupported references into pointer, retrievable and lost."""

    def __init__(self, needs: Needs, history: History) -> None:
        self.needs, self.history = needs, history
        self.store = Store(needs)
        self._pointers: dict[int, tuple[int, ...]] = {}

    def kind(self, r: Round, reference: Reference) -> str:
        """Name what is searched for: Chinese words, a path, a number, something a command printed, an identifier."""
        if any(_WIDE.search(word) for word in r.words):
            return "chinese"
        found = KINDS[classify(reference.atom)]
        act = self.needs.facts.act_at(reference.place)
        return "command" if found == "identifier" and act is not None and act.kind == "run" else found

    def sort(self, r: Round, missing: Sequence[Reference], sight: Sight) -> list[tuple[Reference, str, float]]:
        """Give each missing reference with its rung (pointer, retrieved, lost) and the chance of finding it blindly."""
        self.store.advance(r.items)
        found = self.store.search(self._query(r, missing, sight))
        sorted_out = []
        for reference in missing:
            if self._pointed(reference, r, sight):
                rung = "pointer"
            else:
                rung = "retrieved" if any(reference.atom in atoms for atoms in found) else "lost"
            sorted_out.append((reference, rung, self.store.by_chance(reference.atom)))
        return sorted_out

    def _pointed(self, reference: Reference, r: Round, sight: Sight) -> bool:
        facts = self.needs.facts
        act = facts.act_at(reference.place)
        if act is None or act.kind in ("plan", "ask", "agent", "job", "skill"):
            return False
        path = facts.place(act) if act.path else ""
        if facts.items[reference.place].kind == "call" and act.kind not in ("write", "edit"):
            return False
        if any(reference.place < change < r.items for change in self.history.changes.get(path, ())):
            return False
        lines = self._pointers.get(reference.place)
        if lines is None:
            lines = self._pointers[reference.place] = pointer_lines(self.needs, reference.place)
        if lines and all(sight.shows(line) for line in lines):
            return True
        return bool(path) and sight.names(path)

    def _query(self, r: Round, missing: Iterable[Reference], sight: Sight) -> list[str]:
        """Build the blind query: the action's words without anything the view lacks."""
        hidden = {reference.atom for reference in missing}
        kept: dict[str, None] = {}
        for word in sorted(r.words):
            atoms = self.needs.lines.extract(word)
            if any(atom in word or (len(word) > 2 and word in atom) for atom in hidden):
                continue
            held, head = self.needs.held, self.needs.head
            if any(atom in held and atom not in head and not sight.visible(atom) for atom in atoms):
                continue
            kept.update(dict.fromkeys(words(word)))
        return [word for word in kept if len(word) > 2][:_MOST_WORDS]
