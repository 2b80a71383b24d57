"""Hide recall calls in Gemini's generateContent API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.recall_tools import RECALL_TOOL_NAMES
from danshari.formats.recall import BaseStreamFilter, HiddenCall, ResponseParts, sum_usage_fields
from danshari.formats.sse import event_value, parse_json_or_none, render_event, replace_event_data


class GeminiRecallFormat:
    """Hides function calls; the parts around them stay."""

    def stream_filter(self) -> GeminiStreamFilter:
        """Return a filter for a new stream."""
        return GeminiStreamFilter()

    def parse_response(self, answer: Mapping[str, Any]) -> ResponseParts:
        """Split a non-streamed response."""
        candidate = _candidate(answer)
        return _build_response(_parts_of(candidate), bool(candidate.get("finishReason")))

    def visible_response(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the response as the client sees it; parts of earlier responses come first."""
        parts = [p for a in (*earlier, answer) for p in _parts_of(_candidate(a)) if not _is_hidden(p)]
        candidate = _candidate(answer)
        shown = {**candidate, "content": {**(candidate.get("content") or {}), "parts": parts}}
        usage = sum_usage_fields([a.get("usageMetadata") or {} for a in (*earlier, answer)])
        rest = (answer.get("candidates") or [])[1:]
        return {**answer, "candidates": [shown, *rest], "usageMetadata": usage}

    def result_messages(self, turn: ResponseParts, texts: Sequence[str]) -> list[Any]:
        """Return one user content with all function responses."""
        return [{"role": "user", "parts": _results(turn, texts)}]

    def remove_earlier(self, messages: Sequence[Any], at: int, turns: Sequence[ResponseParts]) -> list[Any]:
        """Remove the text of earlier responses from the beginning of the client's model content.

        Clients join the text parts of a stream as they like, so texts are compared, not parts.
        """
        found = list(messages)
        if at >= len(found) or not isinstance(found[at], dict) or found[at].get("role") != "model":
            return found
        said = "".join(_text(p) for t in turns for p in t.messages[0]["parts"] if not _is_hidden(p))
        parts = list(found[at].get("parts") or ())
        if not said or not "".join(map(_text, parts)).startswith(said):
            return found
        left, kept = len(said), []
        for part in parts:
            text = _text(part)
            cut = min(left, len(text))
            left -= cut
            if not text or cut < len(text):
                kept.append({**part, "text": text[cut:]} if cut else part)
        if kept:
            found[at] = {**found[at], "parts": kept}
        return found

    def merge_hop(self, messages: Sequence[Any], at: int, turn: ResponseParts, results: Sequence[Any]) -> list[Any]:
        """Add hidden calls after the client's own, and their responses after the client's own."""
        found = list(messages)
        if at + 1 >= len(found) or not all(isinstance(m, dict) for m in found[at : at + 2]):
            return found
        asked, answered = found[at], found[at + 1]
        if asked.get("role") != "model" or answered.get("role", "user") != "user":
            return found
        made = turn.messages[0]["parts"]
        own = [_call(p)["name"] for p in made if _call(p) and not _is_hidden(p)]
        if own != [_call(p).get("name") for p in asked.get("parts") or () if _call(p)]:
            return found  # another response stands there by now
        calls = [p for p in made if _is_hidden(p)]
        found[at] = {**asked, "parts": [*(asked.get("parts") or ()), *calls]}
        found[at + 1] = {**answered, "parts": [*(answered.get("parts") or ()), *results[0]["parts"]]}
        return found


def _candidate(answer: Mapping[str, Any]) -> dict[str, Any]:
    return dict((answer.get("candidates") or [{}])[0])


