"""Removal of terminal noise: escape sequences, overwritten progress lines, long runs of equal lines."""

from __future__ import annotations

from itertools import groupby, pairwise

from danshari.core.text import lazy_pattern

_ANSI = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
_PROGRESS = lazy_pattern(r"[^\n\r]*\r(?=[^\n\r])")
_BACKSPACE = lazy_pattern(r"[^\n\b]\x08")
_MIN_EQUAL_LINES = 4
"""Equal lines in a row from which a run is written as one line and a count."""


CLEANED_KINDS = frozenset({"run", "search", "list", "job", "web", "other"})
"""Tools whose output is cleaned; what reads and edits show is file content and stays."""


def clean_terminal_output(text: str) -> str:
    """Remove terminal escapes and overwritten progress lines, and collapse long runs of equal lines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\x08" in text:
        while (fewer := _BACKSPACE.sub("", text)) != text:
            text = fewer
    if "\r" in text:
        text = _PROGRESS.sub("", text.replace("\r\n", "\n"))
    return _collapse_equal_lines(text) if text.count("\n") >= _MIN_EQUAL_LINES else text


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
