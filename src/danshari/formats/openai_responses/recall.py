"""Hide recall calls in OpenAI's Responses API."""

from __future__ import annotations

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

_END_EVENTS = ("response.completed", "response.incomplete", "response.failed")
CLIENT_CALL_TYPES = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
)
"""Items that the client must answer; other calls the provider runs itself."""
_START_EVENTS = ("response.created", "response.in_progress", "response.queued")


class ResponsesRecallFormat:
    """Hides output items; later items move up."""

    def stream_filter(self) -> ResponsesStreamFilter:
        """Return a filter for a new stream."""
        return ResponsesStreamFilter()

    def parse_response(self, answer: Mapping[str, Any]) -> ResponseParts:
        """Split a non-streamed response."""
        items = [i for i in answer.get("output") or () if isinstance(i, dict)]
        return _build_response(items, answer.get("status", "completed") == "completed")

    def visible_response(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the response as the client sees it; items of earlier responses come first."""
        output = [i for a in (*earlier, answer) for i in a.get("output") or () if not _is_hidden(i)]
        usage = sum_usage_fields([a.get("usage") or {} for a in (*earlier, answer)])
        head = earlier[0] if earlier else answer
        return {**answer, "id": head.get("id"), "output": output, "usage": usage}

    def result_messages(self, turn: ResponseParts, texts: Sequence[str]) -> list[Any]:
        """Return one output item per result."""
        pairs = zip(turn.hidden, texts, strict=True)
        return [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in pairs]

    def remove_earlier(self, messages: Sequence[Any], at: int, turns: Sequence[ResponseParts]) -> list[Any]:
        """Remove the items of earlier responses from the client's list."""
        found = list(messages)
        shown = [i for t in turns for i in t.messages if not _is_hidden(i)]
        if shown and list(map(_item_key, found[at : at + len(shown)])) == list(map(_item_key, shown)):
            del found[at : at + len(shown)]
        return found

    def merge_hop(self, messages: Sequence[Any], at: int, turn: ResponseParts, results: Sequence[Any]) -> list[Any]:
        """Insert hidden calls and their results at their original place among the client's items."""
        found = list(messages)
        own = {i.get("call_id") for i in turn.messages if i.get("type") in CLIENT_CALL_TYPES and not _is_hidden(i)}
        stand = found[at : at + len(turn.messages)]
        if not own <= {i.get("call_id") for i in stand if isinstance(i, Mapping)}:
            return found  # another answer stands there by now
        first = next((n for n, i in enumerate(turn.messages) if _is_hidden(i)), 0)
        place = at + sum(not _is_hidden(i) for i in turn.messages[:first])
        found[place:place] = [*(i for i in turn.messages if _is_hidden(i)), *results]
        return found


def _is_hidden(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type") == "function_call" and item.get("name") in RECALL_TOOL_NAMES


def _item_key(item: Any) -> tuple[Any, ...]:
    """Return the fields by which an item is recognised again."""
    if not isinstance(item, Mapping):
        return ()
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}] if content else []
    texts = tuple(p.get("text") for p in parts if isinstance(p, Mapping))
    return item.get("type"), item.get("encrypted_content"), item.get("call_id"), texts


def _build_response(items: list[dict[str, Any]], ended: bool = True) -> ResponseParts:
    """Split output items into hidden calls and the rest."""
    hidden = [
        HiddenCall(id=str(i.get("call_id")), name=i["name"], arguments=i.get("arguments") or "{}")
        for i in items
        if _is_hidden(i)
    ]
    others = any(i.get("type") in CLIENT_CALL_TYPES and not _is_hidden(i) for i in items)
    kept = [{k: v for k, v in i.items() if k != "status"} for i in items]
    return ResponseParts(hidden=hidden, others=others, messages=kept, ended=ended)


class ResponsesStreamFilter(BaseStreamFilter):
    """Filters items by output index; events are renumbered once something was hidden."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = self._sequence = 0
        self._output: list[Any] = []
        self._id: Any = None
        self._altered = self._broken = False
        self._reset()

    def _reset(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._places: dict[int, int] = {}
        self._held = []

    def feed(self, event: bytes) -> bytes:
        """Filter one event."""
        value = event_value(event)
        kind = value.get("type") if isinstance(value, dict) else None
        if kind is None:
            return event
        self._broken = self._broken or kind == "error"
        if kind in _END_EVENTS:
            self._held.append((event, value))
            return b""
        if kind in _START_EVENTS:
            self._id = self._id or (value.get("response") or {}).get("id")
            return b"" if self._answers else self._renumber_event(event, value)
        if "output_index" not in value:
            return self._renumber_event(event, value)
        index = int(value["output_index"])
        if isinstance(value.get("item"), dict):
            self._items[index] = value["item"]
        if _is_hidden(self._items.get(index)):
            self._altered = True
            return b""
        if index not in self._places:
            self._places[index], self._shown = self._shown, self._shown + 1
        if kind == "response.output_item.done":
            self._output.append(value["item"])
        return self._renumber_event(event, {**value, "output_index": self._places[index]})

    def _renumber_event(self, event: bytes, value: Mapping[str, Any]) -> bytes:
        """Count an event; rewrite it with its new sequence number once something was hidden."""
        self._sequence += 1
        if not self._altered:
            return event
        known = "sequence_number" in value
        return replace_event_data(event, {**value, "sequence_number": self._sequence - 1} if known else value)

    def end_response(self) -> ResponseParts:
        """Return the response that ended and reset for the next one."""
        done = [value.get("type") for _, value in self._held] == ["response.completed"] and not self._broken
        turn = _build_response([self._items[n] for n in sorted(self._items)], done)
        for _, value in self._held:
            self._usages.append(dict((value.get("response") or {}).get("usage") or {}))
        self._record_end(turn)
        self._altered = self._altered or self._hid
        self._reset()
        return turn

    def _closing_event(self, event: bytes, value: Any) -> bytes:
        whole = {**(value.get("response") or {}), "id": self._id, "output": self._output}
        whole["usage"] = sum_usage_fields(self._usages)
        return self._renumber_event(event, {**value, "response": whole})

    def error_event(self, body: bytes) -> bytes:
        """Return an error event as the Responses API sends it."""
        value = parse_json_or_none(body)
        error = value.get("error") if isinstance(value, dict) else None
        found = error if isinstance(error, dict) else {"message": "the provider did not answer"}
        told = {"code": found.get("code"), "message": found.get("message"), "param": found.get("param")}
        self._sequence += 1
        return replace_event_data(b"event: error", {"type": "error", **told, "sequence_number": self._sequence - 1})
