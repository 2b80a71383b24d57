"""Score each line of a text by how likely a later action needs it, using only what came before.

Every feature sorts each line into one of a few buckets; a line's score is the sum of its buckets'
weights, in log odds. Code has one set of weights, other texts another. The weights are data
(`data/scorer.json`), learned from recorded sessions by `danshari train`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from danshari.analysis.facts import Facts
from danshari.analysis.first_seen import WORD_PATTERN, split_identifier, strip_line_number
from danshari.analysis.lines import is_likely_identifier, mark_error_lines, mark_total_lines
from danshari.core.line_weights import ScorerWeights, sum_bucket_weights
from danshari.core.text import lazy_pattern
from danshari.shorten.text_kind import (
    FILE_TOOL_KINDS,
    TEXT_SHAPES,
    TextShape,
    text_shape,
)

RECENT_ROUNDS = 5
"""Rounds whose actions and words count as recent."""
_FORM = lazy_pattern(
    r"(?P<definition>\s*+(?:(?:export|default|public|private|protected|static|async|pub|final|abstract|unsafe)\s+)*"
    r"(?:(?:def|class|func|fn|function|interface|struct|type|enum|trait|impl|module|CREATE TABLE|describe|it|test)\b"
    r"\s*[\w(<\"']|(?:const|let|var)\s+\w+\s*=\s*(?:async\s*)?(?:\(|function))|\#{2,4}\s"
    r"|\s*+(?!(?:if|for|while|switch|return|else|catch|new|throw|do)\b)(?:[\w:<>,*&\[\]]++\s++)+[\w:~]++\s*+\([^;{}]*\)"
    r"\s*+(?:const|noexcept|override|final|throws [\w., ]++)?\s*+\{\s*$)"
    r"|(?P<imports>\s*+(?:import|from|using|require|use|package|\#include)\b)"
    r"|(?P<comment>\s*+(?://|\#|\*|/\*|--|\"\"\"))"
    r"|(?P<control>\s*+(?:(?:if|for|while|return|else|elif|switch|case|try|except|catch|defer|with|raise|throw)\b|[}\])]))"
)
_PATH = lazy_pattern(r"[\w./@+-]{1,240}")
_FILE = lazy_pattern(r"[\w@+-]{1,120}\.\w{1,8}\Z")
_FORMS = ("blank", "close", "definition", "imports", "comment", "control", "statement")
DEFINITION_BUCKET = _FORMS.index("definition")
"""Bucket of lines that define something."""
_FORM_READ = 300
"""Characters of a line that are looked at for its form."""
_FORM_NUMBER = {name: number for number, name in enumerate(_FORMS)}


@dataclass(slots=True)
class LineContext:
    """One text cut into lines, with everything the features need."""

    facts: Facts
    at: int
    lines: Sequence[str]
    kind: str
    now: int
    """Position before which actions and words count as recent."""
    shape: TextShape = field(init=False)
    bare: list[str] = field(init=False)
    keys: list[str] = field(init=False)
    near_task: list[bool] = field(init=False)
    """Whether a line holds a name of the task that is not all over the text."""
    near_recent: list[bool] = field(init=False)
    """Likewise for names of recent actions."""
    counts: list[int] = field(init=False)
    """Four counts of words a line, eight bits each: names, unseen names, names on no other line, kin of the task."""

    def __post_init__(self) -> None:
        """Cut the text into words and look every distinct word up once."""
        self.bare = [strip_line_number(line) for line in self.lines]
        self.shape = text_shape(self.bare if self.kind in FILE_TOOL_KINDS else self.lines, self.kind)
        self.keys = [line.strip() for line in self.bare]
        words = [set(WORD_PATTERN.findall(line)) for line in self.bare]
        holders = Counter(chain.from_iterable(words))
        past, at = self.facts.past, self.at
        past.grow(at)
        task, parts = past.task_names(self.now)
        recent = past.recent_names(self.now, RECENT_ROUNDS)
        most = max(3, len(self.lines) // 60)
        packed: dict[str, int] = {}
        for word, count in holders.items():
            kin = (not parts.isdisjoint(split_identifier(word))) << 24
            packed[word] = kin + (
                1 + (past.is_new_word(word, at) << 8) + ((count == 1) << 16) if is_likely_identifier(word) else 0
            )
        self.counts = [sum(map(packed.__getitem__, line)) if len(line) < 256 else 0 for line in words]
        for_task = {word for word in holders.keys() & task if holders[word] <= most}
        for_recent = {word for word in holders.keys() & recent if holders[word] <= most}
        self.near_task = [not for_task.isdisjoint(line) for line in words]
        self.near_recent = [not for_recent.isdisjoint(line) for line in words]

    def word_counts(self, which: int) -> list[int]:
        """Return one of the four word counts of every line.

        0: names, 1: names never seen before, 2: names on no other line, 3: words that share a part with the
        task.
        """
        shift = 8 * which
        return [count >> shift & 255 for count in self.counts]


def _line_distances(hit: Sequence[bool]) -> list[int]:
    """Return every line's distance, in lines, to the nearest line marked True."""
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


