"""Anthropic Messages: content blocks, thinking signatures, cache marks, system messages in between."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.items import Item, Piece, canonical_json
from danshari.formats.base import (
    EMPTY,
    FILE_TOKENS,
    GONE,
    IMAGE_TOKENS,
    Changes,
    Format,
    ImageSource,
    Message,
    Problem,
    as_plain_value,
    opaque_piece,
    string_or_empty,
)

_MEDIA = {"image": IMAGE_TOKENS, "document": FILE_TOKENS}
_OWN_TYPES = {
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "document",
    "search_result",
}
_FIXED = frozenset({
    "compaction", "tool_addition", "tool_removal", "tool_reference", "mcp_tool_listing", "container_upload",
    "tool_search_tool_result",
})  # fmt: skip
"""Blocks that enable something (tools, files of a container) or that only the provider can read."""
THINKING_BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""Beta header that `prefix_mismatch_behavior` needs (platform docs, preserved thinking, 2026-10)."""


class AnthropicMessages(Format):
    """Reads and changes Anthropic Messages API messages."""

    name = "anthropic"
    system_key = "system"
    request_fields = frozenset(("system",))
    can_answer = True
    system_between = True

    def sign(self, message: Message) -> bool:
        """Return whether the message has blocks that only this format has (tools, thinking, cache marks)."""
        content = message.get("content")
        if not isinstance(content, list) or "role" not in message:
            return False
        for block in map(as_plain_value, content):
            if isinstance(block, Mapping):
                kind = block.get("type")
                if kind in _OWN_TYPES or (kind == "image" and "source" in block) or "cache_control" in block:
                    return True
        return False

    def pieces(self, message: Message) -> list[Piece]:
        """Split into blocks; a tool result is one piece, followed by the media inside it."""
        role: Any = message.get("role")
        content = message.get("content")
        if role not in ("user", "assistant", "system"):
            return [opaque_piece(message, "user")]
        if isinstance(content, str):
            return [Piece(kind="text", role=role, text=content)]
        if not isinstance(content, list):
            return [opaque_piece(message, role)] if content is not None else []
        return [piece for block in content for piece in self._block_pieces(as_plain_value(block), role)]

    def _block_pieces(self, block: Any, role: Any) -> list[Piece]:
        """Split one content block into pieces. An unknown block becomes one opaque piece."""
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind == "text" and isinstance(block.get("text"), str):
            return [Piece(kind="text", role=role, text=block["text"], raw=None)]
        if kind == "tool_use":
            arguments = block.get("input")
            text = json.dumps(arguments, ensure_ascii=False) if arguments is not None else "{}"
            return [
                Piece(
                    kind="call",
                    role=role,
                    text=text,
                    name=string_or_empty(block.get("name")),
                    call=string_or_empty(block.get("id")),
                    body=canonical_json(arguments),
                    program=_program(block),
                )
            ]
        if kind == "tool_result":
            return self._result_pieces(block)
        if kind == "thinking":
            text, signature = string_or_empty(block.get("thinking")), string_or_empty(block.get("signature"))
            return [Piece(kind="reasoning", role=role, text=text, bound=bool(signature), body=text + signature)]
        if kind == "redacted_thinking":
            data = string_or_empty(block.get("data"))
            return [
                Piece(kind="reasoning", role=role, text="", bound=True, body=data, weight=len(data) // 6, raw=block)
            ]
        if kind in _MEDIA:
            return [
                Piece(
                    kind="media", role=role, text="", body=canonical_json(block), weight=_media_tokens(block), raw=block
                )
            ]
        return [_opaque_block(block, role)]

    def _result_pieces(self, block: Mapping[str, Any]) -> list[Piece]:
        """Split a tool_result block: one piece of text, then a piece for each other part."""
        call = string_or_empty(block.get("tool_use_id"))
        failed = block.get("is_error") is True
        content = block.get("content")
        if not isinstance(content, list):
            return [Piece(kind="result", role="tool", text=string_or_empty(content), call=call, failed=failed)]
        parts = [as_plain_value(part) for part in content]
        text = "\n".join(string_or_empty(p.get("text")) for p in parts if _is_text(p))
        found = [Piece(kind="result", role="tool", text=text, call=call, failed=failed)]
        for part in parts:
            if isinstance(part, Mapping) and part.get("type") in _MEDIA:
                found.append(
                    Piece(
                        kind="media",
                        role="tool",
                        text="",
                        call=call,
                        body=canonical_json(part),
                        weight=_media_tokens(part),
                        raw=part,
                    )
                )
            elif not _is_text(part):
                found.append(_opaque_block(part, "tool", call))
        return found

    def patch(self, message: Message, changes: Changes) -> Message | None:
        """Copy a message with some blocks changed; a message of thinking alone is left out."""
        content = message.get("content")
        if isinstance(content, str) or not isinstance(content, list):
            text = changes.get(0, "")
            return None if text is None else {**message, "content": text}
        out = []
        at = 0
        for block in content:
            kept, used = self._patch_block(block, changes, at)
            at += used
            if kept is not None:
                out.append(kept)
        if not any(_block_type(b) not in ("thinking", "redacted_thinking") for b in out):
            return None
        return {**message, "content": out}

    def _patch_block(self, block: Any, changes: Changes, at: int) -> tuple[Any, int]:
        """Change one block. Returns the block (None if it is removed) and the number of pieces it holds.

        `at` is the ordinal of its first piece.
        """
        used = len(self._block_pieces(as_plain_value(block), "user"))
        if not any(n in changes for n in range(at, at + used)):
            return block, used
        block = as_plain_value(block)
        kind = _block_type(block)
        if changes.get(at, "") is None:
            return None, used
        if kind == "text":
            return {**block, "text": changes[at]}, used
        if kind == "tool_use":
            return {**block, "input": json.loads(changes[at] or "{}")}, used
        if kind == "tool_result":
            return _patch_result(block, changes, at), used
        return block, used

    def append_text(self, message: Message, text: str) -> Message:
        """Append a text block; string content becomes blocks."""
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        return {**message, "content": [*blocks, {"type": "text", "text": text}]}

    def user_message(self, text: str) -> Message:
        """Make a user message with one text block."""
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def assistant_message(self, text: str) -> Message:
        """Make a message of the assistant."""
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}

    def answer(self, call: Piece, text: str) -> Message:
        """Make a user message with one failed result."""
        block = {"type": "tool_result", "tool_use_id": call.call, "content": text, "is_error": True}
        return {"role": "user", "content": [block]}

    def join_answers(self, messages: list[Any]) -> list[Any]:
        """Put all results of a turn into one user message."""
        blocks = [block for message in messages for block in as_plain_value(message)["content"]]
        return [{"role": "user", "content": blocks}] if blocks else []

    def fill_empty(self, message: Message) -> Message:
        """Take out blank text blocks; a message without any block gets a word."""
        content = message.get("content")
        if isinstance(content, str):
            return message if content.strip() else {**message, "content": EMPTY}
        if not isinstance(content, list):
            return message
        solid = [b for b in content if not (_block_type(b) == "text" and not str(as_plain_value(b)["text"]).strip())]
        if len(solid) == len(content) and content:
            return message
        return {**message, "content": solid or [{"type": "text", "text": EMPTY}]}

    def begins_turn(self, message: Message, before: Message | None) -> bool:
        """Return whether a turn begins. Consecutive assistant messages are one turn, as for the provider."""
        return message.get("role") == "assistant" and not (before is not None and before.get("role") == "assistant")

    def settle(self, out: list[Any], messages: Sequence[Any]) -> None:
        """Move the cache mark of a removed message to the nearest message before it that is still there.

        Nothing is moved if that message has a mark already.
        """
        for at, message in enumerate(messages):
            if out[at] is not GONE or (mark := _find_cache_mark(as_plain_value(message))) is None:
                continue
            before = next(
                (
                    n
                    for n in range(at - 1, -1, -1)
                    if out[n] is not GONE and isinstance(as_plain_value(out[n]), Mapping)
                ),
                None,
            )
            if before is not None and _find_cache_mark(as_plain_value(out[before])) is None:
                out[before] = _set_cache_mark(as_plain_value(out[before]), mark)

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Build messages that alternate between user and assistant, with results first in a user message."""
        from danshari.formats.anthropic.build import build_anthropic

        return build_anthropic(items, [] if lost is None else lost)

    def check(self, payload: object) -> list[Problem]:
        """List the broken rules: alternation, pairing, block order, thinking, cache marks, encoding."""
        from danshari.formats.anthropic.rules import check_anthropic

        return check_anthropic(self.messages(payload))

    def image_source(self, raw: Mapping[str, Any]) -> ImageSource | None:
        """Return the image of an image block."""
        source = raw.get("source")
        if raw.get("type") != "image" or not isinstance(source, Mapping):
            return None
        if source.get("type") == "base64":
            return str(source.get("media_type", "image/png")), str(source.get("data", ""))
        return str(source["url"]) if source.get("url") else None

    def hints(self) -> dict[str, Any]:
        """Return the request fields that make the provider drop thinking whose prefix changed, instead of a 400."""
        return {
            "thinking": {"block_binding": {"prefix_mismatch_behavior": "drop_block"}},
            "betas": [THINKING_BINDING_BETA],
        }


def _block_type(block: Any) -> Any:
    block = as_plain_value(block)
    return block.get("type") if isinstance(block, Mapping) else None


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text"


def _opaque_block(block: Any, role: Any, call: str = "") -> Piece:
    """Wrap a block that is not understood; a server's call and its result are tied by their id."""
    if not isinstance(block, Mapping):
        return opaque_piece(block, role, call)
    call = call or string_or_empty(block.get("tool_use_id") or block.get("id"))
    return opaque_piece(block, role, call, fixed=block.get("type") in _FIXED, program=_program(block))


