"""The base class of message formats: read messages into pieces, change, build and check them.

A format implements `pieces(message)` and `patch(message, changes)`. Reading, writing and folding are
shared. An address is (message index, ordinal of the piece in its message), so a message may change its
spelling (string or parts, moved cache marks) and still hold the same pieces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from danshari.core.edits import View
from danshari.core.items import (
    Conversation,
    Item,
    ItemBuilder,
    Piece,
    canonical_json,
)
from danshari.errors import FormatError
from danshari.formats.weights import opaque_weight

if TYPE_CHECKING:
    from danshari.formats.api import ProviderApi
    from danshari.formats.script import ProviderScript

Message = Mapping[str, Any]
ImageSource = tuple[str, str] | str
"""An image as (media type, base64 data), or its URL."""
Changes = Mapping[int, str | None]
"""Ordinal → new text; None takes the piece out."""

IMAGE_TOKENS = 1500
"""Tokens of an image of unknown size (Anthropic: width × height / 750, at most about 1,600)."""
FILE_TOKENS = 3000
"""Tokens of an attached file or audio of unknown size; both providers count per page or second."""


CARRY_ON, READ = "Go on.", "I have read the hand-over."
"""What stands beside a hand-over where the other side is due."""
EMPTY = "(empty)"
"""The text put where a provider refuses a message without any."""
SHAPE_ERRORS = (TypeError, AttributeError, KeyError, ValueError, IndexError)
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
    """The shared mechanism of all formats. A subclass knows one message format and nothing of passes.

    Messages are mappings, SDK objects with `model_dump`, or a framework's own objects (see `formats.objects`).
    """

    name: ClassVar[str]
    key: ClassVar[str] = "messages"
    """Where the list of messages stands in a whole request."""
    system_key: ClassVar[str] = ""
    """Where the system prompt stands in a whole request; empty: among the messages."""
    request_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields of a whole request that tell this format from others with the same `key`."""
    can_answer: ClassVar[bool] = False
    """Whether messages of its own can be made: `answer`, `fill_empty` and `assistant_message` are there."""
    answers_follow: ClassVar[bool] = True
    """Whether results must stand right behind the turn that made the calls, not just anywhere later."""
    one_answer: ClassVar[bool] = False
    """Whether all results of a turn must stand in one message."""
    system_between: ClassVar[bool] = False
    """Whether a system message may stand between calls and results."""

    @property
    def api(self) -> ProviderApi:
        """What the provider's API has besides messages: paths, keys, usage, errors, tools, streams."""
        found: ProviderApi = self.provider_format._sibling("api").API
        return found

    @property
    def script(self) -> ProviderScript:
        """How the provider words scripted turns."""
        found: ProviderScript = self.provider_format._sibling("scripted").SCRIPT
        return found

    @property
    def provider_format(self) -> Format:
        """The format in which plain requests to the provider are written: this one, unless messages are objects."""
        return self

    def _sibling(self, name: str) -> Any:
        """Import a module of the folder in which the format stands: only those who need it pay for it."""
        return import_module(f"{type(self).__module__.rpartition('.')[0]}.{name}")

    def as_message(self, message: Any) -> Any:
        """Return a message in the shape that `pieces` and `patch` take; a mapping by default."""
        return as_plain_value(message)

    def is_message(self, message: Any) -> bool:
        """Return whether a value that `as_message` returned has the shape of a message."""
        return isinstance(message, Mapping)

    def image_source(self, raw: Mapping[str, Any]) -> ImageSource | None:  # noqa: ARG002
        """Return the image of one of this format's media blocks; None for anything else."""
        return None

    def sign(self, message: Any) -> bool:
        """Return whether only this format can have written `message`."""
        raise NotImplementedError

    def matches(self, payload: object) -> bool:
        """Return whether `payload` (messages or a whole request) holds a message that only this format has."""
        return any(self.is_own_message(m) for m in self.messages(payload))

    def is_own_message(self, message: Any) -> bool:
        """Return `sign` of any value, False if it is no message or has an unexpected shape."""
        message = self.as_message(message)
        try:
            return self.is_message(message) and self.sign(message)
        except SHAPE_ERRORS:
            return False

    def pieces(self, message: Any) -> list[Piece]:
        """Split one message into pieces, in the order of the provider's blocks."""
        raise NotImplementedError

    def split(self, message: Any) -> list[Piece]:
        """Split any message. One of an unexpected shape becomes a single opaque piece that is never edited."""
        message = self.as_message(message)
        if type(message) is not dict and not self.is_message(message):
            return [opaque_piece(message, "user")]
        try:
            return self.pieces(message)
        except SHAPE_ERRORS:
            return [opaque_piece(message, message.get("role") if isinstance(message, Mapping) else None)]

    def name_calls(self, pieces: list[Piece], messages: Sequence[Any], at: int) -> list[Piece]:  # noqa: ARG002
        """Return the pieces of message `at`, with call ids where the provider pairs by position."""
        return pieces

    def patch(self, message: Any, changes: Changes) -> Any:
        """Copy `message` with some pieces changed; None if nothing is left of it."""
        raise NotImplementedError

    def append_text(self, message: Any, text: str) -> Any:
        """Copy a user message with one more text block."""
        raise NotImplementedError

    def user_message(self, text: str) -> Any:
        """Make a user message."""
        raise NotImplementedError

    def assistant_message(self, text: str) -> Any:
        """Make a message of the assistant."""
        raise NotImplementedError

    def answer(self, call: Piece, text: str) -> Any:
        """Make the message that answers a call with a failure."""
        raise NotImplementedError

    def join_answers(self, messages: list[Any]) -> list[Any]:
        """Return the messages that carry these results of one turn; several in one, where the format does so."""
        return messages

    def fill_empty(self, message: Any) -> Any:
        """Return the message with a word where the provider refuses nothing; the same object if all is well."""
        return message

    def begins_turn(self, message: Any, before: Any) -> bool:  # noqa: ARG002
        """Return whether a new assistant turn begins with `message`, which follows `before`."""
        return bool(message.get("role") == "assistant")

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

    @property
    def can_store(self) -> bool:
        """Whether messages can be written for a saved session and read back."""
        return True

    def to_json(self, message: Any) -> Any:
        """Return a message as JSON values, for a saved session; `from_json` reads it back."""
        return as_plain_value(message)

    def from_json(self, value: Any) -> Any:
        """Return the message that `to_json` wrote."""
        return value

    def read(self, payload: object) -> Conversation:
        """Read all messages into items."""
        chain = ItemBuilder()
        self.read_tail(self.messages(payload), chain, 0)
        return tuple(chain.items)

    def read_tail(self, messages: Sequence[Any], chain: ItemBuilder, start: int) -> None:
        """Read the messages from `start` on into `chain`."""
        before = self.as_message(messages[start - 1]) if start else None
        for at in range(start, len(messages)):
            message = self.as_message(messages[at])
            known = before if before is not None and self.is_message(before) else None
            if self.is_message(message) and self.begins_turn(message, known):
                chain.begin_turn()
            chain.extend(at, self.name_calls(self.split(message), messages, at))
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
        """Return the messages with all changes and hand-overs of the view."""
        out = list(messages)
        copies = patches.copies
        for at, change in patches.changes.items():
            copy = copies.get(at)
            if copy is None or (not patches.same and copy[0] is not messages[at] and copy[0] != messages[at]):
                message = self.as_message(messages[at])  # what is no message can only leave whole
                copy = copies[at] = (messages[at], self.patch(message, change) if self.is_message(message) else None)
                patches.holes = patches.holes or copy[1] is None
            out[at] = GONE if copy[1] is None else copy[1]
        if patches.holes:
            self.settle(out, messages)
        self._splice_handovers(out, shown)
        return [m for m in out if m is not GONE] if patches.holes else out

    def settle(self, out: list[Any], messages: Sequence[Any]) -> None:
        """Tidy up after removed messages (`GONE` in `out`). Most formats have nothing to do."""

    def _splice_handovers(self, out: list[Any], shown: View) -> None:
        """Append each hand-over to the user message before it, or insert it as a message of its own."""
        places = {shown.items[start].at[0]: fold for start, (_, fold) in shown.effects.folds.items()}
        for at in sorted(places, reverse=True):
            fold, before = places[at], at - 1
            while before >= 0 and out[before] is GONE:
                before -= 1
            message = self.as_message(out[before]) if before >= 0 else None
            extends = not fold.apart and message is not None and self.is_message(message) and self.is_user(message)
            if fold.alternate and self.can_answer:
                sides = (self._speaker(out[:at][::-1]), self._speaker(out[at:]) or "assistant")
                if not extends or sides == ("user", "user"):
                    out[at:at] = self._alternating_messages(fold.text, *sides)
                    continue
            if extends:
                out[before] = self.append_text(message, fold.text)
            else:
                out.insert(at, self.user_message(fold.text))

    def _speaker(self, messages: Sequence[Any]) -> str:
        """Return who speaks in the first of the messages that is no call, no result and no system prompt, or ""."""
        for message in messages:
            pieces = self.split(message) if message is not GONE else []
            if pieces and all(p.kind not in ("call", "result") and p.role in ("user", "assistant") for p in pieces):
                return pieces[0].role
        return ""

    def _alternating_messages(self, text: str, before: str, after: str) -> list[Any]:
        """Return the messages of a hand-over between two speakers, so that user and assistant take turns."""
        if before == "user":
            made = [self.assistant_message(text)]
            return made if after == "user" else [*made, self.user_message(CARRY_ON)]
        made = [self.user_message(text)]
        return [*made, self.assistant_message(READ)] if after == "user" else made

    def is_user(self, message: Any) -> bool:
        """Return whether text can be appended to this message as the user's."""
        return bool(message.get("role") == "user")


