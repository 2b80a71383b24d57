"""Plain rules that find the informative lines of a long text.

They look for error reports, totals, the first and last lines, definitions, and identifiers that are
relevant now.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate

from danshari.core.text import lazy_pattern

_ERROR = lazy_pattern(
    r"\b(?:errors?|fail(?:ed|ure|s|ing)?|exception|traceback|panic|fatal|abort(?:ed)?|assert(?:ion)?|denied|refused"
    r"|undefined|unresolved|mismatch|cannot|can't|could not|not found|no such|timed? ?out|killed|segfault|conflict)\b"
    r"|[A-Z][A-Za-z](?:Error|Exception|Warning)\b|^E   |✗|✘|❌|--- FAIL|FAILED|错误|失败|异常|警告",
    re.IGNORECASE,
)
_TOTAL = lazy_pattern(
    r"\b\d+ (?:passed|failed|tests?|files?|errors?|warnings?|matches|insertions|deletions|examples|skipped)\b"
    r"|\b(?:total|summary|exit (?:code|status)|returncode|Tests run|BUILD|coverage)\b"
    r"|^(?:ok|FAIL|PASS)\b|^=+ .* =+$|共 ?\d+",
    re.IGNORECASE,
)
_ERROR_STEMS = (
    "err", "fail", "exception", "traceback", "panic", "fatal", "abort", "assert", "denied", "refused", "undefined",
    "unresolved", "mismatch", "can", "not ", "such", "timed", "timeout", "killed", "segfault", "conflict", "warning",
    "e   ", "✗", "✘", "❌", "错误", "失败", "异常", "警告",
)  # fmt: skip
"""A line without any of these reports no error."""
_TOTAL_STEMS = (
    "passed", "fail", "test", "file", "error", "warning", "matches", "insertion", "deletion", "example", "skipped",
    "total", "summary", "exit", "returncode", "build", "coverage", "ok", "pass", "==", "共",
)  # fmt: skip
_IDENTIFIER_MARK = lazy_pattern(r"[A-Z0-9_]")
_DEFINITION = lazy_pattern(
    r"^\s*(?:\d+[:\-|→\t]\s*)?(?:export |public |private |static |async |pub |protected )*"
    r"(?:def|class|func|fn|function|interface|struct|type|enum|trait|impl|module|package|CREATE TABLE)\s+\w"
)
_FILE_AT_START = lazy_pattern(r"^([\w./@+-]+\.\w{1,8}|[\w.@+-]+/[\w./@+-]+)(?::\d+|$|\s)")
_DIGITS = lazy_pattern(r"\d+")
_WORD_CHARACTER = lazy_pattern(r"[\w.-]")
IDENTIFIER_PATTERN = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{3,}")
LONGEST_LINE = 600
"""Characters; a longer line is never kept whole, so it is never kept."""
MOST_READ = 1_000_000
"""Characters of one text that are read line by line; of a longer one only the two ends."""
_MOST_LINES = 20_000
"""Beyond this only the two ends are read by the plain rules."""


def readable_ends(text: str) -> str:
    """Return a text, or of one longer than `MOST_READ` the whole lines of its two ends."""
    if len(text) <= MOST_READ:
        return text
    half = MOST_READ // 2
    first = text.rfind("\n", 0, half) + 1 or half
    last = text.find("\n", len(text) - half) + 1 or len(text) - half
    return f"{text[:first]}\n{text[last:]}"


def readable_numbers(lines: Sequence[str]) -> Sequence[int]:
    """Return the 0-based numbers of the lines that are read: all, or those of the two ends, `MOST_READ` in all."""
    if sum(map(len, lines)) + len(lines) <= MOST_READ:
        return range(len(lines))
    first, last = 0, len(lines)
    for step in (1, -1):
        left = MOST_READ // 2
        while first < last and left > 0:
            left -= len(lines[first if step > 0 else last - 1]) + 1
            first, last = (first + 1, last) if step > 0 else (first, last - 1)
    return [*range(first), *range(last, len(lines))]


def find_identifiers(text: str) -> set[str]:
    """Return the words in `text` that look like identifiers (see `is_likely_identifier`)."""
    return set(filter(is_likely_identifier, IDENTIFIER_PATTERN.findall(text)))


def is_likely_identifier(word: str) -> bool:
    """Return whether a word looks like an identifier, by the loose rule used for scoring lines.

    It has six letters or more, or four with a capital, a digit or an underscore after the first letter.
    """
    return len(word) >= 6 or (len(word) >= 4 and bool(_IDENTIFIER_MARK.search(word, 1)))


def mark_error_lines(lines: Sequence[str]) -> list[bool]:
    """Return, for every line, whether it reports that something went wrong."""
    return _mark_lines(lines, _ERROR_STEMS, _ERROR)


def mark_total_lines(lines: Sequence[str]) -> list[bool]:
    """Return, for every line, whether it states a total or a summary."""
    return _mark_lines(lines, _TOTAL_STEMS, _TOTAL)


def _mark_lines(lines: Sequence[str], stems: Sequence[str], pattern: re.Pattern[str]) -> list[bool]:
    """Return, for every line, whether `pattern` matches it.

    Only lines that contain one of `stems` are searched, which is ten times faster than searching all.
    """
    text = "\n".join(lines).lower()
    starts = list(accumulate((len(line.lower()) + 1 for line in lines), initial=0))
    found = [False] * len(lines)
    searched = bytearray(len(lines))
    for stem in stems:
        at = text.find(stem)
        while at >= 0:
            number = bisect_right(starts, at) - 1
            if not searched[number]:
                searched[number] = 1
                found[number] = bool(pattern.search(lines[number]))
            at = text.find(stem, starts[number + 1])
    return found


def select_telling_lines(
    lines: Sequence[str], budget: int, wanted: Collection[str], *, head: int = 6, tail: int = 10
) -> list[int]:
    """Select the most informative lines that fit into `budget` characters; return ascending 0-based numbers.

    A line's score adds 2.5 for an error, 2 for a total, 1 for a definition or a new file, 1.2 for each
    `wanted` word (three at most), and up to 3 among the first `head` and last `tail` lines. A line that
    repeats an earlier form (digits aside) is divided by 1 + 0.7 per repetition.
    """
    order = _candidate_numbers(len(lines))
    scored: list[tuple[float, int]] = []
    shapes: dict[str, int] = {}
    files: set[str] = set()
    last = len(lines)
    read = [number for number in order if len(lines[number]) <= LONGEST_LINE and lines[number].strip()]
    texts = [lines[number] for number in read]
    errors, totals = _mark_lines(texts, (*_ERROR_STEMS, "time out"), _ERROR), mark_total_lines(texts)
    for number, line, error, total in zip(read, texts, errors, totals, strict=True):
        score = _score_line(line, wanted, 2.5 * error + 2.0 * total)
        if number < head:
            score += 3.0 - number * 0.2
        elif number >= last - tail:
            score += 3.0 - (last - number) * 0.1
        name = _FILE_AT_START.match(line)
        if name and name.group(1) not in files:
            files.add(name.group(1))
            score += 1.0
        shape = _DIGITS.sub("0", line.strip())[:80]
        seen = shapes.get(shape, 0)
        shapes[shape] = seen + 1
        scored.append((score / (1 + 0.7 * seen), number))
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    return _fill_budget(lines, scored, budget)


def _candidate_numbers(count: int) -> Sequence[int]:
    if count <= _MOST_LINES:
        return range(count)
    half = _MOST_LINES // 2
    return [*range(half), *range(count - half, count)]


def _score_line(line: str, wanted: Collection[str], score: float) -> float:
    """Add to a line's score what its form and its words are worth."""
    if _DEFINITION.match(line):
        score += 1.0
    if wanted:
        shared = len({word for word in IDENTIFIER_PATTERN.findall(line) if word in wanted})
        score += 1.2 * min(shared, 3)
    return score


