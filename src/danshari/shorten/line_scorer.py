"""Will a later action need this line? A small linear scorer over features that only the past decides.

Every feature sorts each line of a text into one of a few buckets; a line's score is the sum of its buckets' weights,
in log odds. Texts that read as code have one set of weights, everything else another. The weights are data
(`data/scorer.json`), learned from recorded sessions by `danshari train`; each text is scored once.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from danshari.analysis.facts import Facts
from danshari.analysis.first_seen import WORD, bare, parts_of
from danshari.analysis.lines import is_name, tell_errors, tell_totals
from danshari.core.line_weights import Weights, scored
from danshari.shorten.text_kind import (
    FILES,
    SHAPES,
    Shape,
    shape_of,
)

ROUNDS = 5
"""Rounds whose actions and words count as recent."""
_FORM = re.compile(
    r"(?P<definition>\s*(?:(?:export|default|public|private|protected|static|async|pub|final|abstract|unsafe)\s+)*"
    r"(?:(?:def|class|func|fn|function|interface|struct|type|enum|trait|impl|module|CREATE TABLE|describe|it|test)\b"
    r"\s*[\w(<\"']|(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:\(|function))|\#{2,4}\s"
    r"|\s*(?!(?:if|for|while|switch|return|else|catch|new|throw|do)\b)(?:[\w:<>,*&\[\]]+\s+)+[\w:~]+\s*\([^;{}]*\)"
    r"\s*(?:const|noexcept|override|final|throws [\w., ]+)?\s*\{\s*$)"
    r"|(?P<imports>\s*(?:import|from|using|require|use|package|\#include)\b)"
    r"|(?P<comment>\s*(?://|\#|\*|/\*|--|\"\"\"))"
    r"|(?P<control>\s*(?:(?:if|for|while|return|else|elif|switch|case|try|except|catch|defer|with|raise|throw)\b|[}\])]))"
)
_PATH = re.compile(r"[\w./@+-]{1,240}")
_FILE = re.compile(r"[\w@+-]{1,120}\.\w{1,8}\Z")
_FORMS = ("blank", "close", "definition", "imports", "comment", "control", "statement")
DEFINITION = _FORMS.index("definition")
"""Bucket of lines that define something."""
_FORM_READ = 300
"""Characters of a line that are looked at for its form."""
_FORM_NUMBER = {name: number for number, name in enumerate(_FORMS)}


@dataclass(slots=True)
class Reading:
    """One text cut into lines, with what the features ask for."""

    facts: Facts
    at: int
    lines: Sequence[str]
    kind: str
    now: int
    """Position before which actions and words count as recent."""
    shape: Shape = field(init=False)
    bare: list[str] = field(init=False)
    keys: list[str] = field(init=False)
    near_task: list[bool] = field(init=False)
    """Whether a line holds a name of the task that is not all over the text."""
    near_recent: list[bool] = field(init=False)
    """Likewise for names of recent actions."""
    counts: list[int] = field(init=False)
    """Four counts of words a line, eight bits each: names, unseen names, names on no other line, kin of the task."""

    def __post_init__(self) -> None:
        """Cut, and look every distinct word up once."""
        self.bare = [bare(line) for line in self.lines]
        self.shape = shape_of(self.bare if self.kind in FILES else self.lines, self.kind)
        self.keys = [line.strip() for line in self.bare]
        words = [set(WORD.findall(line)) for line in self.bare]
        holders = Counter(chain.from_iterable(words))
        past, at = self.facts.past, self.at
        past.grow(at)
        task, parts = past.task(self.now)
        recent = past.recent(self.now, ROUNDS)
        most = max(3, len(self.lines) // 60)
        packed: dict[str, int] = {}
        for word, count in holders.items():
            kin = (not parts.isdisjoint(parts_of(word))) << 24
            packed[word] = kin + (1 + (past.unseen(word, at) << 8) + ((count == 1) << 16) if is_name(word) else 0)
        self.counts = [sum(map(packed.__getitem__, line)) if len(line) < 256 else 0 for line in words]
        for_task = {word for word in holders.keys() & task if holders[word] <= most}
        for_recent = {word for word in holders.keys() & recent if holders[word] <= most}
        self.near_task = [not for_task.isdisjoint(line) for line in words]
        self.near_recent = [not for_recent.isdisjoint(line) for line in words]

    def counted(self, which: int) -> list[int]:
        """Give one of the four counts of every line."""
        shift = 8 * which
        return [count >> shift & 255 for count in self.counts]


def _distance(hit: Sequence[bool]) -> list[int]:
    """Give every line's distance to the nearest hit."""
    far = len(hit) + 100
    found, last = [], -far
    for number, is_hit in enumerate(hit):
        last = number if is_hit else last
        found.append(number - last)
    last = 2 * far
    for number in range(len(hit) - 1, -1, -1):
        last = number if hit[number] else last
        found[number] = min(found[number], last - number)
    return found


Column = Callable[[Reading], Sequence[int]]
CODE, TEXT = "code", "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One row: the buckets a feature sorts lines into, and how."""

    name: str
    buckets: tuple[str, ...]
    column: Column
    families: tuple[str, ...] = (CODE, TEXT)


def _by(values: Sequence[int], edges: Sequence[int]) -> list[int]:
    """Sort numbers into buckets: up to the first edge, up to the second, …, above the last."""
    top = edges[-1] + 1
    bucket = [bisect_right(edges, value - 1) for value in range(top + 1)]
    return [bucket[value] if value < top else len(edges) for value in values]


