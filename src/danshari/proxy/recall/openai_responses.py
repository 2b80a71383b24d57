"""Hidden recalls in the Responses API."""

from __future__ import annotations

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

_ENDS = ("response.completed", "response.incomplete", "response.failed")
CLIENTS = ("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call",
           "mcp_approval_request")  # fmt: skip
"""Items that the client must answer; other calls the provider runs itself."""
_BEGINS = ("response.created", "response.in_progress", "response.queued")


class Responses:
    """Output items: a hidden one is dropped and those after it move up."""

    def stream(self) -> ResponsesStream:
        """Begin to show a stream."""
        return ResponsesStream()

    def turn(self, answer: Mapping[str, Any]) -> Turn:
        """Take an answer apart."""
        items = [i for i in answer.get("output") or () if isinstance(i, dict)]
        return _turn(items, answer.get("status", "completed") == "completed")

    def visible(self, answer: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Give an answer as the client sees it; what earlier answers said comes first."""
        output = [i for a in (*earlier, answer) for i in a.get("output") or () if not _hides(i)]
        usage = summed([a.get("usage") or {} for a in (*earlier, answer)])
        head = earlier[0] if earlier else answer
        return {**answer, "id": head.get("id"), "output": output, "usage": usage}

    def results(self, turn: Turn, texts: Sequence[str]) -> list[Any]:
        """Give one output item a result."""
        pairs = zip(turn.hidden, texts, strict=True)
        return [{"type": "function_call_output", "call_id": call.id, "output": text} for call, text in pairs]

    def rest(self, messages: Sequence[Any], at: int, turns: Sequence[Turn]) -> list[Any]:
        """Take the items of earlier answers out of the client's list."""
        found = list(messages)
        shown = [i for t in turns for i in t.messages if not _hides(i)]
        if shown and list(map(_words, found[at : at + len(shown)])) == list(map(_words, shown)):
            del found[at : at + len(shown)]
        return found

    def merged(self, messages: Sequence[Any], at: int, turn: Turn, results: Sequence[Any]) -> list[Any]:
        """Put hidden calls and their results where the calls stood among the client's own items."""
        found = list(messages)
        own = {i.get("call_id") for i in turn.messages if i.get("type") in CLIENTS and not _hides(i)}
        stand = found[at : at + len(turn.messages)]
        if not own <= {i.get("call_id") for i in stand if isinstance(i, Mapping)}:
            return found  # another answer stands there by now
        first = next((n for n, i in enumerate(turn.messages) if _hides(i)), 0)
        place = at + sum(not _hides(i) for i in turn.messages[:first])
        found[place:place] = [*(i for i in turn.messages if _hides(i)), *results]
        return found


def _hides(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type") == "function_call" and item.get("name") in NAMES


def _words(item: Any) -> tuple[Any, ...]:
    """Give what an item says, by which it is known again: its id, or its text."""
    if not isinstance(item, Mapping):
        return ()
    content = item.get("content")
    parts = content if isinstance(content, list) else [{"text": content}] if content else []
    texts = tuple(p.get("text") for p in parts if isinstance(p, Mapping))
    return item.get("type"), item.get("encrypted_content"), item.get("call_id"), texts


def _turn(items: list[dict[str, Any]], ended: bool = True) -> Turn:
    hidden = [
        Hidden(id=str(i.get("call_id")), name=i["name"], arguments=i.get("arguments") or "{}")
        for i in items
        if _hides(i)
    ]
    others = any(i.get("type") in CLIENTS and not _hides(i) for i in items)
    kept = [{k: v for k, v in i.items() if k != "status"} for i in items]
    return Turn(hidden=hidden, others=others, messages=kept, ended=ended)


class ResponsesStream(Shown):
    """Follows items by their output index; sequence numbers run on once something was hidden."""

    def __init__(self) -> None:
        super().__init__()
        self._answers = self._shown = self._sequence = 0
        self._output: list[Any] = []
        self._id: Any = None
        self._altered = self._broken = False
        self._begin()

    def _begin(self) -> None:
        self._items: dict[int, dict[str, Any]] = {}
        self._places: dict[int, int] = {}
        self._held = []

    def feed(self, event: bytes) -> bytes:
        """Show an event."""
        value = value_of(event)
        kind = value.get("type") if isinstance(value, dict) else None
        if kind is None:
            return event
        self._broken = self._broken or kind == "error"
        if kind in _ENDS:
            self._held.append((event, value))
            return b""
        if kind in _BEGINS:
            self._id = self._id or (value.get("response") or {}).get("id")
            return b"" if self._answers else self._numbered(event, value)
        if "output_index" not in value:
            return self._numbered(event, value)
        index = int(value["output_index"])
        if isinstance(value.get("item"), dict):
            self._items[index] = value["item"]
        if _hides(self._items.get(index)):
            self._altered = True
            return b""
        if index not in self._places:
            self._places[index], self._shown = self._shown, self._shown + 1
        if kind == "response.output_item.done":
            self._output.append(value["item"])
        return self._numbered(event, {**value, "output_index": self._places[index]})

    def _numbered(self, event: bytes, value: Mapping[str, Any]) -> bytes:
        self._sequence += 1
        if not self._altered:
            return event
        known = "sequence_number" in value
        return written(event, {**value, "sequence_number": self._sequence - 1} if known else value)

    def end(self) -> Turn:
        """Give the answer that ended."""
        done = [value.get("type") for _, value in self._held] == ["response.completed"] and not self._broken
        turn = _turn([self._items[n] for n in sorted(self._items)], done)
        for _, value in self._held:
            self._usages.append(dict((value.get("response") or {}).get("usage") or {}))
        self._answers += 1
        self._altered = self._altered or self._answers > 1
        self._closing = self._held
        self._begin()
        return turn

    def closing(self) -> bytes:
        """Give the end of the response, with everything that was shown and all answers' usage."""
        made = b""
        for event, value in self._closing:
            if self._altered:
                whole = {**(value.get("response") or {}), "id": self._id, "output": self._output}
                whole["usage"] = summed(self._usages)
                event = self._numbered(event, {**value, "response": whole})
            made += event
        return made

    def failed(self, body: bytes) -> bytes:
        """Tell an error as the Responses API does."""
        value = parsed(body)
        error = value.get("error") if isinstance(value, dict) else None
        found = error if isinstance(error, dict) else {"message": "the provider did not answer"}
        told = {"code": found.get("code"), "message": found.get("message"), "param": found.get("param")}
        self._sequence += 1
        return written(b"event: error", {"type": "error", **told, "sequence_number": self._sequence - 1})