def _fill_budget(lines: Sequence[str], scored: Sequence[tuple[float, int]], budget: int) -> list[int]:
    """Take lines by descending score while they fit into `budget` characters; return ascending numbers."""
    kept: list[int] = []
    left = budget
    for _, number in scored:
        cost = len(lines[number]) + 6
        if cost <= left:
            kept.append(number)
            left -= cost
        elif left < 40:
            break
    kept.sort()
    return kept


def is_source(lines: Sequence[str]) -> bool:
    """Return whether a text looks like source code: several definitions, mostly code-like lines."""
    sample = [line for line in lines[:400] if line.strip()]
    if len(sample) < 20:
        return False
    definitions = sum(1 for line in sample if _DEFINITION.match(line))
    shaped = sum(1 for line in sample if line[:1] in " \t" or line.rstrip()[-1:] in "{};:,)(")
    return definitions >= max(2, len(sample) // 80) and shaped > 0.6 * len(sample)


def text_ends(text: str, budget: int) -> tuple[str, str]:
    """Return the first 60 % and the last 40 % of `budget` characters.

    Both cuts lie between plain ASCII characters, so that no grapheme is split.
    """
    first = _safe_cut(text, budget * 3 // 5, -1)
    last = _safe_cut(text, max(len(text) - budget * 2 // 5, first), 1)
    return text[:first], text[last:]


def _safe_cut(text: str, at: int, step: int) -> int:
    """Move a cut by at most 200 characters, in direction `step`, to a place that splits no word.

    The place lies between two printable ASCII characters. Half a word would be a name that the source
    never contained.
    """
    for _ in range(200):
        if at <= 0 or at >= len(text):
            break
        before, after = text[at - 1], text[at]
        parts_word = _WORD_CHARACTER.match(before) and _WORD_CHARACTER.match(after)
        if " " <= before <= "~" and " " <= after <= "~" and before != "\\" and not parts_word:
            break
        at += step
    return max(0, min(at, len(text)))


def first_words(text: str, most: int) -> str:
    """Return the first whole words of a text, `most` characters at most, or an empty string if none fits."""
    words = " ".join(text.split())
    return words if len(words) <= most else words[: most + 1].rpartition(" ")[0]
