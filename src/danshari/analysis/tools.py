"""What a tool call does: read, search, edit, run and so on.

It is decided by the table `data/tools.toml` and, for shell tools, by the command line.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from danshari.analysis.shell import parse_shell_line
from danshari.core.items import canonical_arguments
from danshari.core.text import parse_arguments

ToolKind = Literal[
    "read", "search", "list", "edit", "write", "run", "plan", "skill", "agent", "ask", "web", "job", "recall", "other"
]
TOOL_KINDS: tuple[str, ...] = get_args(ToolKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """One row of `data/tools.toml`: names (globs, any case), kind, and the argument keys that carry meaning."""

    match: tuple[str, ...]
    kind: ToolKind
    path: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    """Arguments that hold text which is on disk once the call succeeded."""
    old: tuple[str, ...] = ()
    """Arguments that quote text the agent must have seen."""
    command: tuple[str, ...] = ()
    lines: int = 0
    """Lines a read shows where the call names no end; 0: to the end of the file."""
    exact: bool = True
    """Whether the span of a read can be told from its arguments."""
    numbered: bool = False
    """Whether a read puts a number before every line on its own account, and edits quote text, not numbers."""
    commands: Mapping[str, ToolKind] = field(default_factory=dict)
    """Kinds of a tool with sub-commands, by the value of its `command` argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAction:
    """One parsed call: its kind, and the path with its 1-based line span or the command it runs."""

    kind: ToolKind
    path: str = ""
    start: int = 1
    end: int = 0
    """Last line shown; 0 means to the end of the file."""
    command: str = ""
    key: str = ""
    """Equal for two calls that ask the same thing."""
    exact: bool = True
    """Whether a read shows every line of its span."""
    relative: bool = False
    """Whether the path hangs on where a shell stood."""
    moves: bool = False
    """Whether the call may leave a shell standing elsewhere."""

    def covers(self, other: ToolAction) -> bool:
        """Return whether this read shows every line that the read `other` may have shown."""
        if not self.exact or self.path != other.path or self.start > other.start:
            return False
        return self.end == 0 or (other.end != 0 and other.end <= self.end)


_OTHER = ToolRow(match=(), kind="other")


class ToolTable:
    """The table of tool kinds; the first row whose glob matches a name wins."""

    def __init__(self, rows: Sequence[ToolRow], states: Mapping[str, str] | None = None) -> None:
        self.rows = tuple(rows)
        self.states = states or {}
        """Word for the state of an entry in a plan (lower case, spaces) → open, active or done."""
        self._found: dict[str, ToolRow] = {}

    def find_row(self, name: str) -> ToolRow:
        """Look a tool up by name; unknown tools are of kind `other`."""
        row = self._found.get(name)
        if row is None:
            short = name.lower().rsplit("__", 1)[-1] if name.startswith("mcp__") else name.lower()
            row = next((r for r in self.rows if any(fnmatchcase(short, m) for m in r.match)), _OTHER)
            self._found[name] = row
        return row

    def parse_call(self, name: str, arguments: str) -> ToolAction:
        """Parse one call from its tool name and its arguments (a JSON object, or any text)."""
        row = self.find_row(name)
        data = parse_arguments(arguments)
        key = f"{name}\0{canonical_arguments(arguments)}"
        if row.command:
            return self._parse_shell_call(row, data, arguments, key)
        kind = row.kind
        if row.commands:
            kind = row.commands.get(str(data.get("command", "")), kind)
        start, end = _line_span(data)
        if not end and row.lines:
            end = start + row.lines - 1
        exact = row.exact and not set(data) - _SPAN_KEYS - set(row.path)
        return ToolAction(kind=kind, path=_text_argument(data, row.path), start=start, end=end, key=key, exact=exact)

    def _parse_shell_call(self, row: ToolRow, data: Mapping[str, Any], arguments: str, key: str) -> ToolAction:
        """Parse a call of a shell tool by its command line."""
        command = _text_argument(data, row.command) or (arguments if not data else "")
        found = parse_shell_line(command)
        moves = bool(found.folder)
        if found.kind == "run":
            return ToolAction(kind=row.kind if not command else "run", command=command, key=key, moves=moves)
        folder = posixpath.join(_text_argument(data, ("workdir", "cwd")), found.folder)
        path = posixpath.normpath(posixpath.join(folder, found.path)) if found.path else ""
        return ToolAction(
            kind=found.kind, path=path, start=found.start, end=found.end, command=command, key=key, exact=found.exact,
            relative=bool(path) and not path.startswith("/"), moves=moves,
        )  # fmt: skip


_SPAN_KEYS = {"offset", "limit", "view_range", "start_line", "end_line", "line_number", "command", "description"}
"""Arguments of reads whose meaning is known; with any other a read covers nothing."""


def _text_argument(data: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Return the first text under one of `keys`; of a list `bash -lc ...` the last word, else all joined."""
    for key in keys:
        value = data.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value and all(isinstance(v, str) for v in value):
            return str(value[-1]) if value[0] in ("bash", "sh", "zsh") else " ".join(value)
    return ""


def _whole_number(value: Any) -> int | None:
    """Return a whole number from a JSON value, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else None


def _line_span(data: Mapping[str, Any]) -> tuple[int, int]:
    """Read a line span from the ways agents spell it: view_range, offset/limit, start_line/end_line, line."""
    span = data.get("view_range")
    if isinstance(span, list) and len(span) == 2:
        first, last = _whole_number(span[0]), _whole_number(span[1])
        if first is not None and last is not None:
            return max(first, 1), max(last, 0)
    first = next(
        (n for k in ("offset", "start_line", "line_number") if (n := _whole_number(data.get(k))) is not None), 1
    )
    last = next((n for k in ("end_line",) if (n := _whole_number(data.get(k))) is not None), 0)
    limit = _whole_number(data.get("limit"))
    if limit is not None and limit > 0:
        last = max(first, 1) + limit - 1
    return max(first, 1), max(last, 0)
