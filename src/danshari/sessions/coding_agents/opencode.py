"""Reader of opencode exports, lists of its messages, and the lines of `opencode run --format json`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, RecordedSession, load_json_file, read_json_lines
from danshari.sessions.script import ChatSessionWriter, object_or_empty

_LINE_TYPES = {"step_start", "text", "reasoning", "tool_use", "step_finish", "error", "done"}
_CLEARED = "[Old tool result content cleared]"
_INTERRUPTED = "[Tool execution was interrupted]"


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("info"), dict) and isinstance(value.get("parts"), list)


def _matches(records: list[Any]) -> bool:
    """Return whether the records are an opencode export, a list of its messages or a run's lines."""
    first = records[0] if records else None
    if isinstance(first, list):
        return bool(first) and _is_message(first[0])
    if not isinstance(first, dict):
        return False
    if first.get("type") in _LINE_TYPES and "sessionID" in first:
        return True
    messages = first.get("messages")
    return (
        isinstance(first.get("info"), dict)
        and isinstance(messages, list)
        and bool(messages)
        and _is_message(messages[0])
    )


def read_opencode_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per context. A compaction's summary begins a new one. Raises SessionError."""
    if path.suffix == ".jsonl":
        yield _read_stream(path)
        return
    data = load_json_file(path)
    info = data.get("info", {}) if isinstance(data, dict) else {}
    messages = data["messages"] if isinstance(data, dict) else data
    if not all(map(_is_message, messages)):
        raise SessionError(f"{path}: every message needs `info` and `parts`")
    number, script = 1, _new_writer(path.stem, info)
    for message in messages:
        if message["info"].get("summary") is True and message["info"].get("role") == "assistant":
            number += 1
            script.session.compacted = True
            yield script.finish()
            script = _new_writer(f"{path.stem}#{number}", info)
            script.user("\n".join(str(p.get("text", "")) for p in message["parts"] if p.get("type") == "text"))
        else:
            _add_message(script, message)
    yield script.finish()


def _new_writer(name: str, info: dict[str, Any]) -> ChatSessionWriter:
    model = object_or_empty(info.get("model"))
    session = RecordedSession(id=name, source="opencode", format="openai-chat", cwd=str(info.get("directory") or ""))
    session.model, session.task = str(model.get("id") or ""), name.split("#", 1)[0]
    return ChatSessionWriter(session)


def _add_message(script: ChatSessionWriter, message: dict[str, Any]) -> None:
    """Add one message. Messages that only mark a compaction or an error are skipped."""
    info, parts = message["info"], [p for p in message["parts"] if isinstance(p, dict)]
    time = (info.get("time") or {}).get("created")
    texts = [str(p.get("text", "")) for p in parts if p.get("type") == "text" and not p.get("ignored")]
    if info.get("role") == "user":
        if not any(p.get("type") == "compaction" for p in parts):
            script.user("\n".join(texts), time)
        return
    script.session.model = script.session.model or str(info.get("modelID") or "")
    script.session.cwd = script.session.cwd or str((info.get("path") or {}).get("cwd") or "")
    if info.get("error") and not texts and not any(p.get("type") == "tool" for p in parts):
        return
    _add_turn(script, parts, time, info.get("tokens"))


def _add_turn(script: ChatSessionWriter, parts: list[dict[str, Any]], time: Any, tokens: Any) -> None:
    """Add one assistant turn with its tool results; a turn of reasoning alone is skipped."""
    text = "\n".join(str(p.get("text", "")) for p in parts if p.get("type") == "text" and not p.get("ignored"))
    thinking = "\n".join(str(p.get("text", "")) for p in parts if p.get("type") == "reasoning")
    tools = [p for p in parts if p.get("type") == "tool"]
    made = [
        (str(p.get("callID") or script.make_call_id()), str(p.get("tool", "")), _tool_state(p).get("input") or {})
        for p in tools
    ]
    script.assistant(text, thinking=thinking, calls=made, time=time, usage=_read_usage(tokens))
    for part, (call_id, _, _) in zip(tools, made, strict=True):
        ended = (_tool_state(part).get("time") or {}).get("end")
        script.result(call_id, _visible_result(_tool_state(part)), ended)


def _tool_state(part: dict[str, Any]) -> dict[str, Any]:
    state = part.get("state")
    return object_or_empty(state)


def _visible_result(state: dict[str, Any]) -> str:
    """Return a tool result as it was last sent to the model."""
    if (state.get("time") or {}).get("compacted"):
        return _CLEARED
    if state.get("status") == "error":
        metadata = object_or_empty(state.get("metadata"))
        return str(metadata.get("output") if metadata.get("interrupted") else state.get("error") or "error")
    return str(state.get("output") or "") if state.get("status") == "completed" else _INTERRUPTED


def _read_usage(tokens: Any) -> dict[str, Any]:
    """Read usage. `input` excludes tokens read from the cache or written to it."""
    if not isinstance(tokens, dict):
        return {}
    cache = object_or_empty(tokens.get("cache"))
    read_, written = float(cache.get("read") or 0), float(cache.get("write") or 0)
    total = float(tokens.get("input") or 0) + read_ + written
    return {"prompt_tokens": total, "prompt_tokens_details": {"cached_tokens": read_}} if total else {}


def _read_stream(path: Path) -> RecordedSession:
    """Read the lines of a run, where parts of one message are one turn. The prompt is not recorded."""
    script = _new_writer(path.stem, {})
    script.user("(the prompt is not in this recording)")
    turns: dict[str, list[dict[str, Any]]] = {}
    times: dict[str, Any] = {}
    for record in read_json_lines(path):
        part = record.get("part") if record else None
        if record is None or (record.get("type") in _LINE_TYPES - {"error", "done"} and not isinstance(part, dict)):
            script.session.malformed += 1
        elif isinstance(part, dict):
            turn = str(part.get("messageID", ""))
            times.setdefault(turn, record.get("timestamp"))
            turns.setdefault(turn, []).append({**part, "type": str(part.get("type", "")).replace("_", "-")})
    for turn, parts in turns.items():
        tokens = next((p.get("tokens") for p in reversed(parts) if p.get("type") == "step-finish"), None)
        _add_turn(script, parts, times[turn], tokens)
    return script.finish()


READER = Reader(
    name="opencode",
    about="opencode export, or its run stream (*.json, *.jsonl)",
    suffixes=(".json", ".jsonl"),
    matches=_matches,
    read=read_opencode_file,
)
