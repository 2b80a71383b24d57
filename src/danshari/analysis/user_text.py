"""Tell what a person wrote in a text of the user's role from what a program put there.

Clients send output of commands, files, hooks and notices under the user's role, in tags. What stands in such a tag
can hold tags itself, among them the end of its own: the borders are chosen so that it can not speak as the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Block(NamedTuple):
    """A stretch of a text that a program wrote."""

    start: int
    end: int
    tag: str
    inner: str
    """What stands between the tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTags:
    """The tags that clients use, and how their texts are read."""

    data: tuple[tuple[str, ...], ...]
    """Groups of tags around data: output, files, listings. Of a group, all from the first to the last tag is data."""
    notices: tuple[str, ...]
    """Tags around notices of the client itself; there can be several, with a person's words between them."""
    marks: re.Pattern[str]
    """Tags and phrases that leave alone: what they surround is a person's."""
    instructions: re.Pattern[str]
    """How a notice begins that hands over the project's instructions."""
    source: re.Pattern[str]
    """What in a line says that the text after it comes from elsewhere: a file, a tool, a page."""

    def find_blocks(self, text: str) -> list[Block]:
        """Return the blocks of a text in order; a tag that is never closed opens none."""
        if "<" not in text:
            return []
        groups = {tag: group for group in (*self.data, *((n,) for n in self.notices)) for tag in group}
        opening = re.compile(rf"<({'|'.join(map(re.escape, groups))})(?:\s[^<>]*)?>")
        last: dict[tuple[str, ...], int] = {}
        found: list[Block] = []
        at = 0
        while opened := opening.search(text, at):
            group = groups[opened[1]]
            if group not in last:
                last[group] = max(text.rfind(f"</{tag}>") for tag in group)
            close = last[group]
            if close >= opened.end() and opened[1] in self.notices:
                close = self._notice_end(text, opened[1], opened.end(), close)
            if close < opened.end():
                at = opened.end()
                continue
            at = text.index(">", close) + 1
            found.append(Block(opened.start(), at, opened[1], text[opened.end() : close]))
        return found

    def _notice_end(self, text: str, tag: str, start: int, last: int) -> int:
        """Return where a notice ends that begins at `start`, given the last closing tag of the text.

        Surplus closing tags belong to it. One that quotes something else ends at the last closing tag of all: what it
        quotes could close and open the tag again.
        """
        close = text.index(f"</{tag}>", start)
        if self._quotes(text[start:close]):
            return last
        follows = text.find(f"<{tag}>", close)
        return text.rindex(f"</{tag}>", close, follows if follows >= 0 else len(text))

    def _quotes(self, notice: str) -> bool:
        """Return whether a notice quotes something that is not the project's instructions."""
        return not self.instructions.match(notice.lstrip()) and any(map(self.source.search, notice.split("\n")))

    def strip_blocks(self, text: str) -> str:
        """Return a text without its blocks and marks."""
        kept, at = [], 0
        for block in self.find_blocks(text):
            kept.append(text[at : block.start])
            at = block.end
        return self.marks.sub("", "".join(kept) + text[at:])

    def instruction_lines(self, text: str) -> Iterator[str]:
        """Yield the lines in which the client itself speaks to the agent, in notices at the beginning of a text.

        A notice further in may have been pasted, and what a notice quotes from a file, a tool or a page is data,
        unless the notice is the one that hands over the project's instructions.
        """
        at = 0
        for block in self.find_blocks(text):
            if text[at : block.start].strip():
                return
            at = block.end
            if block.tag in self.notices:
                yield from self._own_lines(block.inner)
        if not at and self.instructions.match(text.lstrip()):
            yield from self._own_lines(text)

    def _own_lines(self, notice: str) -> Iterator[str]:
        """Yield the lines of a notice up to the first that announces a quotation."""
        trusted = bool(self.instructions.match(notice.lstrip()))
        for line in notice.split("\n"):
            if trusted:
                if line.startswith("Contents of ") and not self.instructions.match(line):
                    return
            elif self.source.search(line):
                return
            yield line
