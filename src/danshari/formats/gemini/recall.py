"""Hide recall calls in Gemini's generateContent API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.recall_tools import RECALL_TOOL_NAMES
from danshari.formats.gemini.parts import find_object
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
        return _build_response(_parts_of(candidate), candidate.get("finishReason") == "STOP")

    def visible_response(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the response as the client sees it; parts of earlier responses come first."""
        parts = [p for a in (*earlier, answer) for p in _parts_of(_candidate(a)) if not _is_hidden(p)]
        candidate = _candidate(answer)
        shown = {**candidate, "content": {**(candidate.get("content") or {"role": "model"}), "parts": parts or _EMPTY}}
        usage = sum_usage_fields([a.get("usageMetadata") or {} for a in (*earlier, answer)])
        rest = (answer.get("candidates") or [])[1:]
        return {**answer, "candidates": [shown, *rest], "usageMetadata": usage}

    def result_messages(self, turn: ResponseParts, texts: Sequence[str]) -> list[Any]:
        """Return one user content with all function responses."""
        return [{"role": "user", "parts": _results(turn, texts)}]

    def remove_earlier(self, messages: Sequence[Any], at: int, turns: Sequence[ResponseParts]) -> list[Any]:
        """Remove what earlier responses said from the beginning of the client's model contents.

        Clients store a stream as one content or several, and join its text parts as they like, so texts are compared,
        not parts. Contents of which nothing is left are removed, unless nothing is left at all.
        """
        found = list(messages)
        end = _end_of_model(found, at)
        said = [p for t in turns for p in t.messages[0]["parts"] if not _is_hidden(p)]
        parts = [p for m in found[at:end] for p in m.get("parts") or ()]
        if not said or not _join(parts, thought=False).startswith(_join(said, thought=False)):
            return found
        rest = _Rest(said, parts)
        kept = [{**m, "parts": left} for m in found[at:end] if (left := rest.of(m.get("parts") or ()))]
        return [*found[:at], *kept, *found[end:]] if kept else found

    def merge_hop(self, messages: Sequence[Any], at: int, turn: ResponseParts, results: Sequence[Any]) -> list[Any]:
        """Add hidden calls among the client's own in the model's order, and their responses after the client's own.

        The order counts: the first of several calls carries the signature that the provider asks for.
        """
        found = list(messages)
        end = _end_of_model(found, at)
        if end == at or end >= len(found) or not isinstance(found[end], dict):
            return found
        answered = found[end]
        made = [p for p in turn.messages[0]["parts"] if _call(p)]
        own = [_call(p).get("name") for m in found[at:end] for p in m.get("parts") or () if _call(p)]
        if answered.get("role", "user") == "model" or own != [_call(p)["name"] for p in made if not _is_hidden(p)]:
            return found  # another response stands there by now
        for n in range(at, end):
            parts: list[Any] = []
            for part in found[n].get("parts") or ():
                if _call(part):
                    while made and _is_hidden(made[0]):
                        parts.append(made.pop(0))
                    made.pop(0)
                    own.pop(0)
                parts.append(part)
                if _call(part) and not own:
                    parts += made
            found[n] = {**found[n], "parts": parts}
        given = list(answered.get("parts") or ())
        last = max((n for n, p in enumerate(given, 1) if find_object(p, "functionResponse") is not None), default=0)
        found[end] = {**answered, "parts": [*given[:last], *results[0]["parts"], *given[last:]]}
        return found


_EMPTY = [{"text": ""}]
"""What the API itself says where it says nothing; SDKs take a content without parts for a broken answer."""


