"""Reader of cline sessions.

Reads `*.messages.json` of its SDK and CLI, and `api_conversation_history.json` of the VS Code extension.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.core.text import BlockPattern
from danshari.errors import SessionError
from danshari.sessions.base import Reader, RecordedSession, load_json_file
from danshari.sessions.script import ChatSessionWriter, content_text, object_or_empty

_ANSWER = re.compile(r"\[(\w+)(?: for '[\s\S]*?')?\] Result:\n?")
_NOISE = BlockPattern(
    ["<environment_details>.*?</environment_details>", r"^# task_progress .*\Z"], re.MULTILINE | re.DOTALL
)


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    if isinstance(first, dict):
        return isinstance(first.get("messages"), list) and "sessionId" in first and "version" in first
    if not isinstance(first, list) or not first or not isinstance(first[0], dict):
        return False
    return any(isinstance(m, dict) and ("modelInfo" in m or "ts" in m) for m in first[:4]) and "content" in first[0]


def read_cline_file(path: Path) -> Iterator[RecordedSession]:
    """Yield the one session of a file."""
    data = load_json_file(path)
    messages = data["messages"] if isinstance(data, dict) else data
    if not isinstance(messages, list):
        raise SessionError(f"{path}: `messages` must be a list")
    name = str(data.get("sessionId")) if isinstance(data, dict) else path.parent.name or path.stem
    script = ChatSessionWriter(RecordedSession(id=name, source="cline", format="openai-chat"))
    if isinstance(data, dict):
        script.system(str(data.get("system_prompt") or ""))
    for message in messages:
        if not isinstance(message, dict):
            script.session.malformed += 1
        elif message.get("role") == "assistant":
            _add_assistant(script, message)
        else:
            _add_user(script, message)
    yield script.finish()


def _content_blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content or () if isinstance(b, dict)]


def _add_assistant(script: ChatSessionWriter, message: dict[str, Any]) -> None:
    blocks = _content_blocks(message)
    text = "\n".join(str(b.get("text", "")) for b in blocks if b.get("type") == "text")
    thinking = "\n".join(str(b.get("thinking", "")) for b in blocks if b.get("type") == "thinking")
    calls = [
        (str(b.get("call_id") or b.get("id") or script.make_call_id()), str(b.get("name", "")), b.get("input") or {})
        for b in blocks
        if b.get("type") == "tool_use"
    ]
    model = object_or_empty(message.get("modelInfo"))
    script.session.model = script.session.model or str(model.get("id") or model.get("modelId") or "")
    script.assistant(
        text, thinking=thinking, calls=calls, time=message.get("ts"), usage=_read_usage(message.get("metrics"))
    )


def _read_usage(metrics: Any) -> dict[str, Any]:
    """Read usage. Both spellings include cached tokens in the prompt."""
    if not isinstance(metrics, dict):
        return {}
    tokens = object_or_empty(metrics.get("tokens"))
    prompt = metrics.get("inputTokens") or tokens.get("prompt")
    cached = metrics.get("cacheReadTokens") or tokens.get("cached") or 0
    return {"prompt_tokens": prompt, "prompt_tokens_details": {"cached_tokens": cached}} if prompt else {}


def _add_user(script: ChatSessionWriter, message: dict[str, Any]) -> None:
    """Add a user message: tool results first become results, files and text one user message."""
    said: list[str] = []
    for block in _content_blocks(message):
        kind = block.get("type")
        if kind == "tool_result":
            script.result(
                str(block.get("call_id") or block.get("tool_use_id", "")),
                _result_text(block.get("content")),
                message.get("ts"),
            )
        elif kind == "file":
            said.append(f"{block.get('path', '')}\n{block.get('content', '')}")
        elif kind == "text":
            said += _read_user_text(script, str(block.get("text", "")), message.get("ts"))
    script.user("\n".join(said), message.get("ts"))


def _read_user_text(script: ChatSessionWriter, text: str, time: Any) -> list[str]:
    """Return the user text in a block, or add it as a result if it answers a call (classic form)."""
    answer = _ANSWER.match(text)
    waiting = script.oldest_open_call(answer.group(1)) if answer else ""
    if answer and waiting:
        script.result(waiting, text[answer.end() :].strip(), time)
        return []
    rest = _NOISE.sub("", text).strip()
    return [rest] if rest else []


def _result_text(content: Any) -> str:
    """Return the text of a result. The SDK writes lists of {query, result, success}."""
    if isinstance(content, list) and any(isinstance(p, dict) and "result" in p for p in content):
        return "\n".join(str(p.get("result") or p.get("error") or "") for p in content if isinstance(p, dict))
    return content_text(content)


READER = Reader(
    name="cline",
    about="cline (*.messages.json, api_conversation_history.json)",
    suffixes=(".json",),
    matches=_matches,
    read=read_cline_file,
)
