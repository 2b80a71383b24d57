"""Readers of recorded agent sessions, one module and one row of `READERS` each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, RecordedSession
from danshari.sessions.coding_agents import (
    aider,
    claude_code,
    cline,
    codex,
    entire,
    opencode,
    openhands,
    openhands_sdk,
    pi,
    swe_agent,
)
from danshari.sessions.datasets import (
    atif,
    chat_json,
    nebius,
    tau2,
    who_and_when,
)

READERS: tuple[Reader, ...] = (
    claude_code.READER,
    codex.READER,
    pi.READER,
    entire.READER,
    opencode.READER,
    cline.READER,
    atif.READER,
    openhands_sdk.READER,
    openhands.READER,
    tau2.READER,
    who_and_when.READER,
    nebius.READER,
    swe_agent.READER,
    aider.READER,
    chat_json.READER,
)
"""Tried in order; the most particular first."""
_PEEK_RECORDS = 40


def find_reader(path: Path) -> Reader:
    """Return the reader for a file. Raises SessionError that lists the known formats."""
    if path.is_dir():
        raise SessionError(f"{path}: is a folder; name one file")
    if not path.is_file():
        raise SessionError(f"{path}: no such file")
    records = _read_first_records(path)
    for reader in READERS:
        if path.suffix in reader.suffixes and reader.matches(records):
            return reader
    known = "".join(f"\n  {reader.about}" for reader in READERS)
    raise SessionError(f"{path}: not a recorded session that danshari reads{_describe_cause(path)}. Known:{known}")


def _describe_cause(path: Path) -> str:
    """Describe why a file could not be recognised, empty if that is not obvious."""
    data = path.read_bytes()
    if not data.strip():
        return " (the file is empty)"
    if path.suffix not in {s for reader in READERS for s in reader.suffixes}:
        return f" (files end in {', '.join(sorted({s for reader in READERS for s in reader.suffixes}))})"
    try:
        json.loads(data if path.suffix != ".jsonl" else data.split(b"\n", 1)[0])
    except UnicodeDecodeError:
        return " (it is no text)"
    except ValueError as error:
        return f" (no valid JSON: {error})"
    return ""


def _read_first_records(path: Path) -> list[Any]:
    """Read the first JSON records of a file (all of a JSON file), or the text of an aider history."""
    if path.suffix == ".md":
        text = path.read_text(encoding="utf-8", errors="replace")
        return [text] if "# aider chat started at " in text else []
    if path.suffix == ".jsonl":
        records = []
        with path.open("rb") as file:
            for line, _ in zip(file, range(_PEEK_RECORDS), strict=False):
                try:
                    records.append(json.loads(line))
                except ValueError:
                    continue
        return records
    try:
        return [json.loads(path.read_bytes())]
    except (ValueError, RecursionError):
        return []


def read(path: Path | str) -> Iterator[RecordedSession]:
    """Read all sessions of a file.

    Raises SessionError if it is no recorded session or holds no readable message.
    """
    path = Path(path)
    reader = find_reader(path)
    found = False
    for session in reader.read(path):
        found = found or bool(session.messages)
        yield session
    if not found and reader.name != "messages":
        raise SessionError(f"{path}: looks like a {reader.name} session but holds no message")


def session_files(paths: Iterable[Path]) -> list[Path]:
    """Return the given files and, for folders, all files below with a known suffix, sorted."""
    suffixes = {s for reader in READERS for s in reader.suffixes}
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(p for p in path.rglob("*") if p.suffix in suffixes and p.is_file())
        else:
            found.append(path)
    return found


def own_sessions(home: Path) -> list[Path]:
    """Return the sessions that Claude Code, Codex and pi store below a home folder, newest first."""
    patterns = (".claude/projects/*/*.jsonl", ".codex/sessions/**/rollout-*.jsonl", ".pi/agent/sessions/**/*.jsonl")
    found = [path for pattern in patterns for path in home.glob(pattern) if path.is_file()]
    return sorted(found, key=lambda p: p.stat().st_mtime, reverse=True)


__all__ = ["READERS", "Reader", "RecordedSession", "detect", "own_sessions", "read", "session_files"]
