"""OpenAI Responses: a flat list of items; reasoning items (encrypted too) are tied to the item after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.items import (
    Item,
    Piece,
    canonical,
    canonical_arguments,
)
from danshari.formats.base import FILE_TOKENS, IMAGE_TOKENS, Changes, Format, Message, Problem, opaque, plain, text_of
from danshari.formats.openai_responses.rules import check_responses

_TEXT = {"input_text", "output_text", "text"}
_MEDIA = {"input_image": IMAGE_TOKENS, "input_file": FILE_TOKENS, "input_audio": FILE_TOKENS}
_ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}
CALLS = {
    "function_call": ("arguments", "name"),
    "custom_tool_call": ("input", "name"),
}
OUTPUTS = {"function_call_output": "output", "custom_tool_call_output": "output"}
_OWN = {*CALLS, *OUTPUTS, "reasoning", "message", "local_shell_call", "web_search_call", "item_reference", "compaction"}


class OpenAIResponses(Format):
    """Reads and patches Responses items."""

    name = "openai-responses"
    key = "input"

    def sign(self, message: Message) -> bool:
        """Item types other than plain messages, and input/output parts, are this format's own."""
        if message.get("type") in _OWN and ("role" in message or message.get("type") != "message"):
            return True
        content = message.get("content")
        return isinstance(content, list) and any(
            isinstance(p, Mapping) and p.get("type") in {"input_text", "output_text", *_MEDIA}
            for p in map(plain, content)
        )

    def begins_turn(self, message: Message, before: Message | None) -> bool:
        """A turn begins where the agent's own items follow something that is not the agent's."""
        return _of_agent(message) and not (before is not None and _of_agent(before))

    def pieces(self, message: Message) -> list[Piece]:
        """Split a message into parts; calls, outputs and reasoning are one piece each."""
        kind = message.get("type") or ("message" if "role" in message else None)
        if kind == "message":
            return self._message(message)
        if kind in CALLS:
            return [self._call(message, str(kind))]
        if kind in OUTPUTS:
            return self._output(message)
        if kind == "reasoning":
            return [self._reasoning(message)]
        role = "assistant" if _of_agent(message) else "tool" if text_of(kind).endswith("_output") else "user"
        return [opaque(message, role, text_of(message.get("call_id")))]

    def _message(self, message: Message) -> list[Piece]:
        role: Any = _ROLES.get(message.get("role", ""))
        content = message.get("content")
        if role is None:
            return [opaque(message, "user")]
        if isinstance(content, str):
            return [Piece(kind="text", role=role, text=content)]
        return [self._part(plain(part), role) for part in content] if isinstance(content, list) else []

    def _part(self, part: Any, role: Any, call: str = "") -> Piece:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in _TEXT and isinstance(part.get("text"), str):
            return Piece(kind="text", role=role, text=part["text"])
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            return Piece(kind="text", role=role, text=part["refusal"], body="refusal:" + part["refusal"])
        if kind in _MEDIA:
            return Piece(
                kind="media", role=role, text="", call=call, body=canonical(part), weight=_MEDIA[str(kind)], raw=part
            )
        return opaque(part, role, call)

    def _call(self, message: Message, kind: str) -> Piece:
        field, name = CALLS[kind]
        text = text_of(message.get(field))
        body = canonical_arguments(text) if kind == "function_call" else "custom:" + text
        return Piece(
            kind="call",
            role="assistant",
            text=text,
            name=text_of(message.get(name)),
            call=text_of(message.get("call_id")),
            body=body,
            raw=None if kind == "function_call" else message,
        )

    def _output(self, message: Message) -> list[Piece]:
        call = text_of(message.get("call_id"))
        output = message.get("output")
        if not isinstance(output, list):
            return [Piece(kind="result", role="tool", text=text_of(output), call=call)]
        parts = [plain(part) for part in output]
        text = "\n".join(p["text"] for p in parts if _is_text(p))
        rest = [self._part(p, "tool", call) for p in parts if not _is_text(p)]
        return [Piece(kind="result", role="tool", text=text, call=call), *rest]

    def _reasoning(self, message: Message) -> Piece:
        summary = message.get("summary")
        parts = summary if isinstance(summary, list) else []
        text = "\n".join(text_of(p.get("text")) for p in map(plain, parts) if isinstance(p, Mapping))
        sealed = text_of(message.get("encrypted_content"))
        return Piece(
            kind="reasoning",
            role="assistant",
            text=text,
            body=canonical(message),
            weight=len(sealed) // 6 if sealed else 150,
            raw=message,
        )

    def patch(self, message: Message, changes: Changes) -> Message | None:
        """Copy an item with its text, arguments or output changed."""
        kind = message.get("type") or "message"
        if kind == "message":
            return self._patch_message(message, changes)
        text = changes.get(0, "")
        if text is None:
            return None
        if kind in CALLS:
            return {**message, CALLS[str(kind)][0]: text}
        if kind in OUTPUTS:
            return _patched_output(message, changes)
        return message

    def _patch_message(self, message: Message, changes: Changes) -> Message | None:
        content = message.get("content")
        if not isinstance(content, list):
            text = changes.get(0, "")
            return None if text is None else {**message, "content": text}
        parts = []
        for at, part in enumerate(content):
            text = changes.get(at, "")
            if text is None:
                continue
            parts.append({**plain(part), "text": text} if at in changes else part)
        return {**message, "content": parts} if parts else None

    def append_text(self, message: Message, text: str) -> Message:
        """Append an input_text part."""
        content = message.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else list(content or ())
        return {**message, "content": [*parts, {"type": "input_text", "text": text}]}

    def user_message(self, text: str) -> Message:
        """Make a user message item."""
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Make items: one per message run, call and output."""
        from danshari.formats.build import build_responses

        return build_responses(items, [] if lost is None else lost)

    def check(self, payload: object) -> list[Problem]:
        """Check pairing, arguments, reasoning order and encoding."""
        return check_responses(self.messages(payload))


def _of_agent(message: Message) -> bool:
    """Say whether the agent made this item: its messages, its reasoning, and calls of any kind."""
    kind = text_of(message.get("type"))
    return message.get("role") == "assistant" or kind == "reasoning" or kind.endswith("_call")


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _TEXT and isinstance(part.get("text"), str)


def _patched_output(message: Message, changes: Changes) -> Message:
    output = message.get("output")
    if not isinstance(output, list):
        return {**message, "output": changes[0]} if 0 in changes else message
    rest = [part for part in output if not _is_text(plain(part))]
    kept = [part for n, part in enumerate(rest, 1) if changes.get(n, "") is not None]
    texts: list[Any] = [part for part in output if _is_text(plain(part))]
    if 0 in changes:
        texts = [{**(plain(texts[0]) if texts else {"type": "input_text"}), "text": changes[0]}]
    return {**message, "output": texts + kept}
