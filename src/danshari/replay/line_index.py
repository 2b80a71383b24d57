"""Texts as lines that can be recognised again: without line numbers and indentation, call arguments unpacked.

Every line gets a number; a text is cut once and remembered. A line longer than the definition's limit is read in
pieces, so that "the same line" stays a statement about a place and not about a whole JSON answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from danshari.core.items import Piece
from danshari.replay.atoms import Atoms, definition

_NUMBERED = re.compile(r"^\s*\d+(?:→|\t|\| ?|:(?!\d)|-(?!\d)\s?)")
_BORDER = re.compile(r"[,;}\])>|]\s*|\s+")


class Lines:
    """Interns lines over one session and finds their atoms once."""

    def __init__(self, atoms: Atoms) -> None:
        self.atoms: list[frozenset[str]] = []
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}
        self._texts: dict[str, tuple[int, ...]] = {}
        self.extract = atoms

    def of(self, text: str) -> tuple[int, ...]:
        """Give the numbers of the distinct lines of a text, in order."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = tuple(dict.fromkeys(self._number(line) for line in split(text)))
        return known

    def of_piece(self, piece: Piece) -> tuple[int, ...]:
        """Give the lines of one piece of a message; call arguments are unpacked."""
        return self.of_kind(piece.kind, piece.text)

    def of_kind(self, kind: str, text: str) -> tuple[int, ...]:
        """Give the lines of a text that is a call's arguments, or anything else."""
        if kind != "call":
            return self.of(text)
        return tuple(dict.fromkeys(n for leaf in leaves(text) for n in self.of(leaf)))

    def find(self, line: str) -> int | None:
        """Give the number of a line, None if it was never seen."""
        return self._numbers.get(line)

    def containing(self, part: str) -> list[int]:
        """Give the lines that hold `part`."""
        return [number for number, key in enumerate(self.keys) if part in key]

    def _number(self, line: str) -> int:
        number = self._numbers.get(line)
        if number is None:
            number = self._numbers[line] = len(self.keys)
            self.keys.append(line)
            self.atoms.append(self.extract(line))
        return number


def split(text: str) -> Iterator[str]:
    """Give the lines of a text that hold anything, bare of line numbers and indentation; long ones in pieces."""
    limit = definition().longest_line
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
            yield from _pieces(line)


def _pieces(line: str) -> Iterator[str]:
    """Cut a long line at the first border after the size of a piece."""
    size, start = definition().piece, 0
    while len(line) - start > size:
        border = _BORDER.search(line, start + size, start + 2 * size)
        end = border.end() if border else start + size
        yield line[start:end].strip()
        start = end
    if rest := line[start:].strip():
        yield rest


def leaves(arguments: str) -> Iterator[str]:
    """Give the texts inside call arguments; arguments that are no JSON are one text."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        yield arguments
        return
    yield from leaves_of(value)


def leaves_of(value: Any) -> Iterator[str]:
    """Give the texts inside a JSON value, whole numbers too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from leaves_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves_of(inner)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
