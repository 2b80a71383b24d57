"""Formats over a framework's own message objects: dataclasses, pydantic models, dicts, or a mixture.

A message is a list of parts, and a part is one piece: a text, a call, a result. A subclass says in seven small methods
how its framework spells that. What is not edited stays the same object; what is edited is copied by the subclass,
which changes one field and leaves the rest (ids, metadata, signatures) as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from danshari.core.items import Item, Piece, Role
from danshari.errors import FormatError, SessionError
from danshari.formats.base import SHAPE_ERRORS, Changes, Format, Problem

M = TypeVar("M")
"""The framework's message type, or a union of them."""


class ObjectFormat(Format, Generic[M]):
    """The base class of formats whose messages are objects. Pass an instance as `Compactor(format=...)`.

    A value whose `role` cannot be read is never edited; it leaves only when the round around it does. `provider` names
    the format whose tools, usage reports and plain summary requests go with these messages.
    """

    name: ClassVar[str] = "objects"
    provider: ClassVar[str] = "openai-chat"

    # ── what a subclass says ─────────────────────────────────────────────────────────────────────────────────

    def role(self, message: M) -> Role:
        """Return who speaks in a message."""
        raise NotImplementedError

    def parts(self, message: M) -> Sequence[Any]:
        """Return the parts of a message in order. A message that holds one thing may be its own only part."""
        raise NotImplementedError

    def with_parts(self, message: M, parts: Sequence[Any]) -> M:
        """Copy a message with these parts, of which at least one is left, in place of its own."""
        raise NotImplementedError

    def piece(self, part: Any, message: M) -> Piece:
        """Return what a part holds. Use `opaque_piece` for what must not be edited."""
        raise NotImplementedError

    def with_text(self, part: Any, text: str, message: M) -> Any:
        """Copy a part with another text: of a call its arguments as JSON, of a result its content."""
        raise NotImplementedError

    def text_part(self, text: str) -> Any:
        """Make a part that holds a user's text."""
        raise NotImplementedError

    def user_message(self, text: str) -> M:
        """Make a user message."""
        raise NotImplementedError

    # ── what follows from it ─────────────────────────────────────────────────────────────────────────────────

    @property
    def provider_format(self) -> Format:
        """The format of the provider behind the framework."""
        from danshari.formats import find_format  # the table imports this module's neighbours

        return find_format(self.provider)

    def as_message(self, message: Any) -> Any:
        """Return the message itself."""
        return message

    def is_message(self, message: Any) -> bool:
        """Return whether the subclass can tell the message's role."""
        try:
            return self.role(message) in ("system", "user", "assistant", "tool")
        except SHAPE_ERRORS:
            return False

    def sign(self, message: Any) -> bool:  # noqa: ARG002
        """Return False: object formats are named by the caller, never detected."""
        return False

    def pieces(self, message: M) -> list[Piece]:
        """Return one piece for each part."""
        return [self.piece(part, message) for part in self.parts(message)]

    def patch(self, message: M, changes: Changes) -> M | None:
        """Copy a message with some parts changed; None if none is left."""
        left = []
        for at, part in enumerate(self.parts(message)):
            text = changes.get(at, part)
            if at not in changes:
                left.append(part)
            elif text is not None:
                left.append(self.with_text(part, text, message))
        return self.with_parts(message, left) if left else None

    def append_text(self, message: M, text: str) -> M:
        """Copy a user message with one more part."""
        return self.with_parts(message, [*self.parts(message), self.text_part(text)])

    def begins_turn(self, message: Any, before: Any) -> bool:  # noqa: ARG002
        """Return whether the message is the assistant's."""
        return self.role(message) == "assistant"

    def is_user(self, message: Any) -> bool:
        """Return whether the message is the user's."""
        return self.is_message(message) and self.role(message) == "user"

    def to_json(self, message: Any) -> Any:  # noqa: ARG002
        """Raise SessionError unless overridden: what is stored in `replace` mode must be readable again."""
        raise SessionError(f"{self.name}: to store a session in replace mode, the format needs to_json and from_json")

    @property
    def can_store(self) -> bool:
        """Whether messages can be written for a saved session and read back."""
        return type(self).to_json is not ObjectFormat.to_json

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:  # noqa: ARG002
        """Raise FormatError: what else a framework's objects must hold is not in the items."""
        raise FormatError(f"{self.name}: messages are the framework's own objects; convert to a provider's format")

    def check(self, payload: object) -> list[Problem]:
        """List calls that are neither answered nor in the last turn, and results that follow no such call.

        All else depends on how the framework writes its requests.
        """
        items = self.read(payload)
        problems: list[Problem] = []
        pending: list[Item] = []
        for item in items:
            if item.kind == "call":
                pending.append(item)
            elif item.kind == "result":
                asked = next((call for call in pending if call.call == item.call), None)
                if asked is None:
                    problems.append(_pairing_problem(item, "follows no call that it answers"))
                else:
                    pending.remove(asked)
        last = items[-1].turn if items else 0
        return problems + [_pairing_problem(call, "has no result") for call in pending if call.turn < last]


def _pairing_problem(item: Item, text: str) -> Problem:
    return Problem(rule="pairing", where=f"messages[{item.at[0]}]", text=f"{item.kind} {item.call!r} {text}")


__all__ = ["ObjectFormat"]
