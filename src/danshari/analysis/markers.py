"""Patterns that classify texts.

They tell machine-made user texts, binding rules, claims of the assistant, and the output of test
runners.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from danshari.analysis.user_text import BlockTags
from danshari.core.text import lazy_pattern

_SENTENCE = lazy_pattern(r"(?<=[.!?。！？；])\s+|(?<=[。！？；])|\n+")
_BULLET = lazy_pattern(r"^\s*(?:[-*+•]|\d+[.)])\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """One test runner: patterns for its command line and for the telling lines of its output."""

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
    """The patterns of `data/markers.toml`, compiled."""

    machine: re.Pattern[str]
    tags: BlockTags
    imperative: re.Pattern[str]
    running: re.Pattern[str]
    ended: re.Pattern[str]
    handle: re.Pattern[str]
    cues: Mapping[str, re.Pattern[str]]
    done: frozenset[str] = frozenset()
    runners: tuple[Runner, ...] = field(default=())

    def human_text(self, text: str) -> str:
        """Return what a person wrote in a user-role text; empty if all of it is machine-made."""
        if self.machine.match(text.lstrip()):
            rest = self.tags.strip_blocks(text)
            return "" if rest == text or not rest.strip() or self.machine.match(rest.lstrip()) else rest.strip("\n")
        return self.tags.strip_blocks(text).strip("\n") if "<" in text or "[" in text else text

    def client_rules(self, text: str) -> list[str]:
        """Return the binding lines that the client itself put into a user-role text."""
        return [line for line in self.tags.instruction_lines(text) if self.imperative.search(line)]

    def binding_lines(self, text: str) -> list[str]:
        """Return the lines of a text that state a rule (must, never, always ...)."""
        return [line for line in text.split("\n") if self.imperative.search(line)]

    def find_runner(self, command: str) -> Runner | None:
        """Return the test runner that a command line calls, or None."""
        return next((r for r in self.runners if r.command.search(command)), None)


def split_sentences(text: str) -> Iterable[str]:
    """Split prose into sentences and list items, without bullets."""
    for part in _SENTENCE.split(text):
        sentence = _BULLET.sub("", part).strip()
        if sentence:
            yield sentence