def _parts_of(candidate: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [p for p in (candidate.get("content") or {}).get("parts") or () if isinstance(p, dict)]


def _call(part: Any) -> dict[str, Any]:
    call = part.get("functionCall") if isinstance(part, Mapping) else None
    return call if isinstance(call, dict) else {}


def _is_hidden(part: Any) -> bool:
    return _call(part).get("name") in RECALL_TOOL_NAMES


def _text(part: Any) -> str:
    """Return the text of a part that the client shows; thoughts are often left out of its history."""
    text = part.get("text") if isinstance(part, Mapping) and not part.get("thought") else None
    return text if isinstance(text, str) else ""


def _build_response(parts: Sequence[dict[str, Any]], ended: bool) -> ResponseParts:
    hidden = [
        HiddenCall(id=str(call.get("id") or ""), name=call["name"], arguments=json.dumps(call.get("args") or {}))
        for call in map(_call, parts)
        if call.get("name") in RECALL_TOOL_NAMES
    ]
    others = any(_call(p) and not _is_hidden(p) for p in parts)
    return ResponseParts(hidden=hidden, others=others, messages=[{"role": "model", "parts": list(parts)}], ended=ended)


def _results(turn: ResponseParts, texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"functionResponse": {**({"id": call.id} if call.id else {}), "name": call.name, "response": {"output": text}}}
        for call, text in zip(turn.hidden, texts, strict=True)
    ]


class GeminiStreamFilter(BaseStreamFilter):
    """Filters parts out of events; the event that finishes a response is held back."""

    def __init__(self) -> None:
        super().__init__()
        self._broken = False
        self._reset()

    def _reset(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._usage: dict[str, Any] = {}
        self._held = []
        self._ended = False

    def feed(self, event: bytes) -> bytes:
        """Read an event; return what the client sees of it now."""
        value = event_value(event)
        if not isinstance(value, dict):
            return event
        self._broken = self._broken or "error" in value
        self._usage = value.get("usageMetadata") or self._usage
        candidate = _candidate(value)
        parts = _parts_of(candidate)
        self._add_parts(parts)
        shown = [p for p in parts if not _is_hidden(p)]
        if candidate.get("finishReason"):
            self._ended = True
            self._held.append((event, self._with_parts(value, shown)))
            return b""
        if len(shown) == len(parts):
            return event
        return replace_event_data(event, self._with_parts(value, shown)) if shown else b""

    def _add_parts(self, parts: Sequence[dict[str, Any]]) -> None:
        """Add parts to the response; neighbouring text parts without a signature become one."""
        for part in parts:
            last = self._parts[-1] if self._parts else {}
            same = set(part) <= {"text", "thought"} and set(last) <= {"text", "thought"} and "text" in last
            if same and "text" in part and part.get("thought") == last.get("thought"):
                self._parts[-1] = {**last, "text": last["text"] + part["text"]}
            else:
                self._parts.append(dict(part))

    def _with_parts(self, value: Mapping[str, Any], parts: Sequence[Any]) -> dict[str, Any]:
        candidate = _candidate(value)
        shown = {**candidate, "content": {**(candidate.get("content") or {"role": "model"}), "parts": list(parts)}}
        return {**value, "candidates": [shown, *(value.get("candidates") or [])[1:]]}

    def end_response(self) -> ResponseParts:
        """Return the response that just ended, and prepare for the next one."""
        turn = _build_response(self._parts, self._ended and not self._broken)
        for _, value in self._held:
            if _parts_of(_candidate(value)):  # what was said in the event that ends the response is shown at once
                open_end = {k: v for k, v in _candidate(value).items() if k != "finishReason"}
                turn.late += render_event({**value, "candidates": [open_end]})
        self._usages.append(dict(self._usage))
        self._record_end(turn)
        self._reset()
        return turn

    def closing_events(self) -> bytes:
        """Return the final event, with the usage of all responses."""
        made = b""
        for event, value in self._closing:
            if self._hid:
                event = replace_event_data(event, {**value, "usageMetadata": sum_usage_fields(self._usages)})
            made += event
        return made

    def error_event(self, body: bytes) -> bytes:
        """Return an error as an event of its own, as the API streams it."""
        value = parse_json_or_none(body)
        error = value.get("error") if isinstance(value, dict) else None
        unknown = {"code": 502, "message": "the provider did not answer", "status": "UNAVAILABLE"}
        return render_event({"error": error or unknown})
