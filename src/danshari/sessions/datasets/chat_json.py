"""Plain message files: a list of messages, a whole request, mini-swe-agent, tau-bench, one message per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import FormatError, SessionError
from danshari.formats import detect
from danshari.sessions.base import Reader, Recorded, lines, load

_LISTS = ("messages", "input", "before", "traj")
_SENT = {
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
        value.get("role") in _ROLES or "call_id" in value or value.get("type") == "reasoning"
    )


def _listed(value: Any) -> list[Any] | None:
    """Find the list of messages in a value of any shape this reader knows."""
    if isinstance(value, list) and value and _is_message(value[0]):
        return value
    if isinstance(value, dict):
        for key in _LISTS:
            found = value.get(key)
            if isinstance(found, list) and found and _is_message(found[0]):
                return found
    return None


def _matches(records: list[Any]) -> bool:
    if not records:
        return False
    first = records[0]
    if isinstance(first, list):
        return not first or _is_message(first[0]) or _listed(first[0]) is not None
    return _listed(first) is not None or _is_message(first)


def read(path: Path) -> Iterator[Recorded]:
    """Yield every list of messages in the file."""
    if path.suffix == ".jsonl":
        yield from _from_lines(path)
        return
    data = load(path)
    if isinstance(data, list) and not data:
        yield Recorded(id=path.stem, source="messages", format="openai-chat", notes=["the list is empty"])
        return
    found = _listed(data)
    if found is not None:
        yield _recorded(path.stem, found, data)
        return
    several = [(n, _listed(v), v) for n, v in enumerate(data if isinstance(data, list) else ())]
    if not any(messages for _, messages, _ in several):
        raise SessionError(f"{path}: no list of messages inside (looked for a list, and under {', '.join(_LISTS)})")
    for number, messages, record in several:
        if messages:
            yield _recorded(f"{path.stem}#{number + 1}", messages, record)


def _from_lines(path: Path) -> Iterator[Recorded]:
    single: list[Any] = []
    malformed = 0
    number = 0
    for record in lines(path):
        if record is None:
            malformed += 1
        elif (messages := _listed(record)) is not None:
            number += 1
            yield _recorded(f"{path.stem}#{number}", messages, record)
        elif _is_message(record):
            single.append(record)
        else:
            malformed += 1
    if single or malformed:
        session = _recorded(path.stem, single, {})
        session.malformed += malformed
        yield session


def _recorded(name: str, messages: list[Any], record: Any) -> Recorded:
    kept = [m for m in messages if _is_message(m)]
    try:
        format_name = detect(kept)[0].name
    except FormatError as error:
        raise SessionError(f"{name}: {error}") from None
    model = ""
    if isinstance(record, dict):
        info = record.get("info")
        config = info.get("config") if isinstance(info, dict) else None
        chosen = config.get("model") if isinstance(config, dict) else record.get("model")
        model = str(chosen.get("model_name", "")) if isinstance(chosen, dict) else str(chosen or "")
    if format_name == "openai-chat":
        kept = [{k: v for k, v in m.items() if k in _SENT and not (k != "content" and v is None)} for m in kept]
    made = Recorded(
        id=name, source="messages", format=format_name, messages=kept, model=model, malformed=len(messages) - len(kept)
    )
    if isinstance(record, dict):
        _labelled(made, record)
    return made


def _labelled(made: Recorded, record: dict[str, Any]) -> None:
    """Take task and outcome from the ways benchmarks spell them (tau-bench, mini-swe-agent)."""
    if "task_id" in record and "reward" in record:
        made.task = f"{made.id.split('#', 1)[0]}:{record['task_id']}"
    elif isinstance(record.get("instance_id"), str):
        made.task = record["instance_id"]
    for key in ("reward", "resolved", "success", "target"):
        if isinstance(record.get(key), bool | int | float):
            made.outcome = float(record[key])


READER = Reader(
    name="messages",
    about="chat, Responses or Anthropic messages; mini-swe-agent; tau-bench (.json, .jsonl)",
    suffixes=(".json", ".jsonl"),
    matches=_matches,
    read=read,
)
