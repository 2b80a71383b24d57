"""Split texts into normalised lines: without line numbers and indentation, call arguments unpacked.

Every distinct line gets a number and each text is split once. A line longer than the limit of the
atom definition is split into pieces, so that matching a line means matching a place and not a whole
JSON result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from danshari.core.items import Piece
from danshari.replay.atoms import AtomExtractor, atom_definition

_NUMBERED = re.compile(r"^\s*\d+(?:→|\t|\| ?|:(?!\d)|-(?!\d)\s?)")
_BORDER = re.compile(r"[,;}\])>|]\s*|\s+")


class LineTable:
    """Numbers the distinct lines of one session and extracts the atoms of each once."""

    def __init__(self, atoms: AtomExtractor) -> None:
        self.atoms: list[frozenset[str]] = []
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._texts: dict[str, tuple[int, ...]] = {}
        self.extract = atoms

    def of(self, text: str) -> tuple[int, ...]:
        """Return the numbers of the distinct lines of a text, in order."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = tuple(dict.fromkeys(self._number_of(line) for line in split_lines(text)))
        return known

    def of_piece(self, piece: Piece) -> tuple[int, ...]:
        """Return the line numbers of one piece of a message; call arguments are unpacked."""
        return self.of_kind(piece.kind, piece.text)

    def of_kind(self, kind: str, text: str) -> tuple[int, ...]:
        """Return the line numbers of a text; if `kind` is "call", the arguments are unpacked."""
        if kind != "call":
            return self.of(text)
        return tuple(dict.fromkeys(n for leaf in argument_texts(text) for n in self.of(leaf)))

    def find(self, line: str) -> int | None:
        """Return the number of a line, None if it was never seen."""
        return self._numbers.get(line)

    def find_containing(self, part: str) -> list[int]:
        """Return the numbers of the lines that contain `part`."""
        return [number for number, key in enumerate(self.keys) if part in key]

    def _number_of(self, line: str) -> int:
        number = self._numbers.get(line)
        if number is None:
            number = self._numbers[line] = len(self.keys)
            self.keys.append(line)
            self.atoms.append(self.extract(line))
        return number


def split_lines(text: str) -> Iterator[str]:
    """Yield the non-empty lines of a text without line numbers and indentation; long lines come in pieces."""
    limit = atom_definition().longest_line
    for raw in text.split("\n"):
        line = raw.strip()
        if not line:
            continue
        if line[0].isdecimal() or raw[:1] == " ":
            line = _NUMBERED.sub("", line, count=1).strip()
        if len(line) <= limit:
            if line:
                yield line
        else:
            yield from _split_long_line(line)


def _split_long_line(line: str) -> Iterator[str]:
    """Yield the pieces of a long line, cut at the first separator after the piece size."""
    size, start = atom_definition().piece, 0
    while len(line) - start > size:
        border = _BORDER.search(line, start + size, start + 2 * size)
        end = border.end() if border else start + size
        yield line[start:end].strip()
        start = end
    if rest := line[start:].strip():
        yield rest


def argument_texts(arguments: str) -> Iterator[str]:
    """Yield the texts inside call arguments; arguments that are not JSON are one text."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        yield arguments
        return
    yield from json_texts(value)


def json_texts(value: Any) -> Iterator[str]:
    """Yield the texts inside a JSON value, including whole numbers as text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from json_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from json_texts(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
