"""First positions of words, lines and file names in a conversation, and names in recent texts.

With them a feature of an item depends only on what came before it. The index is built when it is
first asked for, so conversations in which no line is scored do not pay for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from danshari.analysis.lines import is_likely_identifier
from danshari.analysis.tools import ToolAction
from danshari.core.items import Item
from danshari.core.text import lazy_pattern

WORD_PATTERN = lazy_pattern(r"[A-Za-z_]\w{2,}")
_WORD_PARTS = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LINE_NUMBER = lazy_pattern(r"\s{0,12}\d{1,9}(?:→|\t|\| ?|:(?!\d)|-(?!\d)\s?)")
_MAX_INDEXED = 200_000
"""Characters of one result that are indexed."""
MIN_LINE_CHARACTERS = 7
"""Characters from which a line counts as seen before."""
_TASK_CHARACTERS, _ACTION_CHARACTERS = 8_000, 6_000
"""Characters of the user's words, and of each recent action, that are read for names."""


def strip_line_number(line: str) -> str:
    """Return a line without the number that a file or search tool put in front of it, in any common form."""
    if line[:1] in " 123456789" and (number := _LINE_NUMBER.match(line)):
        return line[number.end() :]
    return line


@lru_cache(maxsize=65_536)
def split_identifier(word: str) -> tuple[str, ...]:
    """Split an identifier at capitals and underscores; return the lower-case parts of three letters or more."""
    return tuple(part.lower() for part in _WORD_PARTS.findall(word) if len(part) > 2)


class FirstSeen:
    """First positions of words, stripped lines and file names, and the names in recent texts."""

    __slots__ = ("_acts", "_at", "_files", "_items", "_lines", "_lines_at", "_recent", "_tasks", "_users", "_words")

    def __init__(self, items: Sequence[Item], acts: Mapping[int, ToolAction], users: Sequence[int]) -> None:
        self._items, self._acts, self._users = items, acts, users
        self._at = self._lines_at = 0
        self._words: dict[str, int] = {}
        self._lines: dict[int, int] = {}
        """Hash of a line → first position: the texts themselves would weigh more than the conversation."""
        self._files: dict[str, int] = {}
        self._recent: tuple[int, int, set[str]] = (-1, 0, set())
        """Newest assistant item, turn before the first round, names: all results of a round share them."""
        self._tasks: dict[tuple[int, int], tuple[frozenset[str], frozenset[str]]] = {}

    def grow(self, until: int) -> None:
        """Index the items before position `until`: words, lines and file names."""
        for at in range(self._at, until):
            item = self._items[at]
            if item.kind == "call":
                if path := self._acts[at].path:
                    self._files.setdefault(path.rsplit("/", 1)[-1], at)
            elif item.kind == "result":
                for word in set(WORD_PATTERN.findall(item.text[:_MAX_INDEXED])):
                    self._words.setdefault(word, at)
        self._at = max(self._at, until)
        self.grow_lines(until)

    def grow_lines(self, until: int) -> None:
        """Index only the lines of the items before position `until`, which costs half as much."""
        first = self._lines.setdefault
        for at in range(self._lines_at, until):
            item = self._items[at]
            if item.kind == "result":
                for line in item.text[:_MAX_INDEXED].split("\n"):
                    key = strip_line_number(line).strip()
                    if len(key) >= MIN_LINE_CHARACTERS:
                        first(hash(key), at)
        self._lines_at = max(self._lines_at, until)

    def is_new_word(self, word: str, at: int) -> bool:
        """Return whether no result before position `at` contained the word."""
        return self._words.get(word, at) >= at

    def has_line(self, line: str, at: int) -> bool:
        """Return whether a result before position `at` contained the stripped line."""
        return self._lines.get(hash(line), at) < at

    def has_file(self, name: str, at: int) -> bool:
        """Return whether a call before position `at` concerned a file with this base name."""
        return self._files.get(name, at) < at

    def task_names(self, at: int) -> tuple[frozenset[str], frozenset[str]]:
        """Return what the first and the newest user text before position `at` name.

        The result is the identifiers, and the lower-case parts of all words.
        """
        before = [user for user in self._users if user < at]
        ends = (before[0], before[-1]) if before else (-1, -1)
        if ends not in self._tasks:
            words = {
                w for user in set(ends) - {-1} for w in WORD_PATTERN.findall(self._items[user].text[:_TASK_CHARACTERS])
            }
            parts = frozenset(part for word in words for part in split_identifier(word))
            self._tasks[ends] = (frozenset(filter(is_likely_identifier, words)), parts)
        return self._tasks[ends]

    def recent_names(self, at: int, rounds: int) -> set[str]:
        """Return the identifiers that the agent wrote in the newest `rounds` rounds before position `at`."""
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
                    found.update(filter(is_likely_identifier, WORD_PATTERN.findall(item.text[:_ACTION_CHARACTERS])))
            self._recent = (newest, since, found)
        return self._recent[2]
