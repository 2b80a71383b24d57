"""What had been seen and said when an item arrived: asked for a position, it answers from what came strictly before.

Grown only when asked, so that conversations without anything to score pay nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from danshari.analysis.lines import is_name
from danshari.analysis.tools import Act
from danshari.core.items import Item

WORD = re.compile(r"[A-Za-z_]\w{2,}")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NUMBERED = re.compile(r"\s{0,12}\d{1,9}(?:→|\t|\| ?|:(?!\d)|-(?!\d)\s?)")
_LONGEST = 200_000
"""Characters of one result that are indexed."""
LEAST = 7
"""Characters from which a line counts as seen before."""
_TASK, _ACTION = 8_000, 6_000
"""Characters of the user's words, and of each recent action, that are read for names."""


def bare(line: str) -> str:
    """Give a line without the number a tool put before it."""
    if line[:1] in " 123456789" and (number := _NUMBERED.match(line)):
        return line[number.end() :]
    return line


@lru_cache(maxsize=65_536)
def parts_of(word: str) -> tuple[str, ...]:
    """Split an identifier into lower-case words of three letters and more."""
    return tuple(part.lower() for part in _PARTS.findall(word) if len(part) > 2)


class Past:
    """First positions of words, stripped lines and file names, and what was wanted when."""

    __slots__ = ("_acts", "_at", "_files", "_items", "_lines", "_lines_at", "_recent", "_tasks", "_users", "_words")

    def __init__(self, items: Sequence[Item], acts: Mapping[int, Act], users: Sequence[int]) -> None:
        self._items, self._acts, self._users = items, acts, users
        self._at = self._lines_at = 0
        self._words: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._files: dict[str, int] = {}
        self._recent: tuple[int, int, set[str]] = (-1, 0, set())
        """Newest assistant item, turn before the first round, names: all results of a round share them."""
        self._tasks: dict[tuple[int, int], tuple[frozenset[str], frozenset[str]]] = {}

    def grow(self, until: int) -> None:
        """Take in the items before position `until`."""
        for at in range(self._at, until):
            item = self._items[at]
            if item.kind == "call":
                if path := self._acts[at].path:
                    self._files.setdefault(path.rsplit("/", 1)[-1], at)
            elif item.kind == "result":
                for word in set(WORD.findall(item.text[:_LONGEST])):
                    self._words.setdefault(word, at)
        self._at = max(self._at, until)
        self.grow_lines(until)

    def grow_lines(self, until: int) -> None:
        """Take in only the lines of the items before position `until`: half the work, enough for density."""
        first = self._lines.setdefault
        for at in range(self._lines_at, until):
            item = self._items[at]
            if item.kind == "result":
                for line in item.text[:_LONGEST].split("\n"):
                    key = bare(line).strip()
                    if len(key) >= LEAST:
                        first(key, at)
        self._lines_at = max(self._lines_at, until)

    def unseen(self, word: str, at: int) -> bool:
        """Say whether no result before position `at` held the word."""
        return self._words.get(word, at) >= at

    def line(self, line: str, at: int) -> bool:
        """Say whether a result before position `at` held the stripped line."""
        return self._lines.get(line, at) < at

    def file(self, name: str, at: int) -> bool:
        """Say whether a call before position `at` concerned a file of that name."""
        return self._files.get(name, at) < at

    def task(self, at: int) -> tuple[frozenset[str], frozenset[str]]:
        """Give the names, and the parts of all words, in the first and the newest user text before position `at`."""
        before = [user for user in self._users if user < at]
        ends = (before[0], before[-1]) if before else (-1, -1)
        if ends not in self._tasks:
            words = {w for user in set(ends) - {-1} for w in WORD.findall(self._items[user].text[:_TASK])}
            parts = frozenset(part for word in words for part in parts_of(word))
            self._tasks[ends] = (frozenset(filter(is_name, words)), parts)
        return self._tasks[ends]

    def recent(self, at: int, rounds: int) -> set[str]:
        """Collect the names in what the agent wrote during the newest `rounds` rounds before position `at`."""
        newest = at - 1
        while newest >= 0 and self._items[newest].role != "assistant":
            newest -= 1
        since = self._items[at].turn - rounds
        if self._recent[:2] != (newest, since):
            found: set[str] = set()
            for position in range(newest, -1, -1):
                item = self._items[position]
                if item.turn <= since:
                    break
                if item.role == "assistant":
                    found.update(filter(is_name, WORD.findall(item.text[:_ACTION])))
            self._recent = (newest, since, found)
        return self._recent[2]
