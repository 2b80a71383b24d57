"""Reader of Entire transcripts (v1).

One line per turn, results inside their calls, no thinking, no compactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, RecordedSession, read_json_lines
from danshari.sessions.script import ChatSessionWriter, content_text


def _matches(records: list[Any]) -> bool:
    return any(
        isinstance(r, dict) and r.get("v") == 1 and r.get("type") in ("user", "assistant") and "content" in r
        for r in records[:3]
    )


def read_entire_file(path: Path) -> Iterator[RecordedSession]:
    """Yield the one session of a file."""
    script = ChatSessionWriter(RecordedSession(id=path.stem, source="entire", format="openai-chat"))
    for record in read_json_lines(path):
        if record is None:
            script.session.malformed += 1
        elif record.get("type") == "user":
            script.user(content_text(record.get("content")), record.get("ts") or None)
        elif record.get("type") == "assistant":
            _add_assistant(script, record)
    yield script.finish()


def _add_assistant(script: ChatSessionWriter, record: dict[str, Any]) -> None:
    content, time = record.get("content"), record.get("ts") or None
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content_text(content)}]
    calls = [b for b in blocks if isinstance(b, dict) and b.get("type") == "tool_use"]
    text = "\n".join(str(b.get("text", "")) for b in blocks if isinstance(b, dict) and b.get("type") == "text")
    made = [(str(b.get("id") or script.make_call_id()), str(b.get("name", "")), b.get("input") or {}) for b in calls]
    script.assistant(text, calls=made, time=time)
    for block, (call_id, _, _) in zip(calls, made, strict=True):
        result = block.get("result")
        if isinstance(result, dict):
            script.result(call_id, str(result.get("output") or ""))


READER = Reader(
    name="entire",
    about="Entire transcript v1 (transcript.jsonl)",
    suffixes=(".jsonl",),
    matches=_matches,
    read=read_entire_file,
)
