"""What a terminal leaves behind that no reader needs: escapes, overwritten progress lines, long runs of equal lines."""

from __future__ import annotations

import re
from itertools import groupby, pairwise

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")
_PROGRESS = re.compile(r"[^\n\r]*\r(?=[^\n\r])")
_BACKSPACE = re.compile(r"[^\n\b]\x08")
_REPEATS = 4
"""Equal lines in a row from which a run is written as one line and a count."""


CLEANED_KINDS = frozenset({"run", "search", "list", "job", "web", "other"})
"""Tools whose output is cleaned; what reads and edits show is file content and stays."""


def cleaned(text: str) -> str:
    """Take out terminal escapes, overwritten progress lines and long runs of equal lines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "\x08" in text:
        while (fewer := _BACKSPACE.sub("", text)) != text:
            text = fewer
    if "\r" in text:
        text = _PROGRESS.sub("", text.replace("\r\n", "\n"))
    return _runs(text) if text.count("\n") >= _REPEATS else text


def _runs(text: str) -> str:
    lines = text.split("\n")
    if not any(a == b for a, b in pairwise(lines)):
        return text
    out: list[str] = []
    for line, group in groupby(lines):
        count = sum(1 for _ in group)
        if count >= _REPEATS and line.strip():
            out += [line, f"[danshari: the line above stood {count} times in a row]"]
        elif count >= _REPEATS:
            out += [line] * 2
        else:
            out += [line] * count
    return "\n".join(out)
