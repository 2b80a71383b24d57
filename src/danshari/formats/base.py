"""The base class of message formats: read messages into pieces, change, build and check them.

A format implements `pieces(message)` and `patch(message, changes)`. Reading, writing and folding are
shared. An address is (message index, ordinal of the piece in its message), so a message may change its
spelling (string or parts, moved cache marks) and still hold the same pieces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from danshari.core.edits import View
from danshari.core.items import (
    Conversation,
    Item,
    ItemBuilder,
    Piece,
)
from danshari.errors import FormatError

Message = Mapping[str, Any]
Changes = Mapping[int, str | None]
"""Ordinal → new text; None takes the piece out."""

IMAGE_TOKENS = 1500
"""Tokens of an image of unknown size (Anthropic: width × height / 750, at most about 1,600)."""
FILE_TOKENS = 3000
"""Tokens of an attached file or audio of unknown size; both providers count per page or second."""


_SHAPE_ERRORS = (TypeError, AttributeError, KeyError, ValueError, IndexError)
"""What taking a message of an unexpected shape apart may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A rule that the provider would reject the request for."""

    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        """Return `where: text (rule)`."""
        return f"{self.where}: {self.text} ({self.rule})"


GONE: Any = object()
"""Stands in a list being written where a message left as a whole; a caller's own None is something else."""


class Patches:
    """The changes that a view makes, by message, with a cache of the changed copies."""

    __slots__ = ("changes", "copies", "holes", "same")

    def __init__(self, shown: View) -> None:
        self.changes: dict[int, dict[int, str | None]] = {}
        self.copies: dict[int, tuple[Any, Any]] = {}
        """Message index → (source, copy)."""
        self.holes = False
        """Whether some message left as a whole."""
        self.same = False
        """Whether the messages are known to equal the sources of `copies`."""
        for at, edit in shown.effects.texts.items():
            self.change(shown.items[at].at, edit.text or None)
        for at in shown.effects.gone:
            self.change(shown.items[at].at, None)

    def change(self, address: tuple[int, ...], text: str | None) -> None:
        """Add one change. The cached copy of its message is dropped."""
        message, ordinal = address
        self.changes.setdefault(message, {})[ordinal] = text
        self.copies.pop(message, None)