def as_plain_value(value: Any) -> Any:
    """Return an SDK's response object as a dict, and any other value as it is."""
    if isinstance(value, dict) or not hasattr(value, "model_dump"):
        return value
    return value.model_dump(exclude_none=True)


def opaque_piece(value: Any, role: Any, call: str = "", *, fixed: bool = False, program: str = "") -> Piece:
    """Wrap a value that is not understood as a piece that is carried and counted but never edited.

    One that is `fixed` never leaves either.
    """
    try:
        body = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        body = repr(value)
    known: Any = role if isinstance(role, str) and role in ("system", "user", "assistant", "tool") else "user"
    return Piece(
        kind="opaque",
        role=known,
        text="",
        call=call,
        body=body,
        weight=opaque_weight(value, len(body), image=IMAGE_TOKENS, file=FILE_TOKENS),
        raw=value,
        fixed=fixed,
        program=program,
    )


def media_piece(part: Any, role: Any, weight: int, call: str = "") -> Piece:
    """Wrap an image, a file or audio of an estimated weight in tokens."""
    return Piece(kind="media", role=role, text="", call=call, body=canonical_json(part), weight=weight, raw=part)


def collect_strings(value: Any) -> list[str]:
    """Collect every string in a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [s for v in value.values() for s in collect_strings(v)]
    if isinstance(value, list | tuple):
        return [s for v in value for s in collect_strings(v)]
    return []


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
