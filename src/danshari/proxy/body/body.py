"""A request's body, read with the place of every message; what the last request held already is not read again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari.proxy.body.json_patch import (
    Span,
    Written,
    after_comma,
    after_space,
    array,
    dumped,
    elements,
    member,
    rendered,
    value_at,
)


@dataclass(slots=True, kw_only=True)
class Body:
    """A JSON object whose member `key` is a list of messages."""

    text: str
    key: str
    values: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    """Member → its value's span."""
    places: list[Span] = field(default_factory=list)
    """Span of every message."""
    end: int = 0
    """Place of the closing bracket."""
    head: bytes = b""
    """The beginning up to the end of the second message: what bodies of one conversation share."""
    written: dict[tuple[int, int], tuple[Any, Any, str]] = field(default_factory=dict)
    """(id of a message, id of its changed copy) → both, and what was written for them."""
    _used: dict[tuple[int, int], tuple[Any, Any, str]] = field(default_factory=dict)
    last: Written | None = None
    """The list of messages as it was written last."""

    @property
    def messages(self) -> list[Any]:
        """The messages as parsed; from request to request the same objects."""
        found: list[Any] = self.values[self.key]
        return found

    @property
    def whole(self) -> Span:
        """The span of the list of messages."""
        return self.spans[self.key]

    def write(self, messages: Sequence[Any], fields: Mapping[str, Any] | None = None) -> bytes:
        """Give the body with other messages and some other fields; everything else keeps its bytes."""
        text = self.text
        changes: list[tuple[Span, str]] = []
        if messages is not self.messages:
            self._used = {}
            self.last = array(text, self.whole, self.places, self.messages, messages, write=self._one, last=self.last)
            changes.append((self.whole, self.last.text))
            self.written = self._used
        for name, value in (fields or {}).items():
            if name in self.spans:
                changes.append((self.spans[name], rendered(text, self.spans[name], self.values[name], value)))
            else:
                changes.append(((self.end, self.end), f",{dumped(name)}:{dumped(value)}"))
        parts: list[str] = []
        at = 0
        for (start, end), made in sorted(changes, key=lambda change: change[0]):
            parts += [text[at:start], made]
            at = end
        return "".join([*parts, text[at:]]).encode("utf-8")

    def _one(self, text: str, span: Span, old: Any, new: Any) -> str:
        """Write one message; what was written for the same change before is written again."""
        known = self.written.get((id(old), id(new)))
        if known is None:
            made = rendered(text, span, old, new)
            if json.loads(made) != new:
                raise ValueError(f"message at character {span[0]} would not read as its view")
            known = (old, new, made)
        self._used[id(old), id(new)] = known
        return known[2]


def read(text: str, key: str, last: Body | None = None) -> Body:
    """Read a body; raises ValueError if it is no JSON object, or holds `key` twice.

    `last` is an earlier body of the same conversation: messages that stand in both are the same objects.
    """
    body = Body(text=text, key=key)
    start = after_space(text, 0)
    if text[start : start + 1] != "{":
        raise ValueError("the body is no JSON object")
    if last is not None and last.key == key and text.startswith(last.text[: last.whole[0] + 1]):
        _follow(body, last)
    else:
        _members(body, after_space(text, start + 1))
    if after_space(text, body.end + 1) != len(text):
        raise ValueError(f"text after the end at character {body.end + 1}")
    if body.places:
        body.head = text[: body.places[min(1, len(body.places) - 1)][1]].encode("utf-8")
    return body


def _members(body: Body, at: int) -> None:
    """Read members from `at` to the end."""
    text = body.text
    while text[at : at + 1] != "}":
        name, _, start = member(text, at)
        if name in body.values:
            raise ValueError(f"{name!r} stands twice")
        if name == body.key and text[start : start + 1] == "[":
            body.values[name] = []
            end = _list(body, start, after_space(text, start + 1))
        else:
            body.values[name], end = value_at(text, start)
            body.spans[name] = (start, end)
        at = after_comma(text, end, "}")
    body.end = at


def _list(body: Body, start: int, at: int) -> int:
    """Read messages from `at` on; give the place after the list."""
    for span, value in elements(body.text, at):
        body.places.append(span)
        body.messages.append(value)
        at = span[1]
    end = after_space(body.text, at) + 1
    body.spans[body.key] = (start, end)
    return end


def _follow(body: Body, last: Body) -> None:
    """Read a body that begins as the last one did: take its messages over as far as the texts agree."""
    text, start = body.text, last.whole[0]
    body.values = {name: v for name, v in last.values.items() if last.spans[name][1] <= start}
    body.spans = {name: last.spans[name] for name in body.values}
    at, same = start + 1, 0
    for _, end in last.places:
        if not text.startswith(last.text[at:end], at):
            break
        at, same = end, same + 1
    body.places = last.places[:same]
    body.values[body.key] = last.messages[:same]
    body.written, body.last = last.written, last.last
    end = _list(body, start, after_comma(text, at, "]") if same else after_space(text, at))
    tail, moved = last.text[last.whole[1] :], end - last.whole[1]
    if text[end:] == tail:
        for name, (a, b) in last.spans.items():
            if a >= last.whole[1]:
                body.values[name], body.spans[name] = last.values[name], (a + moved, b + moved)
        body.end = last.end + moved
    else:
        _members(body, after_comma(text, end, "}"))
