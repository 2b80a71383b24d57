"""What a view shows: its lines, kept up to date from one request to the next by the messages that came and went.

An atom is *supported* if it stands in the view on a line that held it in the source before, or on another line together
with an atom that such a line held beside it. Soup supports nothing: a line that is little but atoms and is no source
line, or a whole text that is little but atoms and does not come from one place; what is only so visible is *bare*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal

from danshari.core.items import Piece
from danshari.replay.references import Needs, Quote

Sighting = Literal["supported", "bare", "absent"]
_SOUP_ATOMS = 3
"""A line of fewer atoms is no soup, however dense."""
_SOUP_TEXT = 8
"""A text of fewer atoms is no soup."""
_SOUP_SHARE = 0.7
"""Share of soup's letters and digits that belong to atoms."""
_ONE_PLACE = 0.5
"""Share of a text's lines that one source item holds, from which the text counts as taken from there."""


class Sight:
    """The lines of the current view of one session."""

    def __init__(self, needs: Needs, *, wanted: Collection[str] | None = None) -> None:
        self.needs = needs
        self._wanted = needs.wanted if wanted is None else set(wanted)
        self._count: Counter[int] = Counter()
        self._by_atom: dict[str, set[int]] = {}
        self._held: dict[int, Any] = {}
        """Id of a message object in the view → the object, so that ids stay true."""
        self._read: dict[int, tuple[Any, tuple[Piece, ...], tuple[int, ...], tuple[int, ...]]] = {}
        """The object, its pieces, their lines, and the lines of those that are soup."""
        self._soup_lines: Counter[int] = Counter()
        self._soup: dict[int, bool] = {}
        self.came: list[tuple[Any, tuple[Piece, ...]]] = []
        """Messages that this view shows and the one before did not."""
        self.touched: set[str] = set()
        """Wanted atoms on lines that came or went with this view."""

    def update(self, messages: Sequence[Any]) -> None:
        """Take the next view; messages that are the same objects as before cost nothing."""
        now: dict[int, Any] = {id(m): m for m in messages}
        before = self._held
        self.came, self.touched = [], set()
        gone = [key for key in before if key not in now]
        for key, message in now.items():
            if key not in before:
                pieces, lines, soup = self._taken(message)
                self.came.append((message, pieces))
                self._add(lines)
                self._soup_lines.update(soup)
        for key in gone:
            self._remove(self._read[key][2])
            self._soup_lines.subtract(self._read[key][3])
        self._held = now

    def _taken(self, message: Any) -> tuple[tuple[Piece, ...], tuple[int, ...], tuple[int, ...]]:
        known = self._read.get(id(message))
        if known is None:
            pieces = tuple(self.needs.format.split(message))
            lines: list[int] = []
            soup: list[int] = []
            for piece in pieces:
                mine = self.needs.lines.of_piece(piece)
                lines += mine
                soup += mine if self._is_soup_text(mine) else ()
            known = self._read[id(message)] = (message, pieces, tuple(lines), tuple(soup))
        return known[1], known[2], known[3]

    def _is_soup_text(self, lines: Sequence[int]) -> bool:
        """Say whether a text is little but atoms, gathered from here and there."""
        if len(lines) < 2:
            return False
        known, atoms = self.needs.lines, self.needs.lines.atoms
        if sum(len(atoms[line]) for line in lines) < _SOUP_TEXT:
            return False
        items = Counter(item for line in lines for item in self.needs.items_of.get(line, ()))
        if items and max(items.values()) >= _ONE_PLACE * len(lines):
            return False
        letters = sum(sum(c.isalnum() for c in known.keys[line]) for line in lines)
        return sum(self._inside(line) for line in lines) > _SOUP_SHARE * letters

    def _add(self, lines: Sequence[int]) -> None:
        for line in lines:
            self._count[line] += 1
            if self._count[line] == 1:
                for atom in self.needs.lines.atoms[line] & self._wanted:
                    self._by_atom.setdefault(atom, set()).add(line)
                    self.touched.add(atom)

    def _remove(self, lines: Sequence[int]) -> None:
        for line in lines:
            self._count[line] -= 1
            if not self._count[line]:
                for atom in self.needs.lines.atoms[line] & self._wanted:
                    self._by_atom[atom].discard(line)
                    self.touched.add(atom)

    def pieces(self, message: Any) -> tuple[Piece, ...]:
        """Give the pieces of a message of the view."""
        return self._taken(message)[0]

    def shows(self, line: int) -> bool:
        """Say whether a line stands in the view."""
        return self._count[line] > 0

    def any_of(self, lines: Collection[int]) -> bool:
        """Say whether one of the lines stands in the view."""
        return any(self._count[line] for line in lines)

    def visible(self, atom: str) -> bool:
        """Say whether an atom stands in the view at all; only wanted atoms are known."""
        return bool(self._by_atom.get(atom))

    def names(self, path: str) -> bool:
        """Say whether some line of the view names a file, by its last two segments."""
        tail = "/".join(path.rsplit("/", 2)[-2:])
        lines = self._by_atom.get(path.rsplit("/", 1)[-1], ())
        return any(tail in self.needs.lines.keys[line] for line in lines)

    def shown(self) -> list[int]:
        """Give every line of the view."""
        return [line for line, n in self._count.items() if n]

    def sighting(self, atom: str, held: int) -> Sighting:
        """Say how an atom stands in the view; `held` is how many of its source lines had been seen."""
        lines = self._by_atom.get(atom)
        if not lines:
            return "absent"
        ranks = self.needs.held.get(atom, {})
        for line in lines:
            if self._count[line] > self._soup_lines[line] and (
                ranks.get(line, held) < held or self._borne(atom, line, held)
            ):
                return "supported"
        return "bare"

    def _borne(self, atom: str, line: int, held: int) -> bool:
        """Say whether a line that had not been seen before carries the atom with a neighbour."""
        if self.is_soup(line):
            return False
        atoms = self.needs.lines.atoms
        beside = atoms[line] - {atom}
        for source, rank in self.needs.held.get(atom, {}).items():
            if rank < held and (beside & atoms[source] if len(atoms[source]) > 1 else not beside):
                return True
        return False

    def is_soup(self, line: int) -> bool:
        """Say whether a line is little but atoms."""
        known = self._soup.get(line)
        if known is None:
            letters = sum(c.isalnum() for c in self.needs.lines.keys[line])
            dense = self._inside(line) > _SOUP_SHARE * letters
            known = self._soup[line] = dense and len(self.needs.lines.atoms[line]) >= _SOUP_ATOMS
        return known

    def _inside(self, line: int) -> int:
        """Count the letters and digits of a line that belong to atoms."""
        text, atoms = self.needs.lines.keys[line], self.needs.lines.atoms[line]
        return sum(sum(c.isalnum() for c in atom) * text.count(atom) for atom in _outer(atoms))

    def quotes(self, quote: Quote) -> bool:
        """Say whether every line of a quoted text stands in the view."""
        return all(self.any_of(lines) for lines in quote.lines)


def _outer(atoms: Collection[str]) -> list[str]:
    """Leave out atoms that stand inside another."""
    return [a for a in atoms if not any(a != b and a in b for b in atoms)]