class _Rest:
    """Takes what was said before off the parts of some contents, one content after the other."""

    def __init__(self, said: Sequence[Any], parts: Sequence[Any]) -> None:
        self._left = {}
        for thought in (False, True):
            before = _join(said, thought=thought)
            self._left[thought] = len(before) if _join(parts, thought=thought).startswith(before) else 0
        self._signatures = [_signature(p) for p in said if _signature(p)]

    def of(self, parts: Sequence[Any]) -> list[Any]:
        """Return what is left of a content's parts."""
        kept = []
        for part in parts:
            text, thought = _text(part), bool(isinstance(part, Mapping) and part.get("thought"))
            cut = min(self._left[thought], len(text))
            self._left[thought] -= cut
            if cut < len(text):
                kept.append({**part, "text": text[cut:]} if cut else part)
            elif not text and _signature(part) not in self._signatures:
                kept.append(part)
        return kept


def _end_of_model(messages: Sequence[Any], at: int) -> int:
    """Return where the model's contents that begin at `at` end; `at` if there are none."""
    while at < len(messages) and isinstance(messages[at], dict) and messages[at].get("role") == "model":
        at += 1
    return at


def _join(parts: Sequence[Any], *, thought: bool) -> str:
    """Return the texts or the thoughts of some parts, joined."""
    return "".join(_text(p) for p in parts if bool(isinstance(p, Mapping) and p.get("thought")) is thought)


def _signature(part: Any) -> Any:
    return (part.get("thoughtSignature") or part.get("thought_signature")) if isinstance(part, Mapping) else None


def _candidate(answer: Mapping[str, Any]) -> dict[str, Any]:
    return dict((answer.get("candidates") or [{}])[0])


def _parts_of(candidate: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [p for p in (candidate.get("content") or {}).get("parts") or () if isinstance(p, dict)]


def _call(part: Any) -> dict[str, Any]:
    return dict(find_object(part, "functionCall") or {})


def _is_hidden(part: Any) -> bool:
    return _call(part).get("name") in RECALL_TOOL_NAMES


def _text(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else ""


def _build_response(parts: Sequence[dict[str, Any]], ended: bool) -> ResponseParts:
    hidden = [
        HiddenCall(id=str(call.get("id") or ""), name=call["name"], arguments=json.dumps(call.get("args") or {}))
        for call in map(_call, filter(_is_hidden, parts))
    ]
    others = any(_call(p) and not _is_hidden(p) for p in parts)
    return ResponseParts(hidden=hidden, others=others, messages=[{"role": "model", "parts": list(parts)}], ended=ended)


def _results(turn: ResponseParts, texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"functionResponse": {**({"id": call.id} if call.id else {}), "name": call.name, "response": {"output": text}}}
        for call, text in zip(turn.hidden, texts, strict=True)
    ]


class GeminiStreamFilter(BaseStreamFilter):
    """Filters parts out of events; the event that finishes a response and what follows it are held back."""

    def __init__(self) -> None:
        super().__init__()
        self._broken = False
        self._reset()

    def _reset(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._usage: dict[str, Any] = {}
        self._held = []
        self._ended = ""

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
        self._ended = self._ended or str(candidate.get("finishReason") or "")
        if self._ended:
            self._held.append((event, value if len(shown) == len(parts) else self._with_parts(value, shown or _EMPTY)))
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
        turn = _build_response(self._parts, self._ended == "STOP" and not self._broken)
        for _, value in self._held:
            if _parts_of(_candidate(value)) not in ([], _EMPTY):  # what the last event says is shown at once
                open_end = {k: v for k, v in _candidate(value).items() if k != "finishReason"}
                turn.late += render_event({**value, "candidates": [open_end]})
        self._usages.append(dict(self._usage))
        self._record_end(turn)
        self._reset()
        return turn

    def _closing_event(self, event: bytes, value: Any) -> bytes:
        return replace_event_data(event, {**value, "usageMetadata": sum_usage_fields(self._usages)})

    def error_event(self, body: bytes) -> bytes:
        """Return an error as an event of its own, as the API streams it."""
        value = parse_json_or_none(body)
        error = value.get("error") if isinstance(value, dict) else None
        unknown = {"code": 502, "message": "the provider did not answer", "status": "UNAVAILABLE"}
        return render_event({"error": error or unknown})
