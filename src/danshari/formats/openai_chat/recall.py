"""Hide recall calls in OpenAI's Chat Completions API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.recall_tools import RECALL_TOOL_NAMES
from danshari.formats.openai_chat.deltas import StreamedCalls, merge_delta
from danshari.formats.recall import (
    BaseStreamFilter,
    HiddenCall,
    ResponseParts,
    may_become_recall,
    sum_usage_fields,
)
from danshari.formats.sse import event_data, event_value, parse_json_or_none, replace_event_data

_NOT_SENT_BACK = ("annotations", "audio", "function_call")
"""Fields of an answer that OpenAI refuses in a request, or reads otherwise there."""


class ChatRecallFormat:
    """Hides tool calls; later calls move up."""

    def stream_filter(self) -> ChatStreamFilter:
        """Return a filter for a new stream."""
        return ChatStreamFilter()

    def parse_response(self, answer: Mapping[str, Any]) -> ResponseParts:
        """Split a non-streamed response."""
        return _build_response(_first_message(answer), (answer.get("choices") or [{}])[0].get("finish_reason"))

    def visible_response(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the response as the client sees it; text of earlier responses comes first."""
        said = [_first_message(a).get("content") for a in (*earlier, answer)]
        message = {
            **_first_message(answer),
            "content": "\n\n".join(s for s in said if isinstance(s, str) and s) or None,
        }
        calls = [c for c in message.get("tool_calls") or () if not _is_hidden(c)]
        message.pop("tool_calls", None)
        choice = dict(answer["choices"][0])
        if calls:
            message["tool_calls"] = calls
        elif choice.get("finish_reason") == "tool_calls":
            choice["finish_reason"] = "stop"
        usage = sum_usage_fields([a.get("usage") or {} for a in (*earlier, answer)])
        head, others = earlier[0] if earlier else answer, answer["choices"][1:]
        return {**answer, "id": head.get("id"), "choices": [{**choice, "message": message}, *others], "usage": usage}

    def result_messages(self, turn: ResponseParts, texts: Sequence[str]) -> list[Any]:
        """Return one tool message per result."""
        pairs = zip(turn.hidden, texts, strict=True)
        return [{"role": "tool", "tool_call_id": call.id, "content": text} for call, text in pairs]

    def remove_earlier(self, messages: Sequence[Any], at: int, turns: Sequence[ResponseParts]) -> list[Any]:
        """Remove the text of earlier responses from the client's assistant message."""
        found = list(messages)
        for turn in turns if at < len(found) and isinstance(found[at], dict) else ():
            said, text = turn.messages[0].get("content"), found[at].get("content")
            if said and isinstance(text, str) and text.startswith(said) and len(text) > len(said):
                found[at] = {**found[at], "content": text[len(said) :].lstrip("\n")}
        return found

    def merge_hop(self, messages: Sequence[Any], at: int, turn: ResponseParts, results: Sequence[Any]) -> list[Any]:
        """Append hidden calls to the client's assistant message, and put their results first."""
        found = list(messages)
        if at + 1 >= len(found) or not isinstance(found[at], dict) or found[at].get("role") != "assistant":
            return found
        asked = turn.messages[0].get("tool_calls") or ()
        calls, own = [c for c in asked if _is_hidden(c)], {c.get("id") for c in asked if not _is_hidden(c)}
        if not own <= {c.get("id") for c in found[at].get("tool_calls") or ()}:
            return found  # another answer stands there by now
        found[at] = {**found[at], "tool_calls": [*(found[at].get("tool_calls") or ()), *calls]}
        found[at + 1 : at + 1] = results
        return found


def _first_message(answer: Mapping[str, Any]) -> dict[str, Any]:
    choices = answer.get("choices") or [{}]
    return dict(choices[0].get("message") or {})


def _is_hidden(call: Any) -> bool:
    return isinstance(call, Mapping) and (call.get("function") or {}).get("name") in RECALL_TOOL_NAMES


def _has_content(delta: Mapping[str, Any]) -> bool:
    return any(value for name, value in delta.items() if name != "role")


def _build_response(message: dict[str, Any], reason: Any = "tool_calls") -> ResponseParts:
    """Split an assembled message into hidden calls and the rest."""
    calls = message.get("tool_calls") or []
    hidden = [
        HiddenCall(id=str(c.get("id")), name=c["function"]["name"], arguments=c["function"].get("arguments") or "{}")
        for c in calls
        if _is_hidden(c)
    ]
    kept = {k: v for k, v in message.items() if k not in _NOT_SENT_BACK and v is not None}
    kept = {"role": "assistant", **kept, "content": message.get("content") or None}
    if not calls:
        kept.pop("tool_calls", None)
    ended = reason in ("tool_calls", "function_call", "stop")  # some servers say stop
    return ResponseParts(hidden=hidden, others=len(calls) > len(hidden), messages=[kept], ended=ended)


