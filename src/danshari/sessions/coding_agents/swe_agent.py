"""Reader of SWE-agent `.traj` files: each step's action becomes a tool call, its observation the result.

Text-mode agents write their command into the reply, where it could not be told from other text. So the
list of steps is read, and the command becomes a call named after its first word.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, RecordedSession, chat_tool_call, load_json_file

_COMMANDS = {
    "open",
    "goto",
    "scroll_down",
    "scroll_up",
    "create",
    "edit",
    "insert",
    "find_file",
    "search_file",
    "search_dir",
    "submit",
    "str_replace_editor",
}


def _matches(records: list[Any]) -> bool:
    return bool(records) and isinstance(records[0], dict) and {"trajectory", "history"} <= records[0].keys()


def read_swe_agent_file(path: Path) -> Iterator[RecordedSession]:
    """Yield the one session of a file."""
    data = load_json_file(path)
    steps, history = data.get("trajectory"), data.get("history")
    if not isinstance(steps, list) or not isinstance(history, list):
        raise SessionError(f"{path}: `trajectory` and `history` must be lists")
    session = RecordedSession(id=path.stem, source="swe-agent", format="openai-chat")
    for entry in history:
        if isinstance(entry, dict) and entry.get("role") in ("system", "user") and not entry.get("action"):
            text = entry.get("content")
            session.messages.append(
                {"role": entry["role"], "content": text if isinstance(text, str) else json.dumps(text)}
            )
        else:
            break
    info = data.get("info")
    config = data.get("replay_config") or {}
    agent = config.get("agent") if isinstance(config, dict) else None
    model = agent.get("model") if isinstance(agent, dict) else None
    session.model = str(model.get("name", "")) if isinstance(model, dict) else ("gpt-4" if info else "")
    for number, step in enumerate(steps):
        if isinstance(step, dict) and isinstance(step.get("action"), str):
            _add_step(session, number, step)
        else:
            session.malformed += 1
    yield session


def _add_step(session: RecordedSession, number: int, step: dict[str, Any]) -> None:
    action = step["action"]
    response = step.get("thought") or step.get("response") or None
    call_id = f"step{number:04d}"
    name, arguments = command_call(action, _open_file(step.get("state")))
    session.messages.append(
        {"role": "assistant", "content": response, "tool_calls": [chat_tool_call(call_id, name, arguments)]}
    )
    session.messages.append(
        {"role": "tool", "tool_call_id": call_id, "content": str(step.get("observation") or "(no output)")}
    )


def _open_file(state: Any) -> str:
    try:
        state = json.loads(state) if isinstance(state, str) else state
    except ValueError:
        return ""
    path = state.get("open_file", "") if isinstance(state, dict) else ""
    return path if isinstance(path, str) and path != "n/a" else ""


def command_call(action: str, open_file: str) -> tuple[str, dict[str, Any]]:
    """Return the tool name and arguments for a SWE-agent command line."""
    first = action.strip().split(maxsplit=1)[0] if action.strip() else ""
    if first not in _COMMANDS:
        return "bash", {"command": action}
    arguments: dict[str, Any] = {"command": action}
    try:
        words = shlex.split(action.split("\n", 1)[0])[1:]
    except ValueError:
        words = action.split("\n", 1)[0].split()[1:]
    if first in ("open", "create") and words:
        arguments["path"] = words[0]
        if first == "open" and len(words) > 1 and words[1].isdecimal():
            arguments["line_number"] = int(words[1])
    elif first in ("edit", "goto", "scroll_down", "scroll_up", "insert", "search_file") and open_file:
        arguments["path"] = open_file
    return first, arguments


READER = Reader(
    name="swe-agent",
    about="SWE-agent trajectory (*.traj)",
    suffixes=(".traj", ".json"),
    matches=_matches,
    read=read_swe_agent_file,
)
