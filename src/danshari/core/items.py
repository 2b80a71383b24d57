"""A conversation as a flat list of immutable items, each with a content digest and a stable id.

An item's id is a hash of its content and of the tool calls before it (the *spine*). It does not
depend on other texts, so the same piece keeps its id across restarts, reordered keys, moved cache
marks, stripped thinking and edits of other pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, NewType

from danshari.core.text import lazy_pattern

ItemId = NewType("ItemId", str)
Digest = NewType("Digest", str)
Role = Literal["system", "user", "assistant", "tool"]
Kind = Literal["text", "reasoning", "call", "result", "media", "opaque"]
Address = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of a conversation that can be measured and replaced: a text, a tool call, a tool result."""

    id: ItemId
    digest: Digest
    role: Role
    kind: Kind
    text: str
    name: str = ""
    """Tool name of a call, and of a result once its call is known."""
    call: str = ""
    """The provider's id that pairs a call with its result."""
    failed: bool = False
    turn: int = 0
    """How many assistant messages the conversation holds up to and including this item's own."""
    bound: bool = False
    """A reasoning block that the provider ties to everything before it."""
    at: Address = ()
    """(message index, ordinal within the message); only formats read it."""
    weight: int = 0
    """Tokens of what `text` does not show (images, files, encrypted reasoning)."""
    raw: Any = field(default=None, compare=False, repr=False)
    """The caller's own block for media and opaque items; never changed."""
    fixed: bool = False
    """Whether it enables or carries state that only the provider can read (a compaction block, tools added later)."""
    program: str = ""
    """Call id of the running program that made this call; its result goes to the program, not to the model."""


Conversation = tuple[Item, ...]

_RANDOM_ID = lazy_pattern(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9_|.-]{18,}\Z")


def hash_strings(*parts: str) -> str:
    """Hash strings to 32 hex digits; the borders between strings count, and lone surrogates are allowed."""
    joined = "".join([f"{len(part)}:{part}" for part in parts])
    return blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _parse_number(text: str) -> int | float:
    """Parse a JSON number; an integral float below 2**53 becomes an integer."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _normalize_json(value: Any) -> Any:
    """Copy a JSON value with integral floats below 2**53 as integers and without `cache_control`."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {str(k): _normalize_json(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, (list, tuple)):
        return [_normalize_json(v) for v in value]
    return value


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str).encode
_decode = json.JSONDecoder(parse_float=_parse_number).decode


def canonical_json(value: Any) -> str:
    """Serialise a JSON value with sorted keys, integral floats as integers and without `cache_control`."""
    return _encode(_normalize_json(value))


def canonical_arguments(arguments: str) -> str:
    """Serialise call arguments canonically; a string that is not JSON is returned unchanged."""
    try:
        return _encode(_decode(arguments))
    except (ValueError, RecursionError, OverflowError):
        return arguments


class Piece(NamedTuple):
    """What a format found in one message, before ids are assigned.

    A named tuple, because one is created for every item read.
    """

    kind: Kind
    role: Role
    text: str
    name: str = ""
    call: str = ""
    failed: bool = False
    bound: bool = False
    weight: int = 0
    body: str | None = None
    """What the digest covers when it is not `text` (canonical arguments, media bytes)."""
    raw: Any = None
    fixed: bool = False
    program: str = ""


class ItemBuilder:
    """Build items from pieces in reading order and assign their ids.

    Appending reads only the new messages; items built earlier are never touched.
    """

    __slots__ = ("_first_user", "_names", "_seen", "_spine", "items", "turn")

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.turn = 0
        self._spine = "danshari:1"
        self._first_user: str | None = None
        self._seen: dict[str, int] = {}
        self._names: dict[str, str] = {}

    def begin_turn(self) -> None:
        """Count one more assistant message."""
        self.turn += 1

    def extend(self, message: int, pieces: Iterable[Piece]) -> None:
        """Append the pieces of message number `message`."""
        for ordinal, piece in enumerate(pieces):
            self.items.append(self._build_item(piece, (message, ordinal)))

    def _build_item(self, piece: Piece, at: Address) -> Item:
        """Build one item: compute its digest, pair it with its call by id, and assign its own id.

        The id hashes the spine, how often the same content occurred since the last call, the call's id and
        the digest.
        """
        kind, role, text, name, call, failed, bound, weight, body, raw, fixed, program = piece
        if call and not name:
            name = self._names.get(call, "")
        covered = f"{kind}{role}{len(name)}:{name}{'!' if failed else '.'}{text if body is None else body}"
        digest = blake2b(covered.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        if kind == "call":
            self._add_call(name, call)
        elif self._first_user is None and role == "user" and kind == "text":
            self._first_user = text
        key = call + digest
        count = self._seen.get(key, 0)
        self._seen[key] = count + 1
        chained = f"{self._spine}{count}:{key}".encode("utf-8", "surrogatepass")
        return Item(
            id=ItemId(blake2b(chained, digest_size=12).hexdigest()),
            digest=Digest(digest),
            role=role,
            kind=kind,
            text=text,
            name=name,
            call=call,
            failed=failed,
            turn=self.turn,
            bound=bound,
            at=at,
            weight=weight,
            raw=raw,
            fixed=fixed,
            program=program,
        )

    def _add_call(self, name: str, call: str) -> None:
        """Add a call to the spine.

        Call ids that the client made up are joined with the first user text, so that two tasks do not
        collide.
        """
        root = "" if _RANDOM_ID.match(call) else (self._first_user or "")
        self._spine = hash_strings(self._spine, name, call, root)
        self._seen = {}
        self._names[call] = name
