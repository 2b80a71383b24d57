"""Small functions on texts: valid UTF-8, JSON arguments, patterns compiled on first use, blocks, bounded search."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any


def is_valid_text(text: str) -> bool:
    """Return whether `text` can be encoded as UTF-8 (no lone surrogates)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def cut_at_space(text: str, most: int) -> str:
    """Return at most `most` characters of a text, cut at a space: half a word would be a name nobody wrote."""
    return text if len(text) <= most else text[: most + 1].rpartition(" ")[0]


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced by question marks, so that it can be encoded as UTF-8."""
    return text if is_valid_text(text) else text.encode("utf-8", "replace").decode("utf-8")


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Parse call arguments; return an empty dict for anything but a JSON object."""
    try:
        data = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def is_json_object(text: str) -> bool:
    """Return whether `text` is a JSON object."""
    return bool(parse_arguments(text)) or "".join(text.split()) == "{}"


class _LazyPattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        for method in ("search", "match", "fullmatch", "sub", "split", "findall", "finditer", "pattern"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled on first use: the start of a process pays for none."""
    return _LazyPattern(pattern, flags)  # type: ignore[return-value]


class BlockPattern:
    """Blocks of a text, each given by an expression `opening.*?closing`, or by one without `.*?`.

    A plain expression looks for the closing once for every opening, to the end of the text: openings without one cost
    their number times the length. Here the first search in vain is the last for that closing.
    """

    def __init__(self, patterns: Sequence[str], flags: int = 0) -> None:
        """Compile the expressions; raises `re.error` for an invalid one."""
        parts = [_split_block(pattern, flags) for pattern in patterns]
        self._opening = re.compile("|".join(f"(?P<block{n}>{opening})" for n, (opening, _) in enumerate(parts)), flags)
        self._closings = {f"block{n}": re.compile(closing, flags) if closing else None
                          for n, (_, closing) in enumerate(parts)}  # fmt: skip

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of every block, from left to right, none inside another."""
        unclosed: set[str | None] = set()
        at = 0
        while found := self._opening.search(text, at):
            at, end = found.start() + 1, found.end()
            if found.lastgroup in unclosed:
                continue
            if (closing := self._closings[found.lastgroup or ""]) is not None:
                closed = closing.search(text, end)
                if closed is None:
                    unclosed.add(found.lastgroup)
                    continue
                end = closed.end()
            if end > found.start():
                yield found.start(), end
                at = end

    def findall(self, text: str) -> list[str]:
        """Return the blocks of a text."""
        return [text[start:end] for start, end in self.spans(text)]

    def sub(self, new: str, text: str) -> str:
        """Return the text with every block replaced by `new`."""
        parts, at = [], 0
        for start, end in self.spans(text):
            parts += [text[at:start], new]
            at = end
        return "".join([*parts, text[at:]]) if at else text


def _split_block(pattern: str, flags: int) -> tuple[str, str]:
    """Return the opening and the closing of an expression `opening.*?closing`; no closing where it is none."""
    opening, _, closing = pattern.partition(".*?")
    try:
        re.compile(opening, flags)
        re.compile(closing, flags)
    except re.error:
        return pattern, ""
    return opening, closing


_MOST_SCANNED = 200_000_000
"""Characters that one `ShownText` searches through in all, about a thousandth of a second a million."""


class ShownText:
    """A long text that many short ones are looked for in, at a bounded cost.

    While the cost is small, what stands anywhere in it is found. Beyond that only whole lines are.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._left = _MOST_SCANNED
        self._lines: frozenset[str] | None = None

    def __contains__(self, part: object) -> bool:
        """Return whether every line of `part` stands in the text, in one piece while that is cheap to tell."""
        if not isinstance(part, str):
            return False
        if self._left > 0:
            self._left -= len(self.text)
            return part in self.text
        if self._lines is None:
            self._lines = frozenset(map(str.strip, self.text.split("\n")))
        return all(line.strip() in self._lines for line in part.split("\n"))
