"""Parse a request body with the position of every message, reusing what the previous request already held."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari.formats import Format
from danshari.formats.sse import dump_compact_json
from danshari.proxy.body.json_patch import (
    SplicedArray,
    TextSpan,
    iterate_elements,
    read_member_key,
    read_value,
    skip_comma,
    skip_space,
    splice_array,
    splice_value,
)


@dataclass(slots=True, kw_only=True)
class RequestBody:
    """A parsed JSON request whose member `key` is the list of messages, with positions in its text."""

    text: str
    key: str
    values: dict[str, Any] = field(default_factory=dict)
    spans: dict[str, TextSpan] = field(default_factory=dict)
    """Member → its value's span."""
    places: list[TextSpan] = field(default_factory=list)
    """Span of every message."""
    end: int = 0
    """Place of the closing bracket."""
    head: bytes = b""
    """The beginning up to the end of the second message: what bodies of one conversation share."""
    written: dict[tuple[int, int], tuple[Any, Any, str]] = field(default_factory=dict)
    """(id of a message, id of its changed copy) → both, and what was written for them."""
    _used: dict[tuple[int, int], tuple[Any, Any, str]] = field(default_factory=dict)
    last: SplicedArray | None = None
    """The list of messages as it was written last."""
    trail: list[Any] = field(default_factory=list)
    """What `proxy.sessions` read in the messages, as far as it is known."""

    @property
    def messages(self) -> list[Any]:
        """The parsed messages; messages unchanged since the last request are the same objects."""
        found: list[Any] = self.values[self.key]
        return found

    @property
    def messages_span(self) -> TextSpan:
        """The span of the list of messages in the text."""
        return self.spans[self.key]

    def write(self, messages: Sequence[Any], fields: Mapping[str, Any] | None = None) -> bytes:
        """Return the body as bytes with other messages and some replaced or added fields; the rest keeps its bytes."""
        text = self.text
        changes: list[tuple[TextSpan, str]] = []
        if messages is not self.messages:
            self._used = {}
            self.last = splice_array(
                text,
                self.messages_span,
                self.places,
                self.messages,
                messages,
                write=self._write_message,
                last=self.last,
            )
            changes.append((self.messages_span, self.last.text))
            self.written = self._used
        for name, value in (fields or {}).items():
            if name in self.spans:
                changes.append((self.spans[name], splice_value(text, self.spans[name], self.values[name], value)))
            else:
                changes.append(((self.end, self.end), f",{dump_compact_json(name)}:{dump_compact_json(value)}"))
        parts: list[str] = []
        at = 0
        for (start, end), made in sorted(changes, key=lambda change: change[0]):
            parts += [text[at:start], made]
            at = end
        return "".join([*parts, text[at:]]).encode("utf-8")

    def _write_message(self, text: str, span: TextSpan, old: Any, new: Any) -> str:
        """Write one changed message, reusing the text written for the same change before.

        Raises ValueError if the written text does not parse to `new`.
        """
        known = self.written.get((id(old), id(new)))
        if known is None:
            made = splice_value(text, span, old, new)
            if json.loads(made) != new:
                raise ValueError(f"message at character {span[0]} would not read as its view")
            known = (old, new, made)
        self._used[id(old), id(new)] = known
        return known[2]


def read_body(text: str, key: str, last: RequestBody | None = None) -> RequestBody:
    """Parse a body; raises ValueError if it is no JSON object, or holds a member twice.

    `last` is an earlier body of the same conversation: messages that are in both are the same objects.
    """
    body = RequestBody(text=text, key=key)
    start = skip_space(text, 0)
    if text[start : start + 1] != "{":
        raise ValueError("the body is no JSON object")
    if last is not None and last.key == key and text.startswith(last.text[: last.messages_span[0] + 1]):
        _reuse_last_body(body, last)
    else:
        _read_members(body, skip_space(text, start + 1))
    if skip_space(text, body.end + 1) != len(text):
        raise ValueError(f"text after the end at character {body.end + 1}")
    if body.places:
        body.head = text[: body.places[min(1, len(body.places) - 1)][1]].encode("utf-8")
    return body


def read_request_body(raw: bytes, wire: Format, last: RequestBody | None) -> RequestBody | str:
    """Parse a request body; return a text with the reason if it cannot be compacted."""
    try:
        body = read_body(raw.decode("utf-8"), wire.key, last)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError too
        return f"not read: {type(error).__name__}"
    if why := wire.api.reason_not_to_compact(body.values):
        return why
    messages = body.values.get(wire.key)
    return body if isinstance(messages, list) and messages else f"no list of messages under {wire.key!r}"


def _read_members(body: RequestBody, at: int) -> None:
    """Read the object's members from position `at` to the end."""
    text = body.text
    while text[at : at + 1] != "}":
        name, _, start = read_member_key(text, at)
        if name in body.values:
            raise ValueError(f"{name!r} stands twice")
        if name == body.key and text[start : start + 1] == "[":
            body.values[name] = []
            end = _read_messages(body, start, skip_space(text, start + 1))
        else:
            body.values[name], end = read_value(text, start)
            body.spans[name] = (start, end)
        at = skip_comma(text, end, "}")
    body.end = at


def _read_messages(body: RequestBody, start: int, at: int) -> int:
    """Read messages from position `at`; return the position after the list."""
    for span, value in iterate_elements(body.text, at):
        body.places.append(span)
        body.messages.append(value)
        at = span[1]
    end = skip_space(body.text, at) + 1
    body.spans[body.key] = (start, end)
    return end


def _reuse_last_body(body: RequestBody, last: RequestBody) -> None:
    """Read a body that begins as the last one did: reuse its messages up to where the texts differ."""
    text, start = body.text, last.messages_span[0]
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
    body.trail = [stretch for stretch in last.trail if stretch.end < same]
    end = _read_messages(body, start, skip_comma(text, at, "]") if same else skip_space(text, at))
    tail, moved = last.text[last.messages_span[1] :], end - last.messages_span[1]
    if text[end:] == tail:
        for name, (a, b) in last.spans.items():
            if a >= last.messages_span[1]:
                body.values[name], body.spans[name] = last.values[name], (a + moved, b + moved)
        body.end = last.end + moved
    else:
        _read_members(body, skip_comma(text, end, "}"))
