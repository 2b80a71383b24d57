"""Which lines and atoms a view shows, updated from one request to the next by the messages that changed.

An atom is *supported* if the view shows it on a line that held it in the source before, or on
another line together with an atom from such a line. Identifier dumps give no support: a line that
is mostly atoms and not a source line, or a whole text that is mostly atoms and does not come from
one place. An atom visible only in a dump counts as *bare*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Literal

from danshari.core.items import Piece
from danshari.replay.references import Quote, SessionNeeds

AtomVisibility = Literal["supported", "bare", "absent"]
_DUMP_LINE_ATOMS = 3
"""A line of fewer atoms is no soup, however dense."""
_DUMP_TEXT_ATOMS = 8
"""A text of fewer atoms is no soup."""
_DUMP_SHARE = 0.7
"""Share of soup's letters and digits that belong to atoms."""
_ONE_PLACE = 0.5
"""Share of a text's lines that one source item holds, from which the text counts as taken from there."""


class VisibleLines:
    """The lines and atoms that the current view of one session shows."""

    def __init__(self, needs: SessionNeeds, *, wanted: Collection[str] | None = None) -> None:
        """Start with an empty view; `wanted` limits which atoms are tracked (default: those that actions refer to)."""
        self.needs = needs
        self._wanted = needs.reference_atoms if wanted is None else set(wanted)
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
        """Switch to the next view; messages that are the same objects as before cost nothing."""
        now: dict[int, Any] = {id(m): m for m in messages}
        before = self._held
        self.came, self.touched = [], set()
        gone = [key for key in before if key not in now]
        for key, message in now.items():
            if key not in before:
                pieces, lines, soup = self._read_message(message)
                self.came.append((message, pieces))
                self._add(lines)
                self._soup_lines.update(soup)
        for key in gone:
            self._remove(self._read[key][2])
            self._soup_lines.subtract(self._read[key][3])
        self._held = now

    def _read_message(self, message: Any) -> tuple[tuple[Piece, ...], tuple[int, ...], tuple[int, ...]]:
        known = self._read.get(id(message))
        if known is None:
            pieces = tuple(self.needs.format.split(message))
            lines: list[int] = []
            soup: list[int] = []
            for piece in pieces:
                mine = self.needs.lines.of_piece(piece)
                lines += mine
                soup += mine if self._is_dump_text(mine) else ()
            known = self._read[id(message)] = (message, pieces, tuple(lines), tuple(soup))
        return known[1], known[2], known[3]

    def _is_dump_text(self, lines: Sequence[int]) -> bool:
        """Return whether a text is mostly atoms that do not come from one place."""
        if len(lines) < 2:
            return False
        known, atoms = self.needs.lines, self.needs.lines.atoms
        if sum(len(atoms[line]) for line in lines) < _DUMP_TEXT_ATOMS:
            return False
        items = Counter(item for line in lines for item in self.needs.items_of.get(line, ()))
        if items and max(items.values()) >= _ONE_PLACE * len(lines):
            return False
        letters = sum(sum(c.isalnum() for c in known.keys[line]) for line in lines)
        return sum(self._count_atom_characters(line) for line in lines) > _DUMP_SHARE * letters

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
        """Return the pieces of a message of the view."""
        return self._read_message(message)[0]

    def shows(self, line: int) -> bool:
        """Return whether the view contains a line."""
        return self._count[line] > 0

    def shows_any(self, lines: Collection[int]) -> bool:
        """Return whether the view contains at least one of the lines."""
        return any(self._count[line] for line in lines)

    def is_visible(self, atom: str) -> bool:
        """Return whether a tracked atom is anywhere in the view."""
        return bool(self._by_atom.get(atom))

    def names_file(self, path: str) -> bool:
        """Return whether some line of the view names a file by its last two path segments."""
        tail = "/".join(path.rsplit("/", 2)[-2:])
        lines = self._by_atom.get(path.rsplit("/", 1)[-1], ())
        return any(tail in self.needs.lines.keys[line] for line in lines)

    def visible_lines(self) -> list[int]:
        """Return the numbers of all lines of the view."""
        return [line for line, n in self._count.items() if n]

    def atom_visibility(self, atom: str, held: int) -> AtomVisibility:
        """Return how the view shows an atom: supported, bare or absent.

        `held` is how many of the atom's source lines had been seen before the request.
        """
        lines = self._by_atom.get(atom)
        if not lines:
            return "absent"
        ranks = self.needs.held.get(atom, {})
        for line in lines:
            if self._count[line] > self._soup_lines[line] and (
                ranks.get(line, held) < held or self._has_known_neighbour(atom, line, held)
            ):
                return "supported"
        return "bare"

    def _has_known_neighbour(self, atom: str, line: int, held: int) -> bool:
        """Return whether a new line shows the atom together with an atom from one of its earlier source lines."""
        if self.is_dump_line(line):
            return False
        atoms = self.needs.lines.atoms
        beside = atoms[line] - {atom}
        for source, rank in self.needs.held.get(atom, {}).items():
            if rank < held and (beside & atoms[source] if len(atoms[source]) > 1 else not beside):
                return True
        return False

    def is_dump_line(self, line: int) -> bool:
        """Return whether a line is mostly atoms."""
        known = self._soup.get(line)
        if known is None:
            letters = sum(c.isalnum() for c in self.needs.lines.keys[line])
            dense = self._count_atom_characters(line) > _DUMP_SHARE * letters
            known = self._soup[line] = dense and len(self.needs.lines.atoms[line]) >= _DUMP_LINE_ATOMS
        return known

    def _count_atom_characters(self, line: int) -> int:
        """Return how many letters and digits of a line belong to atoms."""
        text, atoms = self.needs.lines.keys[line], self.needs.lines.atoms[line]
        return sum(sum(c.isalnum() for c in atom) * text.count(atom) for atom in _outermost_atoms(atoms))

    def shows_quote(self, quote: Quote) -> bool:
        """Return whether the view contains every line of a quoted text."""
        return all(self.shows_any(lines) for lines in quote.lines)


def _outermost_atoms(atoms: Collection[str]) -> list[str]:
    """Return the atoms that are not part of another atom."""
    return [a for a in atoms if not any(a != b and a in b for b in atoms)]
