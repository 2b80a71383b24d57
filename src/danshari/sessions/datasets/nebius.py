"""Reader of the nebius SWE-agent set.

The last fenced block of an `ai` text is the call, the next message its answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, RecordedSession, load_json_file, read_json_lines
from danshari.sessions.coding_agents.swe_agent import command_call
from danshari.sessions.script import ChatSessionWriter

_BLOCK = re.compile(r"```(?:\w*\n)?([\s\S]*?)```")
_OPEN = re.compile(r"^\(Open file: (.+)\)$", re.MULTILINE)
_TRY = re.compile(r"_\d+\Z")


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    row = first[0] if isinstance(first, list) and first else first
    steps = row.get("trajectory") if isinstance(row, dict) else None
    return isinstance(steps, list) and bool(steps) and isinstance(steps[0], dict) and "system_prompt" in steps[0]


def read_nebius_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per row."""
    if path.suffix == ".jsonl":
        rows: list[Any] = list(read_json_lines(path))
    else:
        data = load_json_file(path)
        rows = data if isinstance(data, list) else [data]
    for number, row in enumerate(rows, 1):
        name = (
            str(row.get("instance_id") or f"{path.stem}#{number}") if isinstance(row, dict) else f"{path.stem}#{number}"
        )
        session = RecordedSession(id=name, source="nebius", format="openai-chat")
        if not isinstance(row, dict) or not isinstance(row.get("trajectory"), list):
            session.malformed = 1
            yield session
            continue
        session.model, session.task = str(row.get("model_name") or ""), _TRY.sub("", name)
        session.outcome = float(row["target"]) if isinstance(row.get("target"), bool) else None
        yield _write_session(session, row["trajectory"])


def _write_session(session: RecordedSession, steps: list[Any]) -> RecordedSession:
    """Write the steps of one row into `session` as chat completions."""
    script, opened = ChatSessionWriter(session), ""
    for step in steps:
        if not isinstance(step, dict):
            session.malformed += 1
            continue
        text = str(step.get("text") or "")
        if step.get("role") == "system":
            script.system(str(step.get("system_prompt") or text))
        elif step.get("role") == "ai":
            blocks = list(_BLOCK.finditer(text))
            if blocks:
                name, arguments = command_call(blocks[-1].group(1).strip(), opened)
                script.assistant(text[: blocks[-1].start()].strip(), calls=[(script.make_call_id(), name, arguments)])
            else:
                script.assistant(text)
        elif waiting := script.oldest_open_call():
            found = _OPEN.search(text)
            opened = found.group(1) if found and found.group(1) != "n/a" else opened if not found else ""
            script.result(waiting, text)
        else:
            script.user(text)
    return script.finish()


READER = Reader(
    name="nebius",
    about="nebius SWE-agent trajectories, raw rows (*.json, *.jsonl)",
    suffixes=(".json", ".jsonl"),
    matches=_matches,
    read=read_nebius_file,
)