FeatureColumn = Callable[[LineContext], Sequence[int]]
CODE_FAMILY, TEXT_FAMILY = "code", "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFeature:
    """One feature: the names of its buckets, the function that sorts lines into them, and its families."""

    name: str
    buckets: tuple[str, ...]
    column: FeatureColumn
    families: tuple[str, ...] = (CODE_FAMILY, TEXT_FAMILY)


def _bucket_values(values: Sequence[int], edges: Sequence[int]) -> list[int]:
    """Sort numbers into buckets: up to the first edge, up to the second, and so on, above the last."""
    top = edges[-1] + 1
    bucket = [bisect_right(edges, value - 1) for value in range(top + 1)]
    return [bucket[value] if value < top else len(edges) for value in values]


def _bucket_labels(*edges: int) -> tuple[str, ...]:
    return (*(f"≤ {edge}" for edge in edges), f"> {edges[-1]}")


def _count_feature(name: str, edges: tuple[int, ...], values: FeatureColumn, *families: str) -> LineFeature:
    chosen = families or (CODE_FAMILY, TEXT_FAMILY)
    return LineFeature(
        name=name, buckets=_bucket_labels(*edges), column=lambda r: _bucket_values(values(r), edges), families=chosen
    )


def line_forms(r: LineContext) -> list[int]:
    """Return, for every line, the bucket of its form: blank, definition, import, comment and so on."""
    found = []
    for line, key in zip(r.bare, r.keys, strict=True):
        if len(key) <= 3:
            found.append(1 if key else 0)
        else:
            match = _FORM.match(line[:_FORM_READ])
            found.append(_FORM_NUMBER[match.lastgroup or "statement"] if match else 6)
    return found


def _constant_column(bucket: Callable[[LineContext], int]) -> FeatureColumn:
    return lambda r: [bucket(r)] * len(r.lines)


def _line_count_bucket(r: LineContext) -> int:
    return bisect_right((39, 149, 499), len(r.lines) - 1)


def _origin_bucket(r: LineContext) -> int:
    if r.kind == "read":
        act = r.facts.act_at(r.at)
        return 1 if act and r.facts.has_earlier_view(r.at) else 0
    return 2 if r.kind in ("edit", "write") else 3


def leading_file_name(key: str) -> str:
    """Return the name of the file with which a line begins, or an empty string."""
    match = _PATH.match(key)
    named = _FILE.match(match.group().rstrip(".").rsplit("/", 1)[-1]) if match else None
    return named.group() if named else ""


def _path_buckets(r: LineContext) -> list[int]:
    """Return, for every line, the bucket of the file it begins with.

    The bucket tells none, new or known, and how often the file was named on earlier lines.
    """
    seen: dict[str, int] = {}
    found = []
    for key in r.keys:
        name = leading_file_name(key)
        if not name:
            found.append(0)
            continue
        before = seen.get(name, 0)
        seen[name] = before + 1
        found.append(1 + 3 * r.facts.past.has_file(name, r.at) + bisect_right((0, 2), before - 1))
    return found


