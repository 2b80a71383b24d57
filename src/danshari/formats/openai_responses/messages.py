"""OpenAI Responses: a flat list of items. A reasoning item belongs to the item after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.items import (
    Item,
    Piece,
    canonical_arguments,
    canonical_json,
)
from danshari.formats.base import (
    FILE_TOKENS,
    IMAGE_TOKENS,
    Changes,
    Format,
    Message,
    Problem,
    as_plain_value,
    media_piece,
    opaque_piece,
    string_or_empty,
)

_TEXT_TYPES = {"input_text", "output_text", "text"}
_MEDIA = {"input_image": IMAGE_TOKENS, "input_file": FILE_TOKENS, "input_audio": FILE_TOKENS}
_ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}
CALL_FIELDS = {
    "function_call": ("arguments", "name"),
    "custom_tool_call": ("input", "name"),
}
OUTPUT_FIELDS = {"function_call_output": "output", "custom_tool_call_output": "output"}
_FIXED = frozenset({
    "compaction", "compaction_trigger", "additional_tools", "configuration_update", "item_reference",
    "mcp_list_tools", "tool_search_output", "mcp_approval_request",
})  # fmt: skip
"""Items that enable something or that only the provider can read: nothing can stand for them.

An approval request stays with its answer, because the call that was approved names it.
"""
_AGENT_TYPES = frozenset({"reasoning", "program", "program_output", "mcp_approval_request", "mcp_list_tools"})
"""What the agent's side makes, beside messages and calls (`…_call`)."""
_OWN_TYPES = {
    *CALL_FIELDS,
    *OUTPUT_FIELDS,
    "reasoning",
    "message",
    "local_shell_call",
    "web_search_call",
    "item_reference",
    "compaction",
}


