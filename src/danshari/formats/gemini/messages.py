"""Gemini `contents`: parts with text, thoughts, function calls and responses (often without ids), inline data."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.items import Item, Piece, canonical_json
from danshari.core.text import lazy_pattern
from danshari.formats.base import (
    EMPTY,
    FILE_TOKENS,
    IMAGE_TOKENS,
    Changes,
    Format,
    ImageSource,
    Message,
    Problem,
    as_plain_value,
    media_piece,
    opaque_piece,
    string_or_empty,
)
from danshari.formats.gemini.parts import find_object, mime_type, replace_object, response_text

_ROLES = {"user": "user", "model": "assistant", "function": "user"}
_OWN_PARTS = ("functionCall", "function_call", "functionResponse", "function_response", "inlineData", "inline_data",
              "fileData", "file_data", "executableCode", "codeExecutionResult", "thoughtSignature")  # fmt: skip
_TEXT_KEYS = ("output", "result", "content", "error")
"""Keys under which a function response that is one text carries it, the usual one first (Gemini docs, 2026-11)."""
_NOT_IN_IDS = lazy_pattern(r"[^a-zA-Z0-9_-]")
"""Characters that no provider takes in a call id."""


class Gemini(Format):
    """Reads and patches the contents of `generateContent`, in camelCase as on the wire or in snake_case."""

    name = "gemini"
    key = "contents"
    system_key = "systemInstruction"
    can_answer = True
    one_answer = True

    def sign(self, message: Message) -> bool:
        """Return whether the message has parts and no content, which is this format's own."""
        return isinstance(message.get("parts"), list) and "content" not in message

    def begins_turn(self, message: Message, before: Message | None) -> bool:
        """Return whether a new assistant turn begins; neighbouring model contents are one turn."""
        return message.get("role") == "model" and not (before is not None and before.get("role") == "model")

    def is_user(self, message: Message) -> bool:
        """Return whether text can be appended to this content as the user's."""
        return bool(message.get("role", "user") == "user")

    def pieces(self, message: Message) -> list[Piece]:
        """Split into parts; a function response is one result plus its media."""
        role: Any = _ROLES.get(message.get("role") or "user")
        if role is None or not isinstance(message.get("parts"), list):
            return [opaque_piece(message, "user")]
        return [piece for part in message["parts"] for piece in self._part_pieces(as_plain_value(part), role)]

    def _part_pieces(self, part: Any, role: Any) -> list[Piece]:
        if not isinstance(part, Mapping):
            return [opaque_piece(part, role)]
        if (call := find_object(part, "functionCall")) is not None:
            arguments = call.get("args") or {}
            text = json.dumps(arguments, ensure_ascii=False)
            return [Piece(kind="call", role=role, text=text, name=string_or_empty(call.get("name")),
                          call=string_or_empty(call.get("id")), body=canonical_json(arguments))]  # fmt: skip
        if (response := find_object(part, "functionResponse")) is not None:
            return _result_pieces(response)
        if isinstance(part.get("text"), str):
            kind: Any = "reasoning" if part.get("thought") else "text"
            return [Piece(kind=kind, role=role, text=part["text"])]
        for name in ("inlineData", "fileData"):
            if (media := find_object(part, name)) is not None:
                return [_media_piece(part, media, role)]
        return [opaque_piece(part, role)]

    def assistant_message(self, text: str) -> Message:
        """Make a message of the assistant."""
        return {"role": "model", "parts": [{"text": text}]}

    def answer(self, call: Piece, text: str) -> Message:
        """Make a content with one function response."""
        made = call.call.startswith(f"{_NOT_IN_IDS.sub('_', call.name)[:40]}-")  # an id of our own is not sent
        response: dict[str, Any] = {"name": call.name, "response": {"error": text}}
        return {"role": "user", "parts": [{"functionResponse": response if made else {"id": call.call, **response}}]}

    def join_answers(self, messages: list[Any]) -> list[Any]:
        """Put all responses of a turn into one content."""
        parts = [part for message in messages for part in as_plain_value(message)["parts"]]
        return [{"role": "user", "parts": parts}] if parts else []

    def fill_empty(self, message: Message) -> Message:
        """Give a content without parts a word."""
        return message if message.get("parts") or "parts" not in message else {**message, "parts": [{"text": EMPTY}]}

    def name_calls(self, pieces: list[Piece], messages: Sequence[Any], at: int) -> list[Piece]:
        """Return the pieces, with ids made of name and order where calls and results have none.

        The order counts over neighbouring contents of one side: clients store a stream as several.
        """
        counts: dict[tuple[str, str], int] | None = None
        named = []
        current = ""
        for piece in pieces:
            if piece.kind in ("call", "result"):
                current = piece.call
                if not current:
                    counts = self._count_unnamed(messages, at) if counts is None else counts
                    count = counts[piece.kind, piece.name] = counts.get((piece.kind, piece.name), 0) + 1
                    current = f"{_NOT_IN_IDS.sub('_', piece.name)[:40]}-{count}"
                piece = piece._replace(call=current)
            elif piece.role == "tool":
                piece = piece._replace(call=current)
            named.append(piece)
        return named

    def _count_unnamed(self, messages: Sequence[Any], at: int) -> dict[tuple[str, str], int]:
        """Count the calls and results without an id, by name, in the contents of the same side right before `at`."""
        counts: dict[tuple[str, str], int] = {}
        side = _side(self.as_message(messages[at]))
        while at and _side(message := self.as_message(messages[at - 1])) == side:
            at -= 1
            for piece in self.split(message):
                if piece.kind in ("call", "result") and not piece.call:
                    counts[piece.kind, piece.name] = counts.get((piece.kind, piece.name), 0) + 1
        return counts

    def patch(self, message: Message, changes: Changes) -> Message | None:
        """Copy a content with some parts changed; signatures and ids stay. One left with thoughts alone is left out."""
        out: list[Any] = []
        given, at = message.get("parts") or (), 0
        for part in given:
            used = len(self._part_pieces(as_plain_value(part), "user"))
            kept = self._patch_part(part, changes, at, used)
            at += used
            if kept is not None:
                out.append(kept)
        solid = any(not (isinstance(as_plain_value(p), Mapping) and as_plain_value(p).get("thought")) for p in out)
        return {**message, "parts": out} if solid or len(out) == len(given) else None

    def _patch_part(self, part: Any, changes: Changes, at: int, used: int) -> Any:
        """Return a part with the changes of its pieces; None if it leaves."""
        if not any(n in changes for n in range(at, at + used)):
            return part
        part = as_plain_value(part)
        text = changes.get(at, "")
        if text is None:
            return None
        if (call := find_object(part, "functionCall")) is not None:
            return replace_object(part, "functionCall", {**call, "args": json.loads(text or "{}")})
        if (response := find_object(part, "functionResponse")) is not None:
            return replace_object(part, "functionResponse", _patch_response(response, changes, at))
        return {**part, "text": text} if isinstance(part, Mapping) and isinstance(part.get("text"), str) else part

    def append_text(self, message: Message, text: str) -> Message:
        """Append a text part."""
        return {**message, "parts": [*(message.get("parts") or ()), {"text": text}]}

    def user_message(self, text: str) -> Message:
        """Make a user content with one text part."""
        return {"role": "user", "parts": [{"text": text}]}

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Build contents with alternating sides; responses in the order of their calls."""
        from danshari.formats.gemini.build import build_gemini

        return build_gemini(items, [] if lost is None else lost)

    def check(self, payload: object) -> list[Problem]:
        """Check roles, parts, pairing by name and order, and encoding."""
        from danshari.formats.gemini.rules import check_gemini

        return check_gemini(self.messages(payload))

    def image_source(self, raw: Mapping[str, Any]) -> ImageSource | None:
        """Return the image of an inlineData part, or the URI of a file part."""
        data = find_object(raw, "inlineData")
        if data is not None and mime_type(data).startswith("image/"):
            held = data.get("data")  # bytes in an SDK's object
            return mime_type(data), b64encode(held).decode() if isinstance(held, bytes) else string_or_empty(held)
        file = find_object(raw, "fileData")
        uri = (file.get("fileUri") or file.get("file_uri")) if file is not None else None
        return str(uri) if uri and file is not None and mime_type(file).startswith("image/") else None


def _side(message: Any) -> str:
    """Return which side a content is of, as the provider joins them; "" for anything else."""
    role = message.get("role", "user") if isinstance(message, Mapping) else ""
    return "assistant" if role == "model" else "user" if isinstance(role, str) and role in _ROLES else ""


def _media_piece(part: Mapping[str, Any], media: Mapping[str, Any], role: Any) -> Piece:
    weight = IMAGE_TOKENS if mime_type(media).startswith("image/") else FILE_TOKENS
    return media_piece(part, role, weight)


def _is_failure(key: str, response: Mapping[str, Any]) -> bool:
    """Return whether a function response reports an error; `key` is the one its text stands under."""
    content = response.get("response")
    return key == "error" or (isinstance(content, Mapping) and bool(content.get("error")))


def _result_pieces(response: Mapping[str, Any]) -> list[Piece]:
    key, text = response_text(response)
    content = response.get("response")
    found = [Piece(kind="result", role="tool", text=text, name=string_or_empty(response.get("name")),
                   call=string_or_empty(response.get("id")), failed=_is_failure(key, response),
                   body=None if key in _TEXT_KEYS else canonical_json(content))]  # fmt: skip
    for part in response.get("parts") or ():
        part = as_plain_value(part)
        media = find_object(part, "inlineData") or find_object(part, "fileData")
        found.append(_media_piece(part, media, "tool") if media is not None else opaque_piece(part, "tool"))
    return found


def _patch_response(response: Mapping[str, Any], changes: Changes, at: int) -> dict[str, Any]:
    """Return a function response with another text, under the key it had, and without media that left."""
    out = dict(response)
    if at in changes:
        key, _ = response_text(response)
        out["response"] = {key or ("error" if _is_failure(key, response) else _TEXT_KEYS[0]): changes[at]}
    if isinstance(response.get("parts"), list):
        out["parts"] = [p for n, p in enumerate(response["parts"], at + 1) if changes.get(n, "") is not None]
    return out