class Format:
    """The shared mechanism of all formats. A subclass knows one message format and nothing of passes."""

    name: ClassVar[str]
    key: ClassVar[str] = "messages"
    """Where the list of messages stands in a whole request."""

    def sign(self, message: Message) -> bool:
        """Return whether only this format can have written `message`."""
        raise NotImplementedError

    def matches(self, payload: object) -> bool:
        """Return whether `payload` (messages or a whole request) holds a message that only this format has."""
        return any(self.is_own_message(m) for m in self.messages(payload))

    def is_own_message(self, message: Any) -> bool:
        """Return `sign` of any value, False if it is no message or has an unexpected shape."""
        message = as_plain_value(message)
        try:
            return isinstance(message, Mapping) and self.sign(message)
        except _SHAPE_ERRORS:
            return False

    def pieces(self, message: Message) -> list[Piece]:
        """Split one message into pieces, in the order of the provider's blocks."""
        raise NotImplementedError

    def split(self, message: Any) -> list[Piece]:
        """Split any message. One of an unexpected shape becomes a single opaque piece that is never edited."""
        message = as_plain_value(message)
        if type(message) is not dict and not isinstance(message, Mapping):
            return [opaque_piece(message, "user")]
        try:
            return self.pieces(message)
        except _SHAPE_ERRORS:
            return [opaque_piece(message, message.get("role"))]

    def patch(self, message: Message, changes: Changes) -> Message | None:
        """Copy `message` with some pieces changed; None if nothing is left of it."""
        raise NotImplementedError

    def append_text(self, message: Message, text: str) -> Message:
        """Copy a user message with one more text block."""
        raise NotImplementedError

    def user_message(self, text: str) -> Message:
        """Make a user message."""
        raise NotImplementedError

    def begins_turn(self, message: Message, before: Message | None) -> bool:  # noqa: ARG002
        """Return whether a new assistant turn begins with `message`, which follows `before`."""
        return message.get("role") == "assistant"

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Build messages from items. What this format cannot carry is described in `lost`."""
        raise NotImplementedError

    def check(self, payload: object) -> list[Problem]:
        """List every rule that the provider would reject `payload` for."""
        raise NotImplementedError

    def hints(self) -> dict[str, Any]:
        """Return request fields that make the provider drop invalid thinking, empty if it has no such field."""
        return {}

    def messages(self, payload: object) -> Sequence[Any]:
        """Return the list of messages of a whole request, or the list itself. Raises FormatError for anything else."""
        if isinstance(payload, Mapping):
            payload = payload.get(self.key, ())
            if isinstance(payload, str):
                return payload  # one plain input text: nothing to compact
        if not isinstance(payload, Sequence) or isinstance(payload, str | bytes):
            raise FormatError(f"{self.name}: expected a list of messages, got {type(payload).__name__}")
        return payload

    def read(self, payload: object) -> Conversation:
        """Read all messages into items."""
        chain = ItemBuilder()
        self.read_tail(self.messages(payload), chain, 0)
        return tuple(chain.items)

    def read_tail(self, messages: Sequence[Any], chain: ItemBuilder, start: int) -> None:
        """Read the messages from `start` on into `chain`."""
        before = as_plain_value(messages[start - 1]) if start else None
        for at in range(start, len(messages)):
            message = as_plain_value(messages[at])
            if isinstance(message, dict) and self.begins_turn(message, before if isinstance(before, dict) else None):
                chain.begin_turn()
            chain.extend(at, self.split(message))
            before = message

    def write(self, payload: Any, shown: View, patches: Patches | None = None) -> Any:
        """Return the caller's payload changed so that it reads as `shown`.

        Unchanged messages stay the same objects. `patches` keeps the changes and the changed copies between
        calls.
        """
        messages = self.messages(payload)
        out = self._write_messages(messages, shown, patches or Patches(shown))
        return {**payload, self.key: out} if isinstance(payload, Mapping) else out

    def _write_messages(self, messages: Sequence[Any], shown: View, patches: Patches) -> list[Any]:
        """Return the messages with all changes, hand-overs and inserts of the view."""
        out = list(messages)
        copies = patches.copies
        for at, change in patches.changes.items():
            copy = copies.get(at)
            if copy is None or (not patches.same and copy[0] is not messages[at] and copy[0] != messages[at]):
                copy = copies[at] = (messages[at], self.patch(as_plain_value(messages[at]), change))
                patches.holes = patches.holes or copy[1] is None
            out[at] = GONE if copy[1] is None else copy[1]
        if patches.holes:
            self.settle(out, messages)
        self._splice_additions(out, self._collect_additions(shown))
        return [m for m in out if m is not GONE] if patches.holes else out

    def settle(self, out: list[Any], messages: Sequence[Any]) -> None:
        """Tidy up after removed messages (`GONE` in `out`). Most formats have nothing to do."""

    def _collect_additions(self, shown: View) -> dict[int, list[tuple[str, Any]]]:
        """Collect hand-overs and inserted items, by the index of the message they stand at."""
        extra: dict[int, list[tuple[str, Any]]] = {}
        for start, (_, fold) in shown.effects.folds.items():
            extra.setdefault(shown.items[start].at[0], []).append(("fold", fold.text))
        for at, insert in shown.effects.inserts.items():
            extra.setdefault(shown.items[at].at[0], []).append(("insert", insert.items))
        return extra

    def _splice_additions(self, out: list[Any], extra: Mapping[int, list[tuple[str, Any]]]) -> None:
        """Append each hand-over to the user message before it, or insert it as one, and insert the inserts."""
        for at in sorted(extra, reverse=True):
            for what, value in extra[at]:
                if what == "insert":
                    out[at + 1 : at + 1] = self.build(value)
                    continue
                before = at - 1
                while before >= 0 and out[before] is GONE:
                    before -= 1
                if before >= 0 and self.is_user(out[before]):
                    out[before] = self.append_text(out[before], value)
                else:
                    out.insert(at, self.user_message(value))

    def is_user(self, message: Message) -> bool:
        """Return whether text can be appended to this message as the user's."""
        return message.get("role") == "user"


def as_plain_value(value: Any) -> Any:
    """Return an SDK's response object as a dict, and any other value as it is."""
    if isinstance(value, dict) or not hasattr(value, "model_dump"):
        return value
    return value.model_dump(exclude_none=True)


def opaque_piece(value: Any, role: Any, call: str = "") -> Piece:
    """Wrap a value that is not understood as a piece that is carried and counted but never edited."""
    try:
        body = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        body = repr(value)
    known: Any = role if isinstance(role, str) and role in ("system", "user", "assistant", "tool") else "user"
    return Piece(kind="opaque", role=known, text="", call=call, body=body, weight=len(body) // 4, raw=value)


def string_or_empty(value: Any) -> str:
    """Return a string as it is, and an empty string for any other value."""
    return value if isinstance(value, str) else ""


def data_url(media_type: str, data: str) -> str:
    """Write base64 bytes as a data URL."""
    return f"data:{media_type};base64,{data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Split a base64 data URL into media type and data; None for other URLs."""
    if not url.startswith("data:") or ";base64," not in url:
        return None
    head, data = url.split(";base64,", 1)
    return head[5:], data
