"""Removal of terminal noise: escape sequences, overwritten progress lines, long runs of equal lines."""

from __future__ import annotations

from itertools import groupby, pairwise

from danshari.core.text import lazy_pattern

_ANSI = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
_PROGRESS = lazy_pattern(r"(?<![^\n\r])[^\n\r]*+\r(?=[^\n\r])")
_ERASED = lazy_pattern(r"[^\n\b]\x08")
_BACKSPACES = lazy_pattern(r"\x08+")
_MIN_EQUAL_LINES = 4
"""Equal lines in a row from which a run is written as one line and a count."""


CLEANED_KINDS = frozenset({"run", "search", "list", "job", "web", "other"})
"""Tools whose output is cleaned; what reads and edits show is file content and stays."""


def clean_terminal_output(text: str) -> str:
    """Remove terminal escapes and overwritten progress lines, and collapse long runs of equal lines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\x08" in text:
        text = _apply_backspaces(text)
    if "\r" in text:
        text = _PROGRESS.sub("", text.replace("\r\n", "\n"))
    return _collapse_equal_lines(text) if text.count("\n") >= _MIN_EQUAL_LINES else text


def _apply_backspaces(text: str) -> str:
    """Remove every backspace together with the character it takes back; none takes back a line end."""
    text = _ERASED.sub("", text)  # most of them, fast
    kept: list[tuple[str, int]] = []  # parts, and how many of each one's characters still stand
    at = 0
    for run in _BACKSPACES.finditer(text):
        if run.start() > at:
            kept.append((text[at : run.start()], run.start() - at))
        at, left = run.end(), run.end() - run.start()
        while left and kept and kept[-1][0][kept[-1][1] - 1] not in "\n\b":
            part, end = kept.pop()
            start = max(end - left, part.rfind("\n", max(end - left, 0), end) + 1, 0)
            left -= end - start
            if start:
                kept.append((part, start))
        if left:
            kept.append(("\b" * left, left))
    return "".join([*(part[:end] for part, end in kept), text[at:]])


def _collapse_equal_lines(text: str) -> str:
    """Replace four or more equal lines in a row by one line and a count; blank lines by two."""
    lines = text.split("\n")
    if not any(a == b for a, b in pairwise(lines)):
        return text
    out: list[str] = []
    for line, group in groupby(lines):
        count = sum(1 for _ in group)
        if count >= _MIN_EQUAL_LINES and line.strip():
            out += [line, f"[danshari: the line above stood {count} times in a row]"]
        elif count >= _MIN_EQUAL_LINES:
            out += [line] * 2
        else:
            out += [line] * count
    return "\n".join(out)
