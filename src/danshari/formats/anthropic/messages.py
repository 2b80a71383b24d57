"""Anthropic Messages: content blocks, thinking signatures, cache marks, `role: "system"` in mid-conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.items import Item, Piece, canonical
from danshari.formats.anthropic.rules import check_anthropic
from danshari.formats.base import (
    FILE_TOKENS,
    GONE,
    IMAGE_TOKENS,
    Changes,
    Format,
    Message,
    Problem,
    opaque,
    plain,
    text_of,
)

_MEDIA = {"image": IMAGE_TOKENS, "document": FILE_TOKENS}
_OWN = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "document", "search_result"}
BETA = "thinking-binding-controls-2026-08-01"
"""Beta header that `prefix_mismatch_behavior` needs (platform docs, preserved thinking, 2026-10)."""


class Anthropic(Format):
    """Reads and patches Messages API messages."""

    name = "anthropic"

    def sign(self, message: Message) -> bool:
        """Tool and thinking blocks, and images with a `source`, are this format's own."""
        content = message.get("content")
        if not isinstance(content, list) or "role" not in message:
            return False
        for block in map(plain, content):
            if isinstance(block, Mapping):
                kind = block.get("type")
                if kind in _OWN or (kind == "image" and "source" in block) or "cache_control" in block:
                    return True
        return False

    def pieces(self, message: Message) -> list[Piece]:
        """Split into blocks; a tool result is one piece, followed by the media inside it."""
        role: Any = message.get("role")
        content = message.get("content")
        if role not in ("user", "assistant", "system"):
            return [opaque(message, "user")]
        if isinstance(content, str):
            return [Piece(kind="text", role=role, text=content)]
        if not isinstance(content, list):
            return [opaque(message, role)] if content is not None else []
        return [piece for block in content for piece in self._block(plain(block), role)]

    def _block(self, block: Any, role: Any) -> list[Piece]:
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
                    name=text_of(block.get("name")),
                    call=text_of(block.get("id")),
                    body=canonical(arguments),
                )
            ]
        if kind == "tool_result":
            return self._result(block)
        if kind == "thinking":
            text, signature = text_of(block.get("thinking")), text_of(block.get("signature"))
            return [Piece(kind="reasoning", role=role, text=text, bound=bool(signature), body=text + signature)]
        if kind == "redacted_thinking":
            data = text_of(block.get("data"))
            return [
                Piece(kind="reasoning", role=role, text="", bound=True, body=data, weight=len(data) // 6, raw=block)
            ]
        if kind in _MEDIA:
            return [Piece(kind="media", role=role, text="", body=canonical(block), weight=_weight(block), raw=block)]
        return [opaque(block, role)]

    def _result(self, block: Mapping[str, Any]) -> list[Piece]:
        call = text_of(block.get("tool_use_id"))
        failed = block.get("is_error") is True
        content = block.get("content")
        if not isinstance(content, list):
            return [Piece(kind="result", role="tool", text=text_of(content), call=call, failed=failed)]
        parts = [plain(part) for part in content]
        text = "\n".join(text_of(p.get("text")) for p in parts if _is_text(p))
        found = [Piece(kind="result", role="tool", text=text, call=call, failed=failed)]
        for part in parts:
            if isinstance(part, Mapping) and part.get("type") in _MEDIA:
                found.append(
                    Piece(
                        kind="media",
                        role="tool",
                        text="",
                        call=call,
                        body=canonical(part),
                        weight=_weight(part),
                        raw=part,
                    )
                )
            elif not _is_text(part):
                found.append(opaque(part, "tool", call))
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
            kept, used = self._patched(block, changes, at)
            at += used
            if kept is not None:
                out.append(kept)
        if not any(_kind(b) not in ("thinking", "redacted_thinking") for b in out):
            return None
        return {**message, "content": out}

    def _patched(self, block: Any, changes: Changes, at: int) -> tuple[Any, int]:
        used = len(self._block(plain(block), "user"))
        if not any(n in changes for n in range(at, at + used)):
            return block, used
        block = plain(block)
        kind = _kind(block)
        if changes.get(at, "") is None:
            return None, used
        if kind == "text":
            return {**block, "text": changes[at]}, used
        if kind == "tool_use":
            return {**block, "input": json.loads(changes[at] or "{}")}, used
        if kind == "tool_result":
            return _patched_result(block, changes, at), used
        return block, used

    def append_text(self, message: Message, text: str) -> Message:
        """Append a text block; string content becomes blocks."""
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        return {**message, "content": [*blocks, {"type": "text", "text": text}]}

    def user_message(self, text: str) -> Message:
        """Make a user message with one text block."""
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def begins_turn(self, message: Message, before: Message | None) -> bool:
        """Consecutive assistant messages are one turn: the provider merges them."""
        return message.get("role") == "assistant" and not (before is not None and before.get("role") == "assistant")

    def settle(self, out: list[Any], messages: Sequence[Any]) -> None:
        """Move the cache mark of a message that left to the nearest earlier message that stayed unmarked."""
        for at, message in enumerate(messages):
            if out[at] is not GONE or (mark := _mark(plain(message))) is None:
                continue
            before = next(
                (n for n in range(at - 1, -1, -1) if out[n] is not GONE and isinstance(plain(out[n]), Mapping)), None
            )
            if before is not None and _mark(plain(out[before])) is None:
                out[before] = _marked(plain(out[before]), mark)

    def build(self, items: Sequence[Item], lost: list[str] | None = None) -> list[Any]:
        """Make messages with alternating sides; results first in their user message."""
        from danshari.formats.build import build_anthropic

        return build_anthropic(items, [] if lost is None else lost)

    def check(self, payload: object) -> list[Problem]:
        """Check sides, pairing, block order, thinking, cache marks and encoding."""
        return check_anthropic(self.messages(payload))

    def hints(self) -> dict[str, Any]:
        """Ask the provider to drop thinking whose prefix changed, instead of a 400."""
        return {"thinking": {"block_binding": {"prefix_mismatch_behavior": "drop_block"}}, "betas": [BETA]}


def _kind(block: Any) -> Any:
    block = plain(block)
    return block.get("type") if isinstance(block, Mapping) else None


def _is_text(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "text"


def _weight(block: Mapping[str, Any]) -> int:
    source = block.get("source")
    data = source.get("data") if isinstance(source, Mapping) else None
    if block.get("type") == "document" and isinstance(data, str):
        if isinstance(source, Mapping) and source.get("type") == "text":
            return len(data) // 3
        return max(FILE_TOKENS, len(data) // 40)
    return _MEDIA.get(str(block.get("type")), IMAGE_TOKENS)


def _patched_result(block: Mapping[str, Any], changes: Changes, at: int) -> dict[str, Any]:
    content = block.get("content")
    if not isinstance(content, list):
        return {**block, "content": changes[at]} if at in changes else dict(block)
    rest = [part for part in content if not _is_text(plain(part))]
    kept = [part for n, part in enumerate(rest, at + 1) if changes.get(n, "") is not None]
    texts: list[Any] = [part for part in content if _is_text(plain(part))]
    if at in changes:
        marks = {k: v for part in texts for k, v in plain(part).items() if k == "cache_control"}
        texts = [{**(plain(texts[0]) if texts else {"type": "text"}), "text": changes[at], **marks}]
    return {**block, "content": texts + kept}


def _mark(message: Message) -> Any:
    content = message.get("content")
    if not isinstance(content, list):
        return None
    return next(
        (b["cache_control"] for b in map(plain, content) if isinstance(b, Mapping) and "cache_control" in b), None
    )


def _marked(message: Message, mark: Any) -> Message:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    if blocks and _kind(blocks[-1]) not in ("thinking", "redacted_thinking", None):
        blocks[-1] = {**plain(blocks[-1]), "cache_control": mark}
    return {**message, "content": blocks}
