"""Scripted Responses conversations and responses."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from danshari.formats.script import Call, MessageBuilder, ProviderScript, Turn, TurnUsage, call_ids, split_deltas
from danshari.formats.sse import render_event


class ResponsesBuilder(MessageBuilder):
    """Builds OpenAI Responses items."""

    def system(self, text: str) -> None:
        """Add a system prompt."""
        self._message("developer", "input_text", text)

    def user(self, text: str) -> None:
        """Add what the user says."""
        self._message("user", "input_text", text)

    def _message(self, role: str, kind: str, text: str) -> None:
        self.messages.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Append the items of the turn: reasoning, message, calls, then outputs."""
        if turn.thinking:
            self.messages.append(
                {
                    "type": "reasoning",
                    "id": f"rs_{len(self.messages)}",
                    "encrypted_content": "A" * 64,
                    "summary": [{"type": "summary_text", "text": turn.thinking}],
                }
            )
        if turn.text or not calls:
            self.messages.append({"type": "message", "role": "assistant", "content": turn.text or "…"})
        for c in calls:
            self.messages.append(
                {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": json.dumps(c.arguments)}
            )
        for c in calls:
            if c.result is not None:
                self.messages.append({"type": "function_call_output", "call_id": c.id, "output": c.result})


class ResponsesScript(ProviderScript):
    """Scripted Responses conversations and responses."""

    builder = ResponsesBuilder

    def response(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> dict[str, Any]:
        """Return a turn as one JSON response."""
        return _responses_body(turn, usage, model, number)

    def stream(self, turn: Turn, usage: TurnUsage, *, model: str, number: int) -> Iterator[bytes]:
        """Yield a turn as server-sent events."""
        return _responses_stream(turn, usage, model, number)


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


SCRIPT = ResponsesScript()