def _up_to(*edges: int) -> tuple[str, ...]:
    return (*(f"≤ {edge}" for edge in edges), f"> {edges[-1]}")


def _counted(name: str, edges: tuple[int, ...], values: Column, *families: str) -> Feature:
    chosen = families or (CODE, TEXT)
    return Feature(name=name, buckets=_up_to(*edges), column=lambda r: _by(values(r), edges), families=chosen)


def forms(r: Reading) -> list[int]:
    """Give what every line is, as a place in the buckets of the feature `form`."""
    found = []
    for line, key in zip(r.bare, r.keys, strict=True):
        if len(key) <= 3:
            found.append(1 if key else 0)
        else:
            match = _FORM.match(line[:_FORM_READ])
            found.append(_FORM_NUMBER[match.lastgroup or "statement"] if match else 6)
    return found


def _constant(bucket: Callable[[Reading], int]) -> Column:
    return lambda r: [bucket(r)] * len(r.lines)


def _size(r: Reading) -> int:
    return bisect_right((39, 149, 499), len(r.lines) - 1)


def _origin(r: Reading) -> int:
    if r.kind == "read":
        act = r.facts.act_at(r.at)
        return 1 if act and r.facts.viewed_before(r.at) else 0
    return 2 if r.kind in ("edit", "write") else 3


def file_of(key: str) -> str:
    """Give the name of the file with which a line begins; "" for none."""
    match = _PATH.match(key)
    named = _FILE.match(match.group().rstrip(".").rsplit("/", 1)[-1]) if match else None
    return named.group() if named else ""


def _paths(r: Reading) -> list[int]:
    """Sort lines that begin with a file: known or new, and how many lines named it before."""
    seen: dict[str, int] = {}
    found = []
    for key in r.keys:
        name = file_of(key)
        if not name:
            found.append(0)
            continue
        before = seen.get(name, 0)
        seen[name] = before + 1
        found.append(1 + 3 * r.facts.past.file(name, r.at) + bisect_right((0, 2), before - 1))
    return found


FEATURES: tuple[Feature, ...] = (
    Feature(name="shape", buckets=SHAPES, column=_constant(lambda r: SHAPES.index(r.shape)), families=(TEXT,)),
    Feature(name="origin", buckets=("first read", "read again", "shown by an edit", "printed"),
            column=_constant(_origin), families=(CODE,)),
    Feature(name="lines", buckets=_up_to(40, 150, 500), column=_constant(_size)),
    Feature(name="form", buckets=_FORMS, column=forms),
    _counted("indent", (0, 2, 4, 8, 12), lambda r: [len(b) - len(b.lstrip()) for b in r.bare]),
    _counted("from the top", (2, 9, 39), lambda r: list(range(len(r.lines)))),
    _counted("from the end", (2, 9), lambda r: list(range(len(r.lines) - 1, -1, -1))),
    Feature(name="error", buckets=("no", "yes"), column=lambda r: tell_errors(r.keys), families=(TEXT,)),
    Feature(name="total", buckets=("no", "yes"), column=lambda r: tell_totals(r.keys), families=(TEXT,)),
    _counted("names", (0, 1, 2, 4), lambda r: r.counted(0)),
    _counted("length", (10, 30, 60, 100, 200), lambda r: [len(k) for k in r.keys]),
    _counted("lines to a name of the task", (0, 1, 3, 8, 20), lambda r: _distance(r.near_task)),
    _counted("lines to a name of recent actions", (0, 1, 3, 8, 20), lambda r: _distance(r.near_recent)),
    _counted("words with a part of the task", (0, 1, 2, 3), lambda r: r.counted(3)),
    _counted("names never seen before", (0, 1, 2), lambda r: r.counted(1)),
    _counted("names on no other line", (0, 1, 2), lambda r: r.counted(2)),
    Feature(name="seen before", buckets=("no", "yes"), column=lambda r: [r.facts.past.line(k, r.at) for k in r.keys]),
    Feature(name="file", buckets=("none", "new", "new, ≤ 3", "new, more", "known", "known, ≤ 3", "known, more"),
            column=_paths, families=(TEXT,)),
)  # fmt: skip
"""Every feature of the scorer, one row each."""


def family_of(read: Reading) -> str:
    """Name the family whose weights a text uses: files, and what reads as source, are code."""
    return CODE if read.shape == "source" or (read.shape == "markup" and read.kind in FILES) else TEXT


def expected() -> dict[str, dict[str, int]]:
    """Give each family's features with their numbers of buckets."""
    return {family: {f.name: len(f.buckets) for f in FEATURES if family in f.families} for family in (CODE, TEXT)}


def reading(facts: Facts, at: int, lines: Sequence[str], *, now: int | None = None) -> Reading:
    """Read the lines of the result at `at` as they looked when it arrived, or as they look at position `now`."""
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    return Reading(facts, at, lines, kind, at if now is None else now)


def columns(read: Reading) -> dict[str, Sequence[int]]:
    """Give every feature's bucket for every line."""
    family = family_of(read)
    return {f.name: f.column(read) for f in FEATURES if family in f.families}


def score(read: Reading, weights: Weights) -> list[float]:
    """Give the log odds, line by line, that a later action needs it."""
    return scored(weights.families[family_of(read)], columns(read), len(read.lines))
