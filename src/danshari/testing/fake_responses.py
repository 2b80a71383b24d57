"""A scripted turn in every provider's wire shape: one JSON answer, or the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from danshari.testing import Turn

PIECE = 40
"""Characters of one delta."""
Usage = dict[str, int]
"""fresh, cached, written and output tokens."""


def answer(format_name: str, turn: Turn, usage: Usage, *, model: str, number: int) -> dict[str, Any]:
    """Give the answer in one piece."""
    made: dict[str, Any] = _ANSWERS[format_name](turn, usage, model, number)
    return made


def stream(format_name: str, turn: Turn, usage: Usage, *, model: str, number: int) -> Iterator[bytes]:
    """Give the answer as server-sent events."""
    yield from _STREAMS[format_name](turn, usage, model, number)


def pieces(text: str) -> list[str]:
    """Cut a text into deltas."""
    return [text[n : n + PIECE] for n in range(0, len(text), PIECE)]


def event(value: Any, name: str = "") -> bytes:
    """Write one event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def call_ids(turn: Turn, number: int, prefix: str) -> list[str]:
    """Give the ids of a turn's calls."""
    return [call.id or f"{prefix}_{number:04d}_{n}" for n, call in enumerate(turn.calls)]


# ── Anthropic ────────────────────────────────────────────────────────────────────────────────────────────────────


def _anthropic_usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage["fresh"], "cache_read_input_tokens": usage["cached"],
        "cache_creation_input_tokens": usage["written"], "output_tokens": usage["output"],
    }  # fmt: skip


def _blocks(turn: Turn, number: int) -> list[dict[str, Any]]:
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


def _anthropic(turn: Turn, usage: Usage, model: str, number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number:06d}", "type": "message", "role": "assistant", "model": model,
        "content": _blocks(turn, number), "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None, "usage": _anthropic_usage(usage),
    }  # fmt: skip


def _anthropic_stream(turn: Turn, usage: Usage, model: str, number: int) -> Iterator[bytes]:
    whole = _anthropic(turn, usage, model, number)
    head = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield event({"type": "message_start", "message": head}, "message_start")
    yield event({"type": "ping"}, "ping")
    for index, block in enumerate(whole["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    ended = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output"]}}
    yield event(ended, "message_delta")
    yield event({"type": "message_stop"}, "message_stop")


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    def delta(**value: Any) -> bytes:
        return event({"type": "content_block_delta", "index": index, "delta": value}, "content_block_delta")

    empty: dict[str, dict[str, Any]] = {
        "text": {"text": ""},
        "thinking": {"thinking": "", "signature": ""},
        "tool_use": {"input": {}},
    }
    start = {"type": "content_block_start", "index": index, "content_block": {**block, **empty[block["type"]]}}
    yield event(start, "content_block_start")
    if block["type"] == "text":
        yield from (delta(type="text_delta", text=part) for part in pieces(block["text"]))
    elif block["type"] == "thinking":
        yield from (delta(type="thinking_delta", thinking=part) for part in pieces(block["thinking"]))
        yield delta(type="signature_delta", signature=block["signature"])
    else:
        written = json.dumps(block["input"])
        yield from (delta(type="input_json_delta", partial_json=part) for part in pieces(written))
    yield event({"type": "content_block_stop", "index": index}, "content_block_stop")


# ── chat completions ─────────────────────────────────────────────────────────────────────────────────────────────


def _chat_usage(usage: Usage) -> dict[str, Any]:
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


def _chat(turn: Turn, usage: Usage, model: str, number: int) -> dict[str, Any]:
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


def _chat_stream(turn: Turn, usage: Usage, model: str, number: int) -> Iterator[bytes]:
    head = {"id": f"chatcmpl-{number:06d}", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": model}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": part}) for part in pieces(turn.thinking))
    yield from (chunk({"content": part}) for part in pieces(turn.text))
    for index, call in enumerate(_chat_calls(turn, number)):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {"name": function["name"], "arguments": ""}}]})
        for part in pieces(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, "tool_calls" if turn.calls else "stop")
    yield event({**head, "choices": [], "usage": _chat_usage(usage)})
    yield b"data: [DONE]\n\n"


# ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────


def _output(turn: Turn, number: int) -> list[dict[str, Any]]:
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


def _responses(turn: Turn, usage: Usage, model: str, number: int) -> dict[str, Any]:
    total = usage["fresh"] + usage["cached"] + usage["written"]
    return {
        "id": f"resp_{number:06d}", "object": "response", "created_at": 1_790_000_000, "status": "completed",
        "model": model, "output": _output(turn, number), "parallel_tool_calls": True, "tool_choice": "auto",
        "tools": [], "error": None, "incomplete_details": None, "instructions": None, "metadata": {},
        "temperature": 1.0, "top_p": 1.0,
        "usage": {
            "input_tokens": total, "input_tokens_details": {"cached_tokens": usage["cached"]},
            "output_tokens": usage["output"], "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": total + usage["output"],
        },
    }  # fmt: skip


def _responses_stream(turn: Turn, usage: Usage, model: str, number: int) -> Iterator[bytes]:
    whole, events = _responses(turn, usage, model, number), list[dict[str, Any]]()
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events += [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    for at, item in enumerate(whole["output"]):
        events += _item_events(at, item)
    events.append({"type": "response.completed", "response": whole})
    for sequence, value in enumerate(events):
        yield event({**value, "sequence_number": sequence}, value["type"])


def _item_events(at: int, item: dict[str, Any]) -> Sequence[dict[str, Any]]:
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
            {"type": "response.output_text.delta", **inside, "delta": d, "logprobs": []} for d in pieces(part["text"])
        ]
        found.append({"type": "response.output_text.done", **inside, "text": part["text"], "logprobs": []})
        found.append({"type": "response.content_part.done", **inside, "part": part})
    elif kind == "function_call":
        written = item["arguments"]
        found += [{"type": "response.function_call_arguments.delta", **place, "delta": d} for d in pieces(written)]
        found.append(
            {"type": "response.function_call_arguments.done", **place, "arguments": written, "name": item["name"]}
        )
    found.append({"type": "response.output_item.done", "output_index": at, "item": item})
    return found


_ANSWERS = {"anthropic": _anthropic, "openai-chat": _chat, "openai-responses": _responses}
_STREAMS = {"anthropic": _anthropic_stream, "openai-chat": _chat_stream, "openai-responses": _responses_stream}
