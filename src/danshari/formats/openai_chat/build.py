"""Chat completion messages built from items alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from danshari.core.items import Item
from danshari.core.text import is_json_object
from danshari.formats.base import data_url
from danshari.formats.building import group_items, image_source, note_loss, parse_call_arguments


def build_chat(items: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build chat completion messages."""
    out: list[Any] = []
    for role, group in group_items(items):
        if role == "assistant":
            out.append(_chat_turn(group, lost))
        elif role == "tool":
            out += _chat_results(group, lost)
        else:
            out += [{"role": role, "content": i.text} for i in group if i.kind == "text" and i.text and not i.raw]
            media = [part for i in group if i.kind != "text" and (part := _chat_part(i, lost))]
            if media:
                out.append({"role": role, "content": media})
    return [m for m in out if m]


def _chat_turn(group: Sequence[Item], lost: list[str]) -> dict[str, Any] | None:
    """Build the assistant message of one turn, or None if it has neither text nor calls."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    texts = [i.text for i in group if i.kind == "text" and i.text]
    if texts:
        message["content"] = texts[0] if len(texts) == 1 else [{"type": "text", "text": t} for t in texts]
    reasoning = "\n".join(i.text for i in group if i.kind == "reasoning" and i.text)
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = [
        {
            "id": i.call,
            "type": "function",
            "function": {"name": i.name, "arguments": json.dumps(parse_call_arguments(i, lost))},
        }
        if not is_json_object(i.text)
        else {"id": i.call, "type": "function", "function": {"name": i.name, "arguments": i.text}}
        for i in group
        if i.kind == "call"
    ]
    if calls:
        message["tool_calls"] = calls
    for item in group:
        if item.kind in ("media", "opaque") or (item.kind == "reasoning" and not item.text):
            note_loss(item, "chat completions", lost)
    return message if texts or calls else None


def _chat_results(group: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build the tool messages of one turn, with media as parts of the result before them."""
    out: list[dict[str, Any]] = []
    for item in group:
        if item.kind == "result":
            out.append({"role": "tool", "tool_call_id": item.call, "content": item.text})
            if item.failed:
                lost.append(f"result {item.call}: the error flag has no place in chat completions")
        elif not out:
            note_loss(item, "chat completions without a result before it", lost)
        elif part := _chat_part(item, lost):
            text = out[-1]["content"]
            parts = text if isinstance(text, list) else [{"type": "text", "text": text}]
            out[-1]["content"] = [*parts, part]
    return out


def _chat_part(item: Item, lost: list[str]) -> Any:
    image = image_source(item)
    if image is None:
        note_loss(item, "chat completions", lost)
        return None
    return {"type": "image_url", "image_url": {"url": image if isinstance(image, str) else data_url(*image)}}
