"""What kind of text a result is (source, diff, log, table ...), judged by its tool and its lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from danshari.analysis.lines import is_source
from danshari.core.text import lazy_pattern

TextShape = Literal["source", "diff", "tests", "log", "json", "table", "hits", "listing", "markup", "prose"]
TEXT_SHAPES: tuple[TextShape, ...] = get_args(TextShape)
FILE_TOOL_KINDS = ("read", "edit", "write")
"""Kinds of tools whose results show a file."""
_NO_CODE = ("diff", "log", "table", "markup")
"""What a file may be that does not read as source, by all rules but the last."""
_SAMPLE_LINES = 400
"""Lines that are looked at."""
_SAMPLE_CHARACTERS = 300
"""Characters of a line that are looked at."""
_MOST_JSON = 2_000_000
"""Characters of a text that is parsed to see whether it is JSON."""
_DIFF = lazy_pattern(r"(?:diff --git |@@ -\d|\+\+\+ |--- (?:a/|/dev/null))")
_TESTS = lazy_pattern(
    r"^(?>.*?= )(?>.*?(?:passed|failed|error)).* =+$|^(?:---|===) (?:FAIL|PASS|RUN)|^(?:ok|FAIL)\s+\S+\s+[\d.(]"
    r"|Tests?(?:s run| Suites)?: +\d|^FAILED \S+::|^test result: |^Ran \d+ tests? in|^\s*(?:✓|✗|✘) |^not ok \d"
    r"|^Traceback \(most recent call last\)"
)
_LEVEL = lazy_pattern(r"\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|TRACE)\b|\d\d:\d\d:\d\d")
_HIT = lazy_pattern(r"[\w./@+-]+\.\w{1,8}[:\-]\d+[:\-]|[\w./@+-]+/[\w.@+-]+:")
_ENTRY = lazy_pattern(r"(?:[dlcbps-][rwxsStT-]{9}|\d+\s+\S+$|[\w./@+ -]*[\w@+-](?:/|\.\w{1,8})$|[│├└─ ]+\S)")
_MARKUP = lazy_pattern(r"#{1,6} \S|\s*[-*] \S|\s*</?[a-zA-Z][\w-]*[ />]|```|\|.*\|$|> ")
_TABLE = lazy_pattern(r"[^|\t,;]+[|\t;,][^|\t,;]+[|\t;,][^|\t,;]")


def text_shape(lines: Sequence[str], kind: str) -> TextShape:
    """Return the kind of text; `kind` is that of the tool which produced it."""
    sample = [line[:_SAMPLE_CHARACTERS] for line in lines[:_SAMPLE_LINES] if line.strip()]
    if kind == "search":
        return "hits"
    if kind == "list":
        return "listing"
    if _is_json(lines):
        return "json"
    if kind in FILE_TOOL_KINDS:
        if is_source(lines):
            return "source"
        return next((shape for shape, holds in _RULES[:-1] if shape in _NO_CODE and holds(sample, lines)), "source")
    return next((shape for shape, holds in _RULES if holds(sample, lines)), "prose")


def _match_share(sample: Sequence[str], pattern: re.Pattern[str]) -> float:
    """Return the share of lines, 0 to 1, whose beginning matches the pattern."""
    return sum(1 for line in sample if pattern.match(line)) / max(len(sample), 1)


def _is_json(lines: Sequence[str]) -> bool:
    first = next((line.strip() for line in lines if line.strip()), "")
    if first[:1] not in "{[" or not first or sum(map(len, lines)) > _MOST_JSON:
        return False
    try:
        return isinstance(json.loads("\n".join(lines)), dict | list)
    except (ValueError, RecursionError):
        return False


def _has_match(sample: Sequence[str], pattern: re.Pattern[str]) -> bool:
    """Return whether one of the first or last 60 lines matches the pattern."""
    return any(pattern.search(line) for line in (*sample[:60], *(line[:_SAMPLE_CHARACTERS] for line in sample[-60:])))


_RULES: tuple[tuple[TextShape, Callable[[Sequence[str], Sequence[str]], bool]], ...] = (
    ("diff", lambda sample, _: sum(1 for line in sample if _DIFF.match(line)) >= 2),
    ("tests", lambda sample, lines: _has_match([*sample, *lines[-60:]], _TESTS)),
    ("hits", lambda sample, _: len(sample) > 2 and _match_share(sample, _HIT) > 0.6),
    ("source", lambda _, lines: is_source(lines)),
    ("log", lambda sample, _: sum(1 for line in sample if _LEVEL.search(line)) > 0.3 * len(sample)),
    ("listing", lambda sample, _: len(sample) > 2 and _match_share(sample, _ENTRY) > 0.7),
    ("table", lambda sample, _: len(sample) > 3 and _match_share(sample, _TABLE) > 0.8),
    ("markup", lambda sample, _: _match_share(sample, _MARKUP) > 0.3),
    ("prose", lambda sample, _: sum(map(len, sample)) > 90 * len(sample)),
    ("log", lambda sample, _: len(sample) > 8),
)
"""Tried in order; what none holds for is prose."""
