"""Scripted Messages API conversations and responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from danshari.formats.script import Call, MessageBuilder, ProviderScript, Turn, TurnUsage, call_ids, split_deltas
from danshari.formats.sse import render_event


class AnthropicBuilder(MessageBuilder):
    """Builds Anthropic messages."""

    def system(self, text: str) -> None:
        """Add a system prompt."""
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def user(self, text: str) -> None:
        """Add what the user says."""
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append({"type": "text", "text": text})
        else:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Append the assistant message and one user message with all results."""
        blocks: list[Any] = []
        if turn.thinking:
            blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": f"sig{len(self.messages)}"})
        if turn.text or not calls:
            blocks.append({"type": "text", "text": turn.text or "…"})
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls]
        self.messages.append({"role": "assistant", "content": blocks})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": c.id,
                "content": c.result,
                **({"is_error": True} if c.failed else {}),
            }
            for c in calls
            if c.result is not None
        ]
        if results:
            self.messages.append({"role": "user", "content": results})


class AnthropicScript(ProviderScript):
    """Scripted Messages API conversations and responses."""

    builder = AnthropicBuilder

    def response(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> dict[str, Any]:
        """Return a turn as one JSON response."""
        return _anthropic_body(turn, usage, model, number)

    def stream(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> Iterator[bytes]:
        """Yield a turn as server-sent events."""
        return _anthropic_stream(turn, usage, model, number)


def _anthropic_usage(usage: TurnUsage) -> dict[str, int]:
    return {
        "input_tokens": usage["fresh"], "cache_read_input_tokens": usage["cached"],
        "cache_creation_input_tokens": usage["written"], "output_tokens": usage["output"],
    }  # fmt: skip


def _anthropic_blocks(turn: Turn, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if turn.thinking:
        blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": f"signature-{number}"})
    if turn.text or not turn.calls:
        blocks.append({"type": "text", "text": turn.text or "…"})
    ids = call_ids(turn, number, "toolu")
    blocks += [
        {"type": "tool_use", "id": i, "name": c.name, "input": c.arguments}
        for i, c in zip(ids, turn.calls, strict=True)
    ]
    return blocks


def _anthropic_body(turn: Turn, usage: TurnUsage, model: str, number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number:06d}", "type": "message", "role": "assistant", "model": model,
        "content": _anthropic_blocks(turn, number), "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None, "usage": _anthropic_usage(usage),
    }  # fmt: skip


def _anthropic_stream(turn: Turn, usage: TurnUsage, model: str, number: int) -> Iterator[bytes]:
    whole = _anthropic_body(turn, usage, model, number)
    head = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield render_event({"type": "message_start", "message": head}, "message_start")
    yield render_event({"type": "ping"}, "ping")
    for index, block in enumerate(whole["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    ended = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output"]}}
    yield render_event(ended, "message_delta")
    yield render_event({"type": "message_stop"}, "message_stop")


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    """Yield the Anthropic stream events of one content block."""

    def delta(**value: Any) -> bytes:
        return render_event({"type": "content_block_delta", "index": index, "delta": value}, "content_block_delta")

    empty: dict[str, dict[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    start = {"type": "content_block_start", "index": index, "content_block": {**block, **empty[block["type"]]}}
    yield render_event(start, "content_block_start")
    if block["type"] == "text":
        yield from (delta(type="text_delta", text=part) for part in split_deltas(block["text"]))
    elif block["type"] == "thinking":
        yield from (delta(type="thinking_delta", thinking=part) for part in split_deltas(block["thinking"]))
        yield delta(type="signature_delta", signature=block["signature"])
    else:
        written = json.dumps(block["input"])
        yield from (delta(type="input_json_delta", partial_json=part) for part in split_deltas(written))
    yield render_event({"type": "content_block_stop", "index": index}, "content_block_stop")


SCRIPT = AnthropicScript()
