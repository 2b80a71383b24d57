"""Hide recall calls in Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.recall_tools import RECALL_TOOL_NAMES
from danshari.formats.recall import (
    BaseStreamFilter,
    HiddenCall,
    ResponseParts,
    sum_usage_fields,
)
from danshari.formats.sse import event_value, parse_json_or_none, replace_event_data


class AnthropicRecallFormat:
    """Hides content blocks; later blocks move up."""

    def stream_filter(self) -> AnthropicStreamFilter:
        """Return a filter for a new stream."""
        return AnthropicStreamFilter()

    def parse_response(self, answer: Mapping[str, Any]) -> ResponseParts:
        """Split a non-streamed response."""
        return _build_response(
            [b for b in answer.get("content") or () if isinstance(b, dict)], answer.get("stop_reason")
        )

    def visible_response(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the response as the client sees it; content of earlier responses comes first."""
        content = [b for a in (*earlier, answer) for b in a.get("content") or () if not _is_hidden(b)]
        usage = sum_usage_fields([a.get("usage") or {} for a in (*earlier, answer)])
        reason = answer.get("stop_reason")
        if reason == "tool_use" and not any(b.get("type") == "tool_use" for b in content):
            reason = "end_turn"
        head = earlier[0] if earlier else answer
        return {**answer, "id": head.get("id"), "content": content, "stop_reason": reason, "usage": usage}

    def result_messages(self, turn: ResponseParts, texts: Sequence[str]) -> list[Any]:
        """Return one user message with all results."""
        return [{"role": "user", "content": _tool_results(turn, texts)}]

    def remove_earlier(self, messages: Sequence[Any], at: int, turns: Sequence[ResponseParts]) -> list[Any]:
        """Remove the blocks of earlier responses from the client's assistant message."""
        found = list(messages)
        if at < len(found) and isinstance(found[at], dict) and found[at].get("role") == "assistant":
            blocks = _content_blocks(found[at])
            shown = [b for t in turns for b in t.messages[0]["content"] if not _is_hidden(b)]
            begins = [_content_key(b) for b in blocks[: len(shown)]] == [_content_key(b) for b in shown]
            if shown and begins and len(blocks) > len(shown):
                found[at] = {**found[at], "content": blocks[len(shown) :]}
        return found

    def merge_hop(self, messages: Sequence[Any], at: int, turn: ResponseParts, results: Sequence[Any]) -> list[Any]:
        """Append hidden calls to the client's assistant message, and put their results first in the next message."""
        found = list(messages)
        if at + 1 >= len(found) or not all(isinstance(m, dict) for m in found[at : at + 2]):
            return found
        asked, answered = found[at], found[at + 1]
        if asked.get("role") != "assistant" or answered.get("role") != "user":
            return found
        calls = [b for b in turn.messages[0]["content"] if _is_hidden(b)]
        own = {b.get("id") for b in turn.messages[0]["content"] if b.get("type") == "tool_use" and not _is_hidden(b)}
        if not own <= {b.get("id") for b in _content_blocks(asked) if isinstance(b, Mapping)}:
            return found  # another answer stands there by now
        found[at] = {**asked, "content": [*_content_blocks(asked), *calls]}
        found[at + 1] = {**answered, "content": [*results[0]["content"], *_content_blocks(answered)]}
        return found


def _content_key(block: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the fields by which a content block is recognised again."""
    return block.get("type"), block.get("text"), block.get("thinking"), block.get("data")


def _content_blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _is_hidden(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_use" and block.get("name") in RECALL_TOOL_NAMES


def _build_response(blocks: list[dict[str, Any]], reason: Any = "tool_use") -> ResponseParts:
    """Split assembled content blocks into hidden calls and the rest."""
    hidden = [
        HiddenCall(id=str(b.get("id", "")), name=b["name"], arguments=json.dumps(b.get("input") or {}))
        for b in blocks
        if _is_hidden(b)
    ]
    others = any(b.get("type") == "tool_use" and not _is_hidden(b) for b in blocks)
    kept = [b for b in blocks if b.get("type") != "text" or str(b.get("text", "")).strip()]  # blank ones are refused
    return ResponseParts(
        hidden=hidden, others=others, messages=[{"role": "assistant", "content": kept}], ended=reason == "tool_use"
    )


def _tool_results(turn: ResponseParts, texts: Sequence[str]) -> list[dict[str, Any]]:
    pairs = zip(turn.hidden, texts, strict=True)
    return [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in pairs]


class AnthropicStreamFilter(BaseStreamFilter):
    """Filters content blocks by index; visible indexes continue across responses."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = 0
        self._reset()
        self._broken = False

    def _reset(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self._held = []

    def feed(self, event: bytes) -> bytes:
        """Filter one event."""
        value = event_value(event)
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "message_start":
            self._usages.append(dict(value.get("message", {}).get("usage") or {}))
            return b"" if self._answers else event
        if kind in ("message_delta", "message_stop"):
            self._held.append((event, value))
            return b""
        if kind is None or not kind.startswith("content_block_"):
            self._broken = self._broken or kind == "error"
            return b"" if kind == "ping" and self._answers else event
        index = int(value.get("index", 0))
        self._assemble(kind, index, value)
        if _is_hidden(self._blocks.get(index)):
            return b""
        if index not in self._places:
            self._places[index], self._shown = self._shown, self._shown + 1
        place = self._places[index]
        return event if place == index else replace_event_data(event, {**value, "index": place})

    def _assemble(self, kind: str, index: int, value: Mapping[str, Any]) -> None:
        """Apply a block's start, delta or stop event to the block being assembled."""
        if kind == "content_block_start":
            self._blocks[index] = dict(value.get("content_block") or {})
            return
        block = self._blocks.setdefault(index, {})
        delta = value.get("delta") or {}
        for name in ("text", "thinking", "signature"):
            if f"{name}_delta" == delta.get("type"):
                block[name] = block.get(name, "") + str(delta.get(name, ""))
        if delta.get("type") == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + str(delta.get("partial_json", ""))
        if kind == "content_block_stop" and index in self._inputs:
            try:
                block["input"] = json.loads(self._inputs[index] or "{}")
            except ValueError:
                block["input"] = {}

    def end_response(self) -> ResponseParts:
        """Return the response that ended and reset for the next one."""
        kinds = {value.get("type"): value for _, value in self._held}
        reason = ((kinds.get("message_delta") or {}).get("delta") or {}).get("stop_reason")
        turn = _build_response(
            [self._blocks[n] for n in sorted(self._blocks)], reason if "message_stop" in kinds else None
        )
        turn.ended = turn.ended and not self._broken
        for _, value in self._held:
            if value.get("type") == "message_delta" and self._usages:
                self._usages[-1].update({k: v for k, v in (value.get("usage") or {}).items() if v is not None})
        self._record_end(turn)
        self._reset()
        return turn

    def _closing_event(self, event: bytes, value: Any) -> bytes:
        if value.get("type") != "message_delta":
            return event
        delta = dict(value.get("delta") or {})
        if delta.get("stop_reason") == "tool_use" and self._stops:
            delta["stop_reason"] = "end_turn"
        return replace_event_data(event, {**value, "delta": delta, "usage": sum_usage_fields(self._usages)})

    def error_event(self, body: bytes) -> bytes:
        """Return an error event as Anthropic's streams send it."""
        value = parse_json_or_none(body)
        error = value if isinstance(value, dict) and value.get("type") == "error" else {
            "type": "error", "error": {"type": "api_error", "message": "the provider did not answer"}}  # fmt: skip
        return replace_event_data(b"event: error", error)
