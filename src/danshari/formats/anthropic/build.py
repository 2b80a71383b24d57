"""Messages API messages built from items alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from danshari.core.items import Item
from danshari.formats.building import group_items, image_source, note_loss, parse_call_arguments


def build_anthropic(items: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build Messages API messages. Consecutive user-side items share one message, results first."""
    out: list[Any] = []
    for role, group in group_items(items):
        side = "user" if role == "tool" else role
        blocks = [block for item in group if (block := _anthropic_block(item, lost)) is not None]
        if role == "tool":
            blocks = _nest_media(blocks)
        if not blocks:
            continue
        if side == "user" and out and out[-1]["role"] == "user":
            out[-1]["content"] += blocks
        else:
            out.append({"role": side, "content": blocks})
    return out


def _anthropic_block(item: Item, lost: list[str]) -> Any:
    """Build the content block of one item, or None if it is empty or cannot be carried."""
    if item.kind == "text":
        return {"type": "text", "text": item.text} if item.text.strip() else None
    if item.kind == "call":
        return {"type": "tool_use", "id": item.call, "name": item.name, "input": parse_call_arguments(item, lost)}
    if item.kind == "result":
        flag = {"is_error": True} if item.failed else {}
        return {"type": "tool_result", "tool_use_id": item.call, "content": item.text, **flag}
    image = image_source(item) if item.kind == "media" else None
    if isinstance(image, str):
        return {"type": "image", "source": {"type": "url", "url": image}}
    if image is not None:
        return {"type": "image", "source": {"type": "base64", "media_type": image[0], "data": image[1]}}
    note_loss(item, "Anthropic messages (thinking needs the signature of its own prefix)", lost)
    return None


def _nest_media(blocks: Sequence[Any]) -> list[Any]:
    """Move a result's media into its tool_result block; media with no result before them follow the results."""
    out: list[Any] = []
    for block in blocks:
        if block["type"] == "tool_result" or not out or out[-1]["type"] != "tool_result":
            out.append(block)
        else:
            last = out[-1]
            text = last["content"]
            parts = text if isinstance(text, list) else ([{"type": "text", "text": text}] if text else [])
            last["content"] = [*parts, block]
    return sorted(out, key=lambda block: block["type"] != "tool_result")
