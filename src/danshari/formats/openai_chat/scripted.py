"""Scripted chat completions and their stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from danshari.formats.script import Call, MessageBuilder, ProviderScript, Turn, TurnUsage, call_ids, split_deltas
from danshari.formats.sse import render_event


class ChatBuilder(MessageBuilder):
    """Builds OpenAI chat completion messages."""

    def system(self, text: str) -> None:
        """Add a system prompt."""
        self.messages.append({"role": "system", "content": text})

    def user(self, text: str) -> None:
        """Add what the user says."""
        self.messages.append({"role": "user", "content": text})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Append the assistant message and one tool message per result."""
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if turn.thinking:
            message["reasoning_content"] = turn.thinking
        if calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
                for c in calls
            ]
        elif not turn.text:
            message["content"] = "…"
        self.messages.append(message)
        for c in calls:
            if c.result is not None:
                self.messages.append({"role": "tool", "tool_call_id": c.id, "content": c.result})


class ChatScript(ProviderScript):
    """Scripted chat completions and their stream."""

    builder = ChatBuilder

    def response(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> dict[str, Any]:
        """Return a turn as one JSON response."""
        return _chat_body(turn, usage, model, number)

    def stream(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> Iterator[bytes]:
        """Yield a turn as server-sent events."""
        return _chat_stream(turn, usage, model, number)


def _chat_usage(usage: TurnUsage) -> dict[str, Any]:
    total = usage["fresh"] + usage["cached"] + usage["written"]
    return {
        "prompt_tokens": total, "completion_tokens": usage["output"], "total_tokens": total + usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage["cached"]},
    }  # fmt: skip


def _chat_calls(turn: Turn, number: int) -> list[dict[str, Any]]:
    return [
        {"id": i, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
        for i, c in zip(call_ids(turn, number, "call"), turn.calls, strict=True)
    ]


def _chat_body(turn: Turn, usage: TurnUsage, model: str, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = _chat_calls(turn, number)
    reason = "tool_calls" if turn.calls else "stop"
    return {
        "id": f"chatcmpl-{number:06d}", "object": "chat.completion", "created": 1_790_000_000, "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": _chat_usage(usage),
    }  # fmt: skip


def _chat_stream(turn: Turn, usage: TurnUsage, model: str, number: int) -> Iterator[bytes]:
    """Yield a turn as chat completions stream events."""
    head = {"id": f"chatcmpl-{number:06d}", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": model}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return render_event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": part}) for part in split_deltas(turn.thinking))
    yield from (chunk({"content": part}) for part in split_deltas(turn.text))
    for index, call in enumerate(_chat_calls(turn, number)):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]})
        for part in split_deltas(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if turn.calls else "stop")
    yield render_event({**head, "choices": [], "usage": _chat_usage(usage)})
    yield b"data: [DONE]\n\n"


SCRIPT = ChatScript()
