"""Render a scripted turn in the wire format of every provider, as one JSON response or as stream events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from danshari.testing import Turn

DELTA_CHARACTERS = 40
"""Characters of one delta."""
TurnUsage = dict[str, int]
"""fresh, cached, written and output tokens."""


def render_response(format_name: str, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> dict[str, Any]:
    """Return the turn as one JSON response."""
    made: dict[str, Any] = _BODIES[format_name](turn, usage, model, number)
    return made


def render_stream(format_name: str, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> Iterator[bytes]:
    """Yield the turn as server-sent events."""
    yield from _STREAMS[format_name](turn, usage, model, number)


def split_deltas(text: str) -> list[str]:
    """Split a text into stream deltas."""
    return [text[n : n + DELTA_CHARACTERS] for n in range(0, len(text), DELTA_CHARACTERS)]


def render_event(value: Any, name: str = "") -> bytes:
    """Return one server-sent event as bytes."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def call_ids(turn: Turn, number: int, prefix: str) -> list[str]:
    """Return the ids of a turn's calls."""
    return [call.id or f"{prefix}_{number:04d}_{n}" for n, call in enumerate(turn.calls)]


# ── Anthropic ────────────────────────────────────────────────────────────────────────────────────────────────────


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


# ── chat completions ─────────────────────────────────────────────────────────────────────────────────────────────


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


# ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────


def _responses_output(turn: Turn, number: int) -> list[dict[str, Any]]:
    """Return the output items of a Responses API response."""
    found: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        found.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": "QUFB" * 16})
    if turn.text or not turn.calls:
        part = {"type": "output_text", "text": turn.text or "…", "annotations": [], "logprobs": []}
        found.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed",
                      "content": [part]})  # fmt: skip
    for n, (i, c) in enumerate(zip(call_ids(turn, number, "call"), turn.calls, strict=True)):
        found.append({"type": "function_call", "id": f"fc_{number}_{n}", "call_id": i, "name": c.name,
                      "arguments": json.dumps(c.arguments), "status": "completed"})  # fmt: skip
    return found


def _responses_body(turn: Turn, usage: TurnUsage, model: str, number: int) -> dict[str, Any]:
    """Return a turn as a Responses API response."""
    total = usage["fresh"] + usage["cached"] + usage["written"]
    return {
        "id": f"resp_{number:06d}", "object": "response", "created_at": 1_790_000_000, "status": "completed",
        "model": model, "output": _responses_output(turn, number), "parallel_tool_calls": True, "tool_choice": "auto",
        "tools": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "temperature": 1.0, "top_p": 1.0,
        "usage": {
            "input_tokens": total, "input_tokens_details": {"cached_tokens": usage["cached"]},
            "output_tokens": usage["output"], "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": total + usage["output"],
        },
    }  # fmt: skip


def _responses_stream(turn: Turn, usage: TurnUsage, model: str, number: int) -> Iterator[bytes]:
    whole, events = _responses_body(turn, usage, model, number), list[dict[str, Any]]()
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events += [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    for at, item in enumerate(whole["output"]):
        events += _item_events(at, item)
    events.append({"type": "response.completed", "response": whole})
    for sequence, value in enumerate(events):
        yield render_event({**value, "sequence_number": sequence}, value["type"])


def _item_events(at: int, item: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the Responses API stream events of one output item."""
    place = {"output_index": at, "item_id": item["id"]}
    kind = item["type"]
    empties: dict[str, dict[str, Any]] = {
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
        "reasoning": {"summary": []},
    }
    empty = empties[kind]
    found: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": at, "item": {**item, **empty}}
    ]
    if kind == "message":
        part = item["content"][0]
        inside = {**place, "content_index": 0}
        found.append({"type": "response.content_part.added", **inside, "part": {**part, "text": ""}})
        found += [
            {"type": "response.output_text.delta", **inside, "delta": d, "logprobs": []}
            for d in split_deltas(part["text"])
        ]
        found.append({"type": "response.output_text.done", **inside, "text": part["text"], "logprobs": []})
        found.append({"type": "response.content_part.done", **inside, "part": part})
    elif kind == "function_call":
        written = item["arguments"]
        found += [
            {"type": "response.function_call_arguments.delta", **place, "delta": d} for d in split_deltas(written)
        ]
        found.append(
            {"type": "response.function_call_arguments.done", **place, "arguments": written, "name": item["name"]}
        )
    found.append({"type": "response.output_item.done", "output_index": at, "item": item})
    return found


_BODIES = {"anthropic": _anthropic_body, "openai-chat": _chat_body, "openai-responses": _responses_body}
_STREAMS = {"anthropic": _anthropic_stream, "openai-chat": _chat_stream, "openai-responses": _responses_stream}
