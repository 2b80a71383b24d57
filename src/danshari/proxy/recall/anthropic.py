"""Hidden recalls in Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.proxy.http.usage_watch import parsed
from danshari.proxy.recall.shape import (
    NAMES,
    Hidden,
    Shown,
    Turn,
    summed,
)
from danshari.proxy.recall.sse import value_of, written


class Anthropic:
    """Content blocks: a hidden one is dropped and those after it move up."""

    def stream(self) -> AnthropicStream:
        """Begin to show a stream."""
        return AnthropicStream()

    def turn(self, answer: Mapping[str, Any]) -> Turn:
        """Take an answer apart."""
        return _turn([b for b in answer.get("content") or () if isinstance(b, dict)], answer.get("stop_reason"))

    def visible(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Give an answer as the client sees it; what earlier answers said comes first."""
        content = [b for a in (*earlier, answer) for b in a.get("content") or () if not _hides(b)]
        usage = summed([a.get("usage") or {} for a in (*earlier, answer)])
        reason = answer.get("stop_reason")
        if reason == "tool_use" and not any(b.get("type") == "tool_use" for b in content):
            reason = "end_turn"
        head = earlier[0] if earlier else answer
        return {**answer, "id": head.get("id"), "content": content, "stop_reason": reason, "usage": usage}

    def results(self, turn: Turn, texts: Sequence[str]) -> list[Any]:
        """Give one user message with the results."""
        return [{"role": "user", "content": _results(turn, texts)}]

    def rest(self, messages: Sequence[Any], at: int, turns: Sequence[Turn]) -> list[Any]:
        """Take the blocks of earlier answers out of the client's assistant message."""
        found = list(messages)
        if at < len(found) and isinstance(found[at], dict) and found[at].get("role") == "assistant":
            blocks = _blocks(found[at])
            shown = [b for t in turns for b in t.messages[0]["content"] if not _hides(b)]
            begins = [_words(b) for b in blocks[: len(shown)]] == [_words(b) for b in shown]
            if shown and begins and len(blocks) > len(shown):
                found[at] = {**found[at], "content": blocks[len(shown) :]}
        return found

    def merged(self, messages: Sequence[Any], at: int, turn: Turn, results: Sequence[Any]) -> list[Any]:
        """Put hidden calls after the client's own in its assistant message, and their results first in the next."""
        found = list(messages)
        if at + 1 >= len(found) or not all(isinstance(m, dict) for m in found[at : at + 2]):
            return found
        asked, answered = found[at], found[at + 1]
        if asked.get("role") != "assistant" or answered.get("role") != "user":
            return found
        calls = [b for b in turn.messages[0]["content"] if _hides(b)]
        own = {b.get("id") for b in turn.messages[0]["content"] if b.get("type") == "tool_use" and not _hides(b)}
        if not own <= {b.get("id") for b in _blocks(asked) if isinstance(b, Mapping)}:
            return found  # another answer stands there by now
        found[at] = {**asked, "content": [*_blocks(asked), *calls]}
        found[at + 1] = {**answered, "content": [*results[0]["content"], *_blocks(answered)]}
        return found


def _words(block: Mapping[str, Any]) -> tuple[Any, ...]:
    return block.get("type"), block.get("text"), block.get("thinking"), block.get("data")


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _hides(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_use" and block.get("name") in NAMES


def _turn(blocks: list[dict[str, Any]], reason: Any = "tool_use") -> Turn:
    hidden = [
        Hidden(id=str(b.get("id", "")), name=b["name"], arguments=json.dumps(b.get("input") or {}))
        for b in blocks
        if _hides(b)
    ]
    others = any(b.get("type") == "tool_use" and not _hides(b) for b in blocks)
    kept = [b for b in blocks if b.get("type") != "text" or str(b.get("text", "")).strip()]  # blank ones are refused
    return Turn(
        hidden=hidden, others=others, messages=[{"role": "assistant", "content": kept}], ended=reason == "tool_use"
    )


def _results(turn: Turn, texts: Sequence[str]) -> list[dict[str, Any]]:
    pairs = zip(turn.hidden, texts, strict=True)
    return [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call, text in pairs]


class AnthropicStream(Shown):
    """Follows blocks by their index; indexes the client sees run on over several answers."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = 0
        self._begin()
        self._broken = False

    def _begin(self) -> None:
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self._held = []

    def feed(self, event: bytes) -> bytes:
        """Show an event."""
        value = value_of(event)
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
        if _hides(self._blocks.get(index)):
            return b""
        if index not in self._places:
            self._places[index], self._shown = self._shown, self._shown + 1
        place = self._places[index]
        return event if place == index else written(event, {**value, "index": place})

    def _assemble(self, kind: str, index: int, value: Mapping[str, Any]) -> None:
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

    def end(self) -> Turn:
        """Give the answer that ended; the next one's events follow."""
        kinds = {value.get("type"): value for _, value in self._held}
        reason = ((kinds.get("message_delta") or {}).get("delta") or {}).get("stop_reason")
        turn = _turn([self._blocks[n] for n in sorted(self._blocks)], reason if "message_stop" in kinds else None)
        turn.ended = turn.ended and not self._broken
        for _, value in self._held:
            if value.get("type") == "message_delta" and self._usages:
                self._usages[-1].update({k: v for k, v in (value.get("usage") or {}).items() if v is not None})
        self._close(turn)
        self._begin()
        return turn

    def closing(self) -> bytes:
        """Give the end of the message, with all answers' usage."""
        made = b""
        for event, value in self._closing:
            if self._hid and value.get("type") == "message_delta":
                delta = dict(value.get("delta") or {})
                if delta.get("stop_reason") == "tool_use" and self._stops:
                    delta["stop_reason"] = "end_turn"
                event = written(event, {**value, "delta": delta, "usage": summed(self._usages)})
            made += event
        return made

    def failed(self, body: bytes) -> bytes:
        """Tell an error as Anthropic's streams do."""
        value = parsed(body)
        error = value if isinstance(value, dict) and value.get("type") == "error" else {
            "type": "error", "error": {"type": "api_error", "message": "the provider did not answer"}}  # fmt: skip
        return written(b"event: error", error)
