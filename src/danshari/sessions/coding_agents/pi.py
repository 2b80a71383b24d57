"""Reader of pi and OpenClaw sessions: an append-only log of messages, read as chat completions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, RecordedSession, chat_tool_call, parse_timestamp, read_json_lines


def _matches(records: list[Any]) -> bool:
    return any(isinstance(r, dict) and r.get("type") == "session" and "cwd" in r for r in records[:3])


def read_pi_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per context. A compaction entry ends one."""
    session = RecordedSession(id=path.stem, source="pi", format="openai-chat")
    number = 1
    for record in read_json_lines(path):
        if record is None:
            session.malformed += 1
        elif record.get("type") == "session":
            session.cwd = str(record.get("cwd", ""))
        elif record.get("type") == "model_change":
            session.model = str(record.get("modelId") or session.model)
        elif record.get("type") == "compaction":
            number += 1
            session.compacted = True
            yield session
            session = RecordedSession(
                id=f"{path.stem}#{number}",
                source="pi",
                format="openai-chat",
                model=session.model,
                messages=[{"role": "user", "content": str(record.get("summary", ""))}],
            )
        elif record.get("type") == "message":
            _add_message(session, record)
    if session.messages or session.malformed:
        yield session


def _add_message(session: RecordedSession, record: dict[str, Any]) -> None:
    """Add one message with its time and usage. Other records are skipped."""
    message = record.get("message")
    if not isinstance(message, dict):
        session.malformed += 1
        return
    built = _build_message(message)
    if built is None:
        return
    at = len(session.messages)
    if (time := parse_timestamp(record.get("timestamp"))) is not None:
        session.times[at] = time
    usage = message.get("usage")
    if isinstance(usage, dict) and built["role"] == "assistant":
        cached = float(usage.get("cacheRead") or 0)
        total = float(usage.get("input") or 0) + cached + float(usage.get("cacheWrite") or 0)
        if total:
            session.usages[at] = {"prompt_tokens": total, "prompt_tokens_details": {"cached_tokens": cached}}
    session.messages.append(built)


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(p.get("text", "")) for p in content or () if isinstance(p, dict) and p.get("type") == "text")


def _build_message(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return a message as chat completions, or None if it has nothing to send."""
    role, content = message.get("role"), message.get("content")
    if role == "user":
        images = [
            {
                "type": "image_url",
                "image_url": {"url": f"data:{p.get('mimeType', 'image/png')};base64,{p.get('data', '')}"},
            }
            for p in (content if isinstance(content, list) else ())
            if isinstance(p, dict) and p.get("type") == "image"
        ]
        text = _content_text(content)
        return {"role": "user", "content": [{"type": "text", "text": text}, *images] if images else text}
    if role == "toolResult":
        return {
            "role": "tool",
            "tool_call_id": str(message.get("toolCallId", "")),
            "name": str(message.get("toolName", "")),
            "content": _content_text(content),
        }
    if role == "bashExecution":
        return {"role": "user", "content": f"$ {message.get('command', '')}\n{message.get('output', '')}"}
    if role != "assistant":
        return None
    parts = [p for p in (content if isinstance(content, list) else ()) if isinstance(p, dict)]
    built: dict[str, Any] = {"role": "assistant", "content": _content_text(content) or None}
    thinking = "\n".join(str(p.get("thinking", "")) for p in parts if p.get("type") == "thinking")
    if thinking:
        built["reasoning_content"] = thinking
    calls = [
        chat_tool_call(str(p.get("id", "")), str(p.get("name", "")), p.get("arguments") or {})
        for p in parts
        if p.get("type") == "toolCall"
    ]
    if calls:
        built["tool_calls"] = calls
    return built if calls or built["content"] else None


READER = Reader(
    name="pi",
    about="pi or OpenClaw session (~/.pi/agent/sessions/*/*.jsonl)",
    suffixes=(".jsonl",),
    matches=_matches,
    read=read_pi_file,
)