SCORER_FEATURES: tuple[LineFeature, ...] = (
    LineFeature(
        name="shape",
        buckets=TEXT_SHAPES,
        column=_constant_column(lambda r: TEXT_SHAPES.index(r.shape)),
        families=(TEXT_FAMILY,),
    ),
    LineFeature(
        name="origin",
        buckets=("first read", "read again", "shown by an edit", "printed"),
        column=_constant_column(_origin_bucket),
        families=(CODE_FAMILY,),
    ),
    LineFeature(name="lines", buckets=_bucket_labels(40, 150, 500), column=_constant_column(_line_count_bucket)),
    LineFeature(name="form", buckets=_FORMS, column=line_forms),
    _count_feature("indent", (0, 2, 4, 8, 12), lambda r: [len(b) - len(b.lstrip()) for b in r.bare]),
    _count_feature("from the top", (2, 9, 39), lambda r: list(range(len(r.lines)))),
    _count_feature("from the end", (2, 9), lambda r: list(range(len(r.lines) - 1, -1, -1))),
    LineFeature(
        name="error", buckets=("no", "yes"), column=lambda r: mark_error_lines(r.keys), families=(TEXT_FAMILY,)
    ),
    LineFeature(
        name="total", buckets=("no", "yes"), column=lambda r: mark_total_lines(r.keys), families=(TEXT_FAMILY,)
    ),
    _count_feature("names", (0, 1, 2, 4), lambda r: r.word_counts(0)),
    _count_feature("length", (10, 30, 60, 100, 200), lambda r: [len(k) for k in r.keys]),
    _count_feature("lines to a name of the task", (0, 1, 3, 8, 20), lambda r: _line_distances(r.near_task)),
    _count_feature("lines to a name of recent actions", (0, 1, 3, 8, 20), lambda r: _line_distances(r.near_recent)),
    _count_feature("words with a part of the task", (0, 1, 2, 3), lambda r: r.word_counts(3)),
    _count_feature("names never seen before", (0, 1, 2), lambda r: r.word_counts(1)),
    _count_feature("names on no other line", (0, 1, 2), lambda r: r.word_counts(2)),
    LineFeature(
        name="seen before", buckets=("no", "yes"), column=lambda r: [r.facts.past.has_line(k, r.at) for k in r.keys]
    ),
    LineFeature(
        name="file",
        buckets=("none", "new", "new, ≤ 3", "new, more", "known", "known, ≤ 3", "known, more"),
        column=_path_buckets,
        families=(TEXT_FAMILY,),
    ),
)
"""Every feature of the scorer, one row each."""


def weight_family(read: LineContext) -> str:
    """Return the family whose weights a text uses.

    Source code, and markup shown by a file tool, are code; everything else is text.
    """
    return (
        CODE_FAMILY
        if read.shape == "source" or (read.shape == "markup" and read.kind in FILE_TOOL_KINDS)
        else TEXT_FAMILY
    )


def feature_bucket_counts() -> dict[str, dict[str, int]]:
    """Return the number of buckets of each family's features, by family and feature name."""
    return {
        family: {f.name: len(f.buckets) for f in SCORER_FEATURES if family in f.families}
        for family in (CODE_FAMILY, TEXT_FAMILY)
    }


def make_line_context(facts: Facts, at: int, lines: Sequence[str], *, now: int | None = None) -> LineContext:
    """Return the context of the lines of the result at `at`, as seen on arrival or at position `now`."""
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    return LineContext(facts, at, lines, kind, at if now is None else now)


def feature_columns(read: LineContext) -> dict[str, Sequence[int]]:
    """Return the bucket of every line, by feature."""
    family = weight_family(read)
    return {f.name: f.column(read) for f in SCORER_FEATURES if family in f.families}


def score_lines(read: LineContext, weights: ScorerWeights) -> list[float]:
    """Return, for every line, the log odds that a later action needs it."""
    return sum_bucket_weights(weights.families[weight_family(read)], feature_columns(read), len(read.lines))
