"""Atoms: the identifier-like tokens (names, paths, numbers, hashes) by which references are counted.

Classes: code identifier (an underscore, an inner capital or a digit), file name, dotted name, long
number, hash, host, quoted text. A path counts by its segments, because views may use relative and
sessions absolute paths. The definition is versioned because every result depends on it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from danshari import data
from danshari.core.items import hash_strings

AtomClass = Literal["identifier", "file", "dotted", "number", "hash", "quoted"]
AtomVariant = Literal["strict", "segmentless", "loose"]
ATOM_VARIANTS: tuple[AtomVariant, ...] = ("strict", "segmentless", "loose")
"""strict: the headline; segmentless: paths whole; loose: no stop set, plain words of eight characters and more too."""

_TOKEN = re.compile(
    r"(?P<host>https?://[\w.-]+)"
    r"|(?P<hash>\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b)"
    r"|(?P<word>[A-Za-z_][\w]*(?:[.-]\w+)*)"
    r"|(?P<number>\d[\w.]*)"
)
_QUOTED = re.compile(r"\"([^\"\\\n]+)\"|'([^'\\\n]+)'|`([^`\\\n]+)`")
_PATH = re.compile(r"(?<![\w/])(?:(?<![.@~+-])[\w.@~+-]*+|[\w.@~+-]{0,255})(?:/[\w.@+-]+)+")
_INNER = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2,}[A-Z]|[A-Z][a-z]+[A-Z]")


def classify_atom(text: str) -> AtomClass:
    """Return the class of an atom."""
    if " " in text or not re.fullmatch(r"[\w.:/@+-]+", text):
        return "quoted"
    if text.isdecimal():
        return "number"
    if "/" in text or re.fullmatch(r"[0-9a-f-]{7,}", text):
        return "hash"
    if "." in text:
        return "file" if text.rsplit(".", 1)[-1].lower() in atom_definition().extensions else "dotted"
    return "identifier"


@dataclass(frozen=True, kw_only=True)
class AtomDefinition:
    """The table that defines atoms: length limits, file extensions and stop words."""

    version: int
    longest_line: int
    piece: int
    quoted_least: int
    quoted_most: int
    number_least: int
    word_least: int
    extensions: frozenset[str]
    heads: frozenset[str]
    ambiguous: frozenset[str]
    faceless: frozenset[str]
    stop: frozenset[str]

    @cached_property
    def hash(self) -> str:
        """Hash of the table and of the code that reads it (8 hex digits)."""
        return hash_strings(data.package_text("atoms.toml"), Path(__file__).read_text(encoding="utf-8"))[:8]


@cache
def atom_definition() -> AtomDefinition:
    """Load `data/atoms.toml`."""
    table = tomllib.loads(data.package_text("atoms.toml"))
    stop = {word for words in table.pop("stop").values() for word in words.split()}
    stop |= {word.rsplit(".", 1)[-1] for word in stop}
    lists = ("extensions", "heads", "ambiguous", "faceless")
    extensions, heads, ambiguous, faceless = (frozenset(table.pop(name).split()) for name in lists)
    return AtomDefinition(
        stop=frozenset(stop), extensions=extensions, heads=heads, ambiguous=ambiguous, faceless=faceless, **table
    )


class AtomExtractor:
    """Extracts the atoms of one line; `variant` chooses a stricter or looser definition."""

    def __init__(self, variant: AtomVariant = "strict") -> None:
        self.variant = variant
        self._made = atom_definition()
        self._stop = frozenset() if variant == "loose" else self._made.stop

    def __call__(self, line: str) -> frozenset[str]:
        """Return the atoms of a line."""
        found: set[str] = set()
        for match in _TOKEN.finditer(line):
            kind, text = match.lastgroup, match.group()
            if kind == "word":
                self._add_word_atoms(text, found)
            elif kind == "host":
                found.add(text.split("//", 1)[1])
            elif kind == "hash" or (text.isdecimal() and len(text) >= self._made.number_least):
                found.add(text)
        self._add_quoted_atoms(line, found)
        if self.variant == "segmentless":
            for match in _PATH.finditer(line):
                found -= set(match.group().split("/"))
                found.add(match.group().strip("/"))
        return frozenset(found)

    def _add_word_atoms(self, text: str, found: set[str]) -> None:
        """Add the atoms of a word: a file name, a dotted name, or those of its parts that look like identifiers."""
        text = text.rstrip(".-")
        if "." in text:
            parts = text.split(".")
            of_library = parts[0] in self._made.heads and self.variant != "loose"
            ending = parts[-1].lower()
            if (
                ending in self._made.extensions
                and len(text) > 4
                and not (of_library and ending in self._made.ambiguous)
            ):
                if text not in self._made.faceless or self.variant == "loose":
                    found.add(text)
                return
            if of_library:
                return
            if text not in self._stop and all(len(p) > 1 for p in parts):
                found.add(text)
        else:
            parts = [text]
        for part in parts:
            if len(part) >= self._made.word_least and part not in self._stop and self._is_identifier(part):
                found.add(part)

    def _is_identifier(self, word: str) -> bool:
        if self.variant == "loose" and len(word) >= 8:
            return True
        core = word.strip("_")
        if "_" in core or (word.startswith("_") and len(core) >= 4):
            return True
        if _INNER.search(word):
            return True
        return any(c.isdigit() for c in word) and not word.isdecimal()

    def _add_quoted_atoms(self, line: str, found: set[str]) -> None:
        least, most = self._made.quoted_least, self._made.quoted_most
        for match in _QUOTED.finditer(line):
            text = next(group for group in match.groups() if group is not None)
            if least <= len(text) <= most and " " in text.strip() and text[0].isalnum():
                found.add(text)