def _program(block: Mapping[str, Any]) -> str:
    """Return the id of the server's code execution that made a call, empty if the model made it itself."""
    caller = as_plain_value(block.get("caller"))
    return string_or_empty(caller.get("tool_id")) if isinstance(caller, Mapping) else ""


def _media_tokens(block: Mapping[str, Any]) -> int:
    """Estimate the tokens of an image or document block from its encoded size."""
    source = block.get("source")
    data = source.get("data") if isinstance(source, Mapping) else None
    if block.get("type") == "document" and isinstance(data, str):
        if isinstance(source, Mapping) and source.get("type") == "text":
            return len(data) // 3
        return max(FILE_TOKENS, len(data) // 40)
    return _MEDIA.get(str(block.get("type")), IMAGE_TOKENS)


def _patch_result(block: Mapping[str, Any], changes: Changes, at: int) -> dict[str, Any]:
    """Change the text of a tool_result block and remove those of its media that `changes` remove."""
    content = block.get("content")
    if not isinstance(content, list):
        return {**block, "content": changes[at]} if at in changes else dict(block)
    rest = [part for part in content if not _is_text(as_plain_value(part))]
    kept = [part for n, part in enumerate(rest, at + 1) if changes.get(n, "") is not None]
    texts: list[Any] = [part for part in content if _is_text(as_plain_value(part))]
    if at in changes:
        marks = {k: v for part in texts for k, v in as_plain_value(part).items() if k == "cache_control"}
        texts = [{**(as_plain_value(texts[0]) if texts else {"type": "text"}), "text": changes[at], **marks}]
    return {**block, "content": texts + kept}


def _find_cache_mark(message: Message) -> Any:
    """Return the first cache mark of a top-level blocks, or None; the provider caches no part of a block."""
    content = message.get("content")
    if not isinstance(content, list):
        return None
    return next(
        (b["cache_control"] for b in map(as_plain_value, content) if isinstance(b, Mapping) and "cache_control" in b),
        None,
    )


def _set_cache_mark(message: Message, mark: Any) -> Message:
    """Return a copy of the message with `mark` on its last block, if that block may carry one."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    if blocks and _block_type(blocks[-1]) not in ("thinking", "redacted_thinking", None):
        blocks[-1] = {**as_plain_value(blocks[-1]), "cache_control": mark}
    return {**message, "content": blocks}
