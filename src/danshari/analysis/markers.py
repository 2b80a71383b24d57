"""What texts give away: machine-made user text, rules, claims of the assistant, and what test runners print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_SENTENCE = re.compile(r"(?<=[.!?。！？；])\s+|(?<=[。！？；])|\n+")
_PLAIN = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One test runner: how its command is told, and which lines of its output say what."""

    name: str
    command: re.Pattern[str]
    status: re.Pattern[str]
    """Lines that sum up."""
    failed: re.Pattern[str]
    """Lines that name what failed."""
    message: re.Pattern[str]
    """Lines that say why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Markers:
    """The table `data/markers.toml`, compiled."""

    machine: re.Pattern[str]
    blocks: re.Pattern[str]
    imperative: re.Pattern[str]
    running: re.Pattern[str]
    ended: re.Pattern[str]
    handle: re.Pattern[str]
    cues: Mapping[str, re.Pattern[str]]
    done: frozenset[str] = frozenset()
    runners: tuple[Runner, ...] = field(default=())

    def own_words(self, text: str) -> str:
        """Give what a person wrote in a user-role text; empty if all of it is machine-made."""
        if self.machine.match(text.lstrip()):
            rest = self.blocks.sub("", text)
            return "" if rest == text or not rest.strip() or self.machine.match(rest.lstrip()) else rest.strip("\n")
        return self.blocks.sub("", text).strip("\n") if "<" in text else text

    def rules(self, text: str) -> list[str]:
        """List the lines of a text that bind."""
        return [line for line in text.split("\n") if self.imperative.search(line)]

    def runner(self, command: str) -> Runner | None:
        """Find the test runner a command line calls."""
        return next((r for r in self.runners if r.command.search(command)), None)


def sentences(text: str) -> Iterable[str]:
    """Split prose into sentences and list items, bare of bullets."""
    for part in _SENTENCE.split(text):
        sentence = _PLAIN.sub("", part).strip()
        if sentence:
            yield sentence
