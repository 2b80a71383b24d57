"""The plug for wire shapes: read messages into pieces, patch the caller's own messages, build new ones, check.

A format supplies `pieces(message)` and `patch(message, changes)`; reading, writing and folding are shared.
An address is (message index, ordinal of the piece within its message), so a message may change its spelling
(string or parts, moved cache marks) without losing its pieces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from danshari.core.edits import View
from danshari.core.items import (
    Chain,
    Conversation,
    Item,
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


_MISSHAPEN = (TypeError, AttributeError, KeyError, ValueError, IndexError)
"""What taking a message of an unexpected shape apart may raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One rule that the provider would reject a request for."""

    rule: str
    where: str
    text: str

    def __str__(self) -> str:
        """Give `where: text (rule)`."""
        return f"{self.where}: {self.text} ({self.rule})"


GONE: Any = object()
"""Stands in a list being written where a message left as a whole; a caller's own None is something else."""


class Patches:
    """A view's changes by message, and the patched copies made of them; grown edit by edit."""

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
        """Add one change; the message's copy is made anew."""
        message, ordinal = address
        self.changes.setdefault(message, {})[ordinal] = text
        self.copies.pop(message, None)


class Format:
    """Shared mechanism of all formats; subclasses know one wire shape and nothing of passes."""

    name: ClassVar[str]
    key: ClassVar[str] = "messages"
    """Where the list of messages stands in a whole request."""

    def sign(self, message: Message) -> bool:
        """Say whether `message` can only be of this format."""
        raise NotImplementedError

    def matches(self, payload: object) -> bool:
        """Say whether `payload` (a list of messages or a whole request) holds a message that only this format has."""
        return any(self.signed(m) for m in self.messages(payload))

    def signed(self, message: Any) -> bool:
        """Ask `sign` of any value at all."""
        message = plain(message)
        try:
            return isinstance(message, Mapping) and self.sign(message)
        except _MISSHAPEN:
            return False

    def pieces(self, message: Message) -> list[Piece]:
        """Split one message; the order is that of the provider's own blocks."""
        raise NotImplementedError

    def split(self, message: Any) -> list[Piece]:
        """Split any message; one whose shape is not this format's is carried whole and never edited."""
        message = plain(message)
        if type(message) is not dict and not isinstance(message, Mapping):
            return [opaque(message, "user")]
        try:
            return self.pieces(message)
        except _MISSHAPEN:
            return [opaque(message, message.get("role"))]

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
        """Say whether a new assistant turn begins with `message`, which follows `before`."""
        return message.get("role") == "assistant"

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Make messages from items; what this format cannot carry is named in `lost`."""
        raise NotImplementedError

    def check(self, payload: object) -> list[Problem]:
        """Name every rule that the provider would reject `payload` for."""
        raise NotImplementedError

    def hints(self) -> dict[str, Any]:
        """Give request fields that make the provider drop dead thinking; empty where that is not a thing."""
        return {}

    def messages(self, payload: object) -> Sequence[Any]:
        """Take the list of messages out of a whole request, or take the list as it is."""
        if isinstance(payload, Mapping):
            payload = payload.get(self.key, ())
            if isinstance(payload, str):
                return payload  # one plain input text: nothing to compact
        if not isinstance(payload, Sequence) or isinstance(payload, str | bytes):
            raise FormatError(f"{self.name}: expected a list of messages, got {type(payload).__name__}")
        return payload

    def read(self, payload: object) -> Conversation:
        """Read all messages into items."""
        chain = Chain()
        self.read_tail(self.messages(payload), chain, 0)
        return tuple(chain.items)

    def read_tail(self, messages: Sequence[Any], chain: Chain, start: int) -> None:
        """Read the messages from `start` on into `chain`."""
        before = plain(messages[start - 1]) if start else None
        for at in range(start, len(messages)):
            message = plain(messages[at])
            if isinstance(message, dict) and self.begins_turn(message, before if isinstance(before, dict) else None):
                chain.begin_turn()
            chain.extend(at, self.split(message))
            before = message

    def write(self, payload: Any, shown: View, patches: Patches | None = None) -> Any:
        """Patch the caller's payload so that it reads as `shown`; untouched messages stay the same objects.

        `patches` keeps the changes of `shown` and the patched copies between calls.
        """
        messages = self.messages(payload)
        out = self._written(messages, shown, patches or Patches(shown))
        return {**payload, self.key: out} if isinstance(payload, Mapping) else out

    def _written(self, messages: Sequence[Any], shown: View, patches: Patches) -> list[Any]:
        out = list(messages)
        copies = patches.copies
        for at, change in patches.changes.items():
            copy = copies.get(at)
            if copy is None or (not patches.same and copy[0] is not messages[at] and copy[0] != messages[at]):
                copy = copies[at] = (messages[at], self.patch(plain(messages[at]), change))
                patches.holes = patches.holes or copy[1] is None
            out[at] = GONE if copy[1] is None else copy[1]
        if patches.holes:
            self.settle(out, messages)
        self._splice(out, self._extra(shown))
        return [m for m in out if m is not GONE] if patches.holes else out

    def settle(self, out: list[Any], messages: Sequence[Any]) -> None:
        """See to what messages that left (`GONE` in `out`) leave behind; most formats have nothing to do."""

    def _extra(self, shown: View) -> dict[int, list[tuple[str, Any]]]:
        """Collect what has no message of its own yet: hand-overs and inserted items, by message index."""
        extra: dict[int, list[tuple[str, Any]]] = {}
        for start, (_, fold) in shown.effects.folds.items():
            extra.setdefault(shown.items[start].at[0], []).append(("fold", fold.text))
        for at, insert in shown.effects.inserts.items():
            extra.setdefault(shown.items[at].at[0], []).append(("insert", insert.items))
        return extra

    def _splice(self, out: list[Any], extra: Mapping[int, list[tuple[str, Any]]]) -> None:
        """Append hand-overs to the preceding user message and inserts after their message."""
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
        """Say whether text may be appended to this message as the user's side."""
        return message.get("role") == "user"


def plain(value: Any) -> Any:
    """Give an SDK's response object as the dict it stands for; everything else as it is."""
    if isinstance(value, dict) or not hasattr(value, "model_dump"):
        return value
    return value.model_dump(exclude_none=True)


def opaque(value: Any, role: Any, call: str = "") -> Piece:
    """Wrap what we do not understand: carried, counted, never edited."""
    try:
        body = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        body = repr(value)
    known: Any = role if isinstance(role, str) and role in ("system", "user", "assistant", "tool") else "user"
    return Piece(kind="opaque", role=known, text="", call=call, body=body, weight=len(body) // 4, raw=value)


def text_of(value: Any) -> str:
    """Give a string as it is, anything else empty."""
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
