"""Reader of plain message files: a list, a whole request, mini-swe-agent, tau-bench, one message per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import FormatError, SessionError
from danshari.formats import FORMATS, detect_format
from danshari.sessions.base import Reader, RecordedSession, load_json_file, read_json_values

_LIST_KEYS = (*dict.fromkeys(wire.key for wire in FORMATS.values()), "before", "traj")
"""Where a list of messages stands in a request of any provider, or in a dataset's record."""
_MESSAGE_FIELDS = {
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "refusal",
    "function_call",
    "reasoning_content",
    "type",
    "audio",
}
_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and (
        value.get("role") in _ROLES
        or "call_id" in value
        or value.get("type") == "reasoning"
        or any(wire.is_own_message(value) for wire in FORMATS.values())
    )


def _find_messages(value: Any) -> list[Any] | None:
    """Return the list of messages in a value of any known shape, else None."""
    if isinstance(value, list) and value and _is_message(value[0]):
        return value
    if isinstance(value, dict):
        for key in _LIST_KEYS:
            found = value.get(key)
            if isinstance(found, list) and found and _is_message(found[0]):
                return found
    return None


def _matches(records: list[Any]) -> bool:
    if not records:
        return False
    first = records[0]
    if isinstance(first, list):
        return not first or _is_message(first[0]) or _find_messages(first[0]) is not None
    return _find_messages(first) is not None or _is_message(first)


def read_messages_file(path: Path) -> Iterator[RecordedSession]:
    """Yield every list of messages in the file."""
    if path.suffix == ".jsonl":
        yield from _read_lines(path)
        return
    data = load_json_file(path)
    if isinstance(data, list) and not data:
        yield RecordedSession(id=path.stem, source="messages", format="openai-chat", notes=["the list is empty"])
        return
    found = _find_messages(data)
    if found is not None:
        yield _build_session(path.stem, found, data)
        return
    several = [(n, _find_messages(v), v) for n, v in enumerate(data if isinstance(data, list) else ())]
    if not any(messages for _, messages, _ in several):
        raise SessionError(f"{path}: no list of messages inside (looked for a list, and under {', '.join(_LIST_KEYS)})")
    for number, messages, record in several:
        if messages:
            yield _build_session(f"{path.stem}#{number + 1}", messages, record)


def _read_lines(path: Path) -> Iterator[RecordedSession]:
    """Yield a session per line that holds a list. Lines that are single messages form one session."""
    single: list[Any] = []
    malformed = 0
    number = 0
    for record in read_json_values(path):
        if record is None:
            malformed += 1
        elif (messages := _find_messages(record)) is not None:
            number += 1
            yield _build_session(f"{path.stem}#{number}", messages, record)
        elif _is_message(record):
            single.append(record)
        else:
            malformed += 1
    if single or malformed:
        session = _build_session(path.stem, single, {})
        session.malformed += malformed
        yield session


def _build_session(name: str, messages: list[Any], record: Any) -> RecordedSession:
    """Build a session from messages. `record` is where they were found: it may name model and task."""
    kept = [m for m in messages if _is_message(m)]
    try:
        format_name = detect_format(kept)[0].name
    except FormatError as error:
        raise SessionError(f"{name}: {error}") from None
    model = ""
    if isinstance(record, dict):
        info = record.get("info")
        config = info.get("config") if isinstance(info, dict) else None
        chosen = config.get("model") if isinstance(config, dict) else record.get("model")
        model = str(chosen.get("model_name", "")) if isinstance(chosen, dict) else str(chosen or "")
    if format_name == "openai-chat":
        kept = [
            {k: v for k, v in m.items() if k in _MESSAGE_FIELDS and not (k != "content" and v is None)} for m in kept
        ]
    made = RecordedSession(
        id=name, source="messages", format=format_name, messages=kept, model=model, malformed=len(messages) - len(kept)
    )
    if isinstance(record, dict):
        _set_labels(made, record)
    return made


def _set_labels(made: RecordedSession, record: dict[str, Any]) -> None:
    """Set task and outcome from the fields of tau-bench and mini-swe-agent."""
    if "task_id" in record and "reward" in record:
        made.task = f"{made.id.split('#', 1)[0]}:{record['task_id']}"
    elif isinstance(record.get("instance_id"), str):
        made.task = record["instance_id"]
    for key in ("reward", "resolved", "success", "target"):
        if isinstance(record.get(key), bool | int | float):
            made.outcome = float(record[key])


READER = Reader(
    name="messages",
    about="messages or requests of any provider; mini-swe-agent; tau-bench (.json, .jsonl)",
    suffixes=(".json", ".jsonl"),
    matches=_matches,
    read=read_messages_file,
)
