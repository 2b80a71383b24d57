"""Reader of Codex rollouts: one Responses item per line. Codex's own compaction begins a new context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, RecordedSession, parse_timestamp, read_json_lines

_ITEM_TYPES = {
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "web_search_call",
}


def _matches(records: list[Any]) -> bool:
    return any(
        isinstance(r, dict) and r.get("type") in ("session_meta", "response_item", "turn_context") for r in records
    )


def read_codex_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per context."""
    session = RecordedSession(id=path.stem, source="codex", format="openai-responses")
    number = 1
    for record in read_json_lines(path):
        payload = record.get("payload") if record else None
        if record is None or not isinstance(payload, dict):
            session.malformed += 1
            continue
        kind = record.get("type")
        if kind == "session_meta":
            session.cwd = str(payload.get("cwd", ""))
        elif kind == "turn_context":
            session.model = str(payload.get("model") or session.model)
        elif kind == "compacted":
            number += 1
            session.compacted = True
            yield session
            kept = payload.get("replacement_history")
            session = RecordedSession(
                id=f"{path.stem}#{number}",
                source="codex",
                format="openai-responses",
                model=session.model,
                messages=list(kept) if isinstance(kept, list) else [],
                cwd=session.cwd,
            )
        elif kind == "response_item" and payload.get("type") in _ITEM_TYPES:
            if (time := parse_timestamp(record.get("timestamp"))) is not None:
                session.times[len(session.messages)] = time
            session.messages.append(_normalize_output(payload))
        elif kind == "event_msg" and payload.get("type") == "token_count":
            info = payload.get("info")
            usage = info.get("last_token_usage") if isinstance(info, dict) else None
            if isinstance(usage, dict) and session.messages:
                session.usages[len(session.messages) - 1] = usage
    if session.messages or session.malformed:
        yield session


def _normalize_output(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the item as it is sent: an output object is replaced by its `content`."""
    output = payload.get("output")
    if isinstance(output, dict):
        return {**payload, "output": str(output.get("content", output))}
    return payload


READER = Reader(
    name="codex",
    about="Codex rollout (~/.codex/sessions/**/rollout-*.jsonl)",
    suffixes=(".jsonl",),
    matches=_matches,
    read=read_codex_file,
)
