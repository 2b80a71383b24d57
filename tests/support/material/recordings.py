"""Recorded sessions written to files and told in short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from danshari.formats import find_format
from danshari.sessions import RecordedSession


def write_lines(path: Path, *records: Any) -> Path:
    """Write records, or lines as they are, one a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records) + "\n", encoding="utf-8")
    return path


def write_records(path: Path, value: Any) -> Path:
    """Write JSON, or a list of records as lines where the name ends in .jsonl."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, str):
        text = value
    elif path.suffix == ".jsonl":
        text = "".join(json.dumps(r) + "\n" for r in value)
    else:
        text = json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return path


def tell_session(session: RecordedSession) -> list[str]:
    """Tell a session in short: role, text or calls."""
    found = []
    for m in session.messages:
        calls = [f"{c['function']['name']}({c['function']['arguments']})" for c in m.get("tool_calls", ())]
        found.append(" ".join(part for part in [m["role"], m.get("content") or "", *calls] if part))
    assert find_format(session.format).check(session.messages) == []
    return found
