"""A framework's message objects, made up for the tests: dataclasses, pydantic models and dicts in one list."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from danshari.core.items import Piece, canonical_arguments
from danshari.formats.base import opaque_piece
from danshari.formats.objects import ObjectFormat


@dataclass(frozen=True)
class UserSays:
    """A user message with metadata of the framework's own."""

    texts: tuple[str, ...]
    metadata: dict[str, Any] = field(default_factory=dict)


class ModelSays(BaseModel):
    """An assistant message: text, reasoning and calls, with a response id."""

    text: str | None = None
    reasoning: str | None = None
    calls: list[dict[str, Any]] = []
    response_id: str = ""


@dataclass
class ToolSays:
    """A result, which is the only part of its message."""

    content: str
    call: str
    artifact: Any = None


Said = UserSays | ModelSays | ToolSays | dict[str, Any]


class ToyFormat(ObjectFormat[Said]):
    """Reads the toy framework; dicts are its system messages."""

    name = "toy"

    def role(self, message: Said) -> Any:
        """Return the role by the message's type."""
        kinds: dict[type, str] = {UserSays: "user", ModelSays: "assistant", ToolSays: "tool", dict: "system"}
        return kinds[type(message)]

    def parts(self, message: Said) -> list[Any]:
        """Return texts, reasoning and calls; a result is its own part."""
        if isinstance(message, UserSays):
            return list(message.texts)
        if isinstance(message, ToolSays):
            return [message]
        if isinstance(message, dict):
            return [message["content"]]
        reasoning = [("reasoning", message.reasoning)] if message.reasoning else []
        return [*reasoning, *([message.text] if message.text is not None else []), *message.calls]

    def with_parts(self, message: Said, parts: Any) -> Said:
        """Copy a message with other parts."""
        if isinstance(message, UserSays):
            return replace(message, texts=tuple(parts))
        if isinstance(message, ToolSays):
            copy: ToolSays = parts[0]
            return copy
        if isinstance(message, dict):
            return {**message, "content": "\n\n".join(parts)}
        texts = [part for part in parts if isinstance(part, str)]
        update = {
            "text": texts[0] if texts else None,
            "reasoning": next((part[1] for part in parts if isinstance(part, tuple)), None),
            "calls": [part for part in parts if isinstance(part, dict)],
        }
        return message.model_copy(update=update)

    def piece(self, part: Any, message: Said) -> Piece:
        """Return a piece for a text, reasoning, a call or a result."""
        role = self.role(message)
        if isinstance(part, ToolSays):
            return Piece("result", "tool", part.content, call=part.call)
        if isinstance(part, tuple):
            return Piece("reasoning", role, part[1])
        if isinstance(part, dict):
            text = part["arguments"]
            return Piece("call", role, text, part["name"], part["id"], body=canonical_arguments(text))
        return Piece("text", role, part) if isinstance(part, str) else opaque_piece(part, role)

    def with_text(self, part: Any, text: str, message: Said) -> Any:
        """Copy a part with another text."""
        if isinstance(part, ToolSays):
            return replace(part, content=text)
        return {**part, "arguments": text} if isinstance(part, dict) else text

    def text_part(self, text: str) -> str:
        """Return the text: it is its own part."""
        return text

    def user_message(self, text: str) -> Said:
        """Make a user message."""
        return UserSays((text,))

    def to_json(self, message: Said) -> Any:
        """Return a message's fields under the name of its type."""
        if isinstance(message, dict):
            return ["dict", message]
        fields = message.model_dump() if isinstance(message, ModelSays) else dict(vars(message))
        return [type(message).__name__, fields]

    def from_json(self, value: Any) -> Said:
        """Read what `to_json` wrote."""
        name, fields = value
        if name == "UserSays":
            return UserSays(tuple(fields["texts"]), fields["metadata"])
        made: Said = {"ModelSays": ModelSays, "ToolSays": ToolSays, "dict": dict}[name](**fields)
        return made


def as_objects(messages: list[dict[str, Any]]) -> list[Any]:
    """Return chat completion messages (plain texts and function calls) as objects of the toy framework."""
    out: list[Any] = []
    for number, message in enumerate(messages):
        role, content = message["role"], message.get("content")
        if role == "tool":
            out.append(ToolSays(content, message["tool_call_id"], artifact={"row": number}))
        elif role == "assistant":
            calls = [{"id": c["id"], **c["function"], "index": n} for n, c in enumerate(message.get("tool_calls", ()))]
            out.append(
                ModelSays(
                    text=content,
                    reasoning=message.get("reasoning_content") or None,
                    calls=calls,
                    response_id=f"r{number}",
                )
            )
        elif role == "user":
            out.append(UserSays((content,), {"row": number}))
        else:
            out.append({"content": content, "source": "prompt file"})
    return out


def shown_texts(messages: list[Any]) -> str:
    """Return all that a list of toy messages says, for comparing; a user message counts as one text."""
    told = [UserSays(("\n\n".join(m.texts),)) if isinstance(m, UserSays) else m for m in messages]
    pieces = [piece[:7] for message in told for piece in ToyFormat().split(message)]
    return json.dumps(pieces, ensure_ascii=False)
