"""Put the deltas of a chat completion's stream together, with the fields of providers that nobody here knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LABELS = frozenset(("id", "type", "role", "index", "format", "signature"))
"""Fields that a stream says whole, perhaps again with every delta."""


def merge_delta(held: Any, more: Any, name: str = "") -> Any:
    """Return a value of a message with what a delta adds: text grows, entries of a list go by their `index`."""
    if held is None or more is None:
        return held if more is None else more
    if isinstance(held, Mapping) and isinstance(more, Mapping):
        names = dict.fromkeys((*held, *more))
        return {key: merge_delta(held.get(key), more.get(key), key) for key in names}
    if isinstance(held, list) and isinstance(more, list):
        return _merge_lists(held, more)
    if isinstance(held, str) and isinstance(more, str):
        return (more or held) if name in _LABELS else held + more
    return more


def _merge_lists(held: list[Any], more: list[Any]) -> list[Any]:
    """Add entries to a list; one that continues the last entry, by index and type, is joined to it."""
    made = list(held)
    for entry in more:
        last = made[-1] if made else None
        if (
            isinstance(entry, Mapping)
            and isinstance(last, Mapping)
            and entry.get("index") is not None
            and all(entry.get(key, last.get(key)) == last.get(key) for key in ("index", "type"))
        ):
            made[-1] = merge_delta(last, entry)
        else:
            made.append(entry)
    return made


class StreamedCalls:
    """The tool calls of one answer, told apart by index and id: some servers repeat or leave out the index."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self._by_index: dict[Any, int] = {}
        """Index → number of the newest call under it."""

    def add(self, part: Mapping[str, Any]) -> int:
        """Read a delta of a call; return the call's number, in the order of their beginnings."""
        number = self._find(part)
        if number is None:
            number = len(self.calls)
            self.calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
        self._by_index[part.get("index")] = number
        call, told = self.calls[number], {k: v for k, v in part.items() if k not in ("index", "function")}
        function = dict(part.get("function") or {})
        if function.get("name") == call["function"]["name"]:
            function.pop("name")  # some servers repeat it with every delta
        made = merge_delta(call, told)
        self.calls[number] = {**made, "function": merge_delta(call["function"], function)}
        return number

    def _find(self, part: Mapping[str, Any]) -> int | None:
        """Return the number of the call that a delta continues; None if it begins one."""
        index, told = part.get("index"), part.get("id")
        number = len(self.calls) - 1 if index is None else self._by_index.get(index, -1)
        if number < 0:
            return None
        if told and self.calls[number].get("id") not in (None, "", told):
            return next((n for n, call in enumerate(self.calls) if call.get("id") == told), None)
        return number

    def name(self, number: int) -> str:
        """Return what is known of a call's name."""
        return str(self.calls[number]["function"].get("name") or "")