class ChatStreamFilter(BaseStreamFilter):
    """Filters tool calls by index."""

    def __init__(self) -> None:
        super().__init__()
        self._id: Any = None
        self._reset()

    def _reset(self) -> None:
        self._reason = ""
        self._message: dict[str, Any] = {}
        self._late = b""
        self._last_delta: dict[str, Any] = {}
        self._usage: dict[str, Any] | None = None
        self._broken = self._changed = False
        self._calls = StreamedCalls()
        self._places: dict[int, int] = {}
        """Number of a call that the client sees → its index there."""
        self._held = []

    def feed(self, event: bytes) -> bytes:
        """Filter one event."""
        value = event_value(event)
        if event_data(event) == b"[DONE]" or not isinstance(value, dict):
            self._held.append((event, None))
            return b"" if event_data(event) == b"[DONE]" else self._held.pop()[0]
        if isinstance(usage := value.get("usage"), dict):
            self._usage = usage  # some servers tell the sum so far with every chunk
        choices = value.get("choices") or []
        self._broken = self._broken or "error" in value
        if not choices:
            self._held.append((event, value))
            return b""
        self._id = self._id or value.get("id")
        delta = choices[0].get("delta") or {}
        self._message = merge_delta(self._message, {k: v for k, v in delta.items() if k != "tool_calls"})
        shown = self._visible_delta(delta, last=bool(choices[0].get("finish_reason")))
        if choices[0].get("finish_reason"):
            self._reason = choices[0]["finish_reason"]
            self._held.append((event, value))
            self._late = replace_event_data(event, {**value, "id": self._id, "choices": [
                {**choices[0], "delta": shown, "finish_reason": None}]}) if _has_content(shown) else b""  # fmt: skip
            self._last_delta, self._changed = shown, shown != delta
            return b""
        if self._answers and not _has_content(shown):
            return b""
        if shown == delta and not self._answers:
            return event
        if not any(v for k, v in shown.items() if k != "role") and delta.get("tool_calls"):
            return b""
        return replace_event_data(event, {**value, "id": self._id, "choices": [{**choices[0], "delta": shown}]})

    def _visible_delta(self, delta: Mapping[str, Any], *, last: bool) -> dict[str, Any]:
        """Collect a delta's tool calls and return the delta without the hidden ones.

        A call is shown once its name can no longer become a recall tool's: with the next call or the `last` delta at
        the latest.
        """
        kept = []
        for part in delta.get("tool_calls") or ():
            begun = len(self._calls.calls)
            number = self._calls.add(part)
            if number == begun:
                kept += self._show_undecided(begun)
            if number not in self._places and may_become_recall(self._calls.name(number)):
                continue
            if number < begun and number not in self._places:
                kept.append(self._show_call(number))  # it was held back until now
                continue
            place = self._places.setdefault(number, len(self._places))
            kept.append(part if place == (part.get("index") or 0) else {**part, "index": place})
        if last:
            kept += self._show_undecided(len(self._calls.calls))
        rest = {k: v for k, v in delta.items() if k != "tool_calls"}
        if not kept:
            return rest if delta.get("tool_calls") else dict(delta)
        return {**rest, "tool_calls": kept}

    def _show_undecided(self, end: int) -> list[dict[str, Any]]:
        """Return the calls before number `end` that were held back and are no recalls."""
        calls = self._calls.calls[:end]
        return [self._show_call(n) for n, call in enumerate(calls) if n not in self._places and not _is_hidden(call)]

    def _show_call(self, number: int) -> dict[str, Any]:
        """Return all that was read of a call so far, under the client's next index."""
        place = self._places.setdefault(number, len(self._places))
        return {"index": place, **self._calls.calls[number]}

    def end_response(self) -> ResponseParts:
        """Return the response that ended and reset for the next one."""
        turn = _build_response({**self._message, "tool_calls": self._calls.calls}, self._reason)
        turn.ended, turn.late = turn.ended and not self._broken, self._late
        if self._usage is not None:
            self._usages.append(self._usage)
        self._closing_delta = self._last_delta
        self._record_end(turn)
        self._hid = self._hid or self._changed
        self._reset()
        return turn

    def _closing_event(self, event: bytes, value: Any) -> bytes:
        if value is None:
            return event
        choices = [dict(c) for c in value.get("choices") or ()]
        if choices and choices[0].get("finish_reason"):
            choices[0]["delta"] = self._closing_delta
            if choices[0]["finish_reason"] == "tool_calls" and self._stops:
                choices[0]["finish_reason"] = "stop"
        usage = {"usage": sum_usage_fields(self._usages)} if isinstance(value.get("usage"), dict) else {}
        return replace_event_data(event, {**value, "id": self._id or value.get("id"), "choices": choices, **usage})

    def error_event(self, body: bytes) -> bytes:
        """Return a chunk with `error`, which the SDKs raise."""
        value = parse_json_or_none(body)
        error = value.get("error") if isinstance(value, dict) else None
        return replace_event_data(
            b"", {"error": error or {"message": "the provider did not answer", "type": "server_error"}}
        )
