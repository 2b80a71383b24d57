"""Where an agent could get back a reference that the view no longer supports: pointer, search, or nowhere.

Pointer: the source call or path is still named in the view and the file was not written since.
Retrieved: one search, with a query built only from what the view shows and the action's other
words, finds it among the first three passages. Lost: neither. The three are reported separately;
each costs one extra round.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import comb

from danshari.archive.base import make_entry
from danshari.archive.index import split_passages
from danshari.archive.sqlite import SqliteArchive
from danshari.core.items import Digest
from danshari.replay.atoms import AtomClass, classify_atom
from danshari.replay.must_keep import StateHistory, pointer_lines
from danshari.replay.references import Reference, RoundNeeds, SessionNeeds
from danshari.replay.visibility import VisibleLines

TOP_PASSAGES = 3
_WORD = re.compile(r"[A-Za-z_]\w+|\d{3,}|[一-鿿]{2}")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WIDE = re.compile(r"[一-鿿]")
_MOST_WORDS = 60
QUERY_KIND_OF_ATOM: dict[AtomClass, str] = {
    "identifier": "identifier", "dotted": "identifier", "file": "path", "number": "number", "hash": "number",
    "quoted": "words",
}  # fmt: skip
"""Class of an atom → kind of search."""
QUERY_KINDS = (*dict.fromkeys(QUERY_KIND_OF_ATOM.values()), "command", "chinese")


class SessionIndex:
    """Search index of everything a session contained so far, in danshari's own archive."""

    def __init__(self, needs: SessionNeeds) -> None:
        self.needs = needs
        self._archive = SqliteArchive(":memory:")
        self._atoms: dict[tuple[str, int], frozenset[str]] = {}
        self._holding: Counter[str] = Counter()
        self._at = 0

    def advance(self, until: int) -> None:
        """Add the items before position `until`."""
        lines, facts = self.needs.lines, self.needs.facts
        entries = []
        for at in range(self._at, until):
            item, act = facts.items[at], facts.act_at(at)
            label = facts.items[facts.call_of[at]].text[:300] if at in facts.call_of else ""
            entry = replace(make_entry(item, label), digest=Digest(item.id), path=act.path if act else "")
            entries.append(entry)
            for start, text in split_passages(entry.text):
                atoms = frozenset(a for n in lines.of_kind(item.kind, text) for a in lines.atoms[n])
                self._atoms[item.id, start] = atoms
                self._holding.update(atoms)
        self._archive.put(entries)
        self._at = max(self._at, until)

    def search(self, query: Sequence[str]) -> list[frozenset[str]]:
        """Return the atoms of each of the first three passages for a query of words."""
        found = self._archive.search(" ".join(query), limit=TOP_PASSAGES) if query else []
        return [self._atoms[passage.entry.digest, passage.start] for passage in found]

    def chance_of_finding(self, atom: str) -> float:
        """Return the probability that three passages drawn at random hold the atom.

        1 - C(n - k, 3) / C(n, 3), where n is the number of passages and k how many of them hold the atom.
        """
        total, holding = len(self._atoms), self._holding[atom]
        if total <= TOP_PASSAGES:
            return float(holding > 0)
        return 1 - comb(total - holding, TOP_PASSAGES) / comb(total, TOP_PASSAGES)


def searchable_words(text: str) -> list[str]:
    """Return the words of a text as the index stores them: whole words and the parts of joined names."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(word.lower())
        parts = [part for piece in word.split("_") for part in _PART.findall(piece)]
        if len(parts) > 1:
            found += [part.lower() for part in parts if len(part) > 2]
    return found


class LookupLadder:
    """Sorts references that a view does not support into pointer, retrieved and lost."""

    def __init__(self, needs: SessionNeeds, history: StateHistory) -> None:
        self.needs, self.history = needs, history
        self.store = SessionIndex(needs)
        self._pointers: dict[int, tuple[int, ...]] = {}

    def query_kind(self, r: RoundNeeds, reference: Reference) -> str:
        """Return the kind of search: Chinese, path, number, words, output of a command, or identifier."""
        if any(_WIDE.search(word) for word in r.words):
            return "chinese"
        found = QUERY_KIND_OF_ATOM[classify_atom(reference.atom)]
        act = self.needs.facts.act_at(reference.place)
        return "command" if found == "identifier" and act is not None and act.kind == "run" else found

    def assign_rungs(
        self, r: RoundNeeds, missing: Sequence[Reference], sight: VisibleLines
    ) -> list[tuple[Reference, str, float]]:
        """Return each missing reference with its rung (pointer, retrieved, lost) and its chance in a random search."""
        self.store.advance(r.items)
        found = self.store.search(self._blind_query(r, missing, sight))
        sorted_out = []
        for reference in missing:
            if self._has_pointer(reference, r, sight):
                rung = "pointer"
            else:
                rung = "retrieved" if any(reference.atom in atoms for atoms in found) else "lost"
            sorted_out.append((reference, rung, self.store.chance_of_finding(reference.atom)))
        return sorted_out

    def _has_pointer(self, reference: Reference, r: RoundNeeds, sight: VisibleLines) -> bool:
        """Return whether the view still names the source of a reference and the source is unchanged."""
        facts = self.needs.facts
        act = facts.act_at(reference.place)
        if act is None or act.kind in ("plan", "ask", "agent", "job", "skill"):
            return False
        path = facts.file_key(act) if act.path else ""
        if facts.items[reference.place].kind == "call" and act.kind not in ("write", "edit"):
            return False
        if any(reference.place < change < r.items for change in self.history.changes.get(path, ())):
            return False
        lines = self._pointers.get(reference.place)
        if lines is None:
            lines = self._pointers[reference.place] = pointer_lines(self.needs, reference.place)
        if lines and all(sight.shows(line) for line in lines):
            return True
        return bool(path) and sight.names_file(path)

    def _blind_query(self, r: RoundNeeds, missing: Iterable[Reference], sight: VisibleLines) -> list[str]:
        """Return the words of the action that the view shows, without any missing atom."""
        hidden = {reference.atom for reference in missing}
        kept: dict[str, None] = {}
        for word in sorted(r.words):
            atoms = self.needs.lines.extract(word)
            if any(atom in word or (len(word) > 2 and word in atom) for atom in hidden):
                continue
            held, head = self.needs.held, self.needs.head
            if any(atom in held and atom not in head and not sight.is_visible(atom) for atom in atoms):
                continue
            kept.update(dict.fromkeys(searchable_words(word)))
        return [word for word in kept if len(word) > 2][:_MOST_WORDS]