class OpenAIResponses(Format):
    """Reads and changes OpenAI Responses items."""

    name = "openai-responses"
    key = "input"
    system_key = "instructions"
    can_answer = True
    answers_follow = False

    def sign(self, message: Message) -> bool:
        """Return whether the item has a type or content part that only this format has."""
        if message.get("type") in _OWN_TYPES and ("role" in message or message.get("type") != "message"):
            return True
        content = message.get("content")
        return isinstance(content, list) and any(
            isinstance(p, Mapping) and p.get("type") in {"input_text", "output_text", *_MEDIA}
            for p in map(as_plain_value, content)
        )

    def begins_turn(self, message: Message, before: Message | None) -> bool:
        """Return whether a turn begins: an item of the agent after one that is not the agent's."""
        return _is_from_agent(message) and not (before is not None and _is_from_agent(before))

    def pieces(self, message: Message) -> list[Piece]:
        """Split a message into parts; calls, outputs and reasoning are one piece each."""
        kind = message.get("type") or ("message" if "role" in message else None)
        if kind == "message":
            return self._message_pieces(message)
        if kind in CALL_FIELDS:
            return [self._call_piece(message, str(kind))]
        if kind in OUTPUT_FIELDS:
            return self._output_pieces(message)
        if kind == "reasoning":
            return [self._reasoning_piece(message)]
        role = (
            "assistant" if _is_from_agent(message) else "tool" if string_or_empty(kind).endswith("_output") else "user"
        )
        return [opaque_piece(message, role, _call_id(message), fixed=kind in _FIXED, program=_program(message))]

    def _message_pieces(self, message: Message) -> list[Piece]:
        role: Any = _ROLES.get(message.get("role", ""))
        content = message.get("content")
        if role is None:
            return [opaque_piece(message, "user")]
        if isinstance(content, str):
            return [Piece(kind="text", role=role, text=content)]
        return [self._part_piece(as_plain_value(part), role) for part in content] if isinstance(content, list) else []

    def _part_piece(self, part: Any, role: Any, call: str = "") -> Piece:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in _TEXT_TYPES and isinstance(part.get("text"), str):
            return Piece(kind="text", role=role, text=part["text"])
        if kind == "refusal" and isinstance(part.get("refusal"), str):
            return Piece(kind="text", role=role, text=part["refusal"], body="refusal:" + part["refusal"])
        if kind in _MEDIA:
            return media_piece(part, role, _MEDIA[str(kind)], call)
        return opaque_piece(part, role, call)

    def _call_piece(self, message: Message, kind: str) -> Piece:
        """Read a function or custom tool call. `kind` is the item's type."""
        field, name = CALL_FIELDS[kind]
        text = string_or_empty(message.get(field))
        body = canonical_arguments(text) if kind == "function_call" else "custom:" + text
        return Piece(
            kind="call",
            role="assistant",
            text=text,
            name=string_or_empty(message.get(name)),
            call=string_or_empty(message.get("call_id")),
            body=body,
            raw=None if kind == "function_call" else message,
            program=_program(message),
        )

    def _output_pieces(self, message: Message) -> list[Piece]:
        call = string_or_empty(message.get("call_id"))
        output = message.get("output")
        if not isinstance(output, list):
            return [Piece(kind="result", role="tool", text=string_or_empty(output), call=call)]
        parts = [as_plain_value(part) for part in output]
        text = "\n".join(p["text"] for p in parts if _is_text(p))
        rest = [self._part_piece(p, "tool", call) for p in parts if not _is_text(p)]
        return [Piece(kind="result", role="tool", text=text, call=call), *rest]

    def _reasoning_piece(self, message: Message) -> Piece:
        """Read a reasoning item.

        Its weight in tokens is a sixth of the characters of the encrypted content, 150 without one.
        """
        summary = message.get("summary")
        parts = summary if isinstance(summary, list) else []
        text = "\n".join(string_or_empty(p.get("text")) for p in map(as_plain_value, parts) if isinstance(p, Mapping))
        sealed = string_or_empty(message.get("encrypted_content"))
        return Piece(
            kind="reasoning",
            role="assistant",
            text=text,
            body=canonical_json(message),
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
        if kind in CALL_FIELDS:
            return {**message, CALL_FIELDS[str(kind)][0]: text}
        if kind in OUTPUT_FIELDS:
            return _patch_output(message, changes)
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
            parts.append({**as_plain_value(part), "text": text} if at in changes else part)
        return {**message, "content": parts} if parts else None

    def append_text(self, message: Message, text: str) -> Message:
        """Append an input_text part."""
        content = message.get("content")
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else list(content or ())
        return {**message, "content": [*parts, {"type": "input_text", "text": text}]}

    def user_message(self, text: str) -> Message:
        """Make a user message item."""
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    def assistant_message(self, text: str) -> Message:
        """Make a message of the assistant."""
        return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}

    def answer(self, call: Piece, text: str) -> Message:
        """Make an output item."""
        kind = "function_call" if call.raw is None else "custom_tool_call"
        return {"type": f"{kind}_output", "call_id": call.call, "output": text}

    def fill_empty(self, message: Message) -> Message:
        """Fill an output that is missing."""
        missing = message.get("type") in OUTPUT_FIELDS and message.get("output") is None
        return {**message, "output": ""} if missing else message

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Build items: one per run of text, per call and per output."""
        from danshari.formats.openai_responses.build import build_responses

        return build_responses(items, [] if lost is None else lost)

    def check(self, payload: object) -> list[Problem]:
        """List the broken rules: pairing, arguments, reasoning order, encoding."""
        from danshari.formats.openai_responses.rules import check_responses

        return check_responses(self.messages(payload))


def _is_from_agent(message: Message) -> bool:
    """Return whether the agent made this item: a message, reasoning, or a call of any kind."""
    kind = string_or_empty(message.get("type"))
    return message.get("role") == "assistant" or kind in _AGENT_TYPES or kind.endswith("_call")


def _call_id(message: Message) -> str:
    """Return the id that ties an item to its call, its output or its approval; empty if it stands alone."""
    kind = message.get("type")
    if kind == "mcp_approval_response":
        return string_or_empty(message.get("approval_request_id"))
    if kind in ("mcp_approval_request", "local_shell_call_output"):  # the latter names its call by `id`
        return string_or_empty(message.get("id"))
    return string_or_empty(message.get("call_id"))


def _program(message: Message) -> str:
    """Return the call id of the program that made a call, empty if the model made it itself."""
    caller = as_plain_value(message.get("caller"))
    return string_or_empty(caller.get("caller_id")) if isinstance(caller, Mapping) else ""


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in _TEXT_TYPES and isinstance(part.get("text"), str)


def _patch_output(message: Message, changes: Changes) -> Message:
    output = message.get("output")
    if not isinstance(output, list):
        return {**message, "output": changes[0]} if 0 in changes else message
    rest = [part for part in output if not _is_text(as_plain_value(part))]
    kept = [part for n, part in enumerate(rest, 1) if changes.get(n, "") is not None]
    texts: list[Any] = [part for part in output if _is_text(as_plain_value(part))]
    if 0 in changes:
        texts = [{**(as_plain_value(texts[0]) if texts else {"type": "input_text"}), "text": changes[0]}]
    return {**message, "output": texts + kept}
