"""Gemini contents built from items alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from danshari.core.items import Item
from danshari.formats.building import group_items, image_source, note_loss, parse_call_arguments


def build_gemini(items: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build contents with alternating sides. System texts are carried as the user's, with a note."""
    out: list[Any] = []
    for role, group in group_items(items):
        side = "model" if role == "assistant" else "user"
        parts = [part for item in group if (part := _part(item, lost)) is not None]
        if role == "tool":
            parts = _nest_media(parts)
        if role == "system":
            lost.append("a system text is carried as the user's: put it into systemInstruction")
        if not parts:
            continue
        if out and out[-1]["role"] == side:
            out[-1]["parts"] += parts
        else:
            out.append({"role": side, "parts": parts})
    return out


def _part(item: Item, lost: list[str]) -> Any:
    """Build the part of one item, or None if it is empty or cannot be carried."""
    if item.kind == "text":
        return {"text": item.text} if item.text else None
    if item.kind == "reasoning" and item.text:
        return {"text": item.text, "thought": True}
    if item.kind == "call":
        return {"functionCall": {"id": item.call, "name": item.name, "args": parse_call_arguments(item, lost)}}
    if item.kind == "result":
        content = {"error" if item.failed else "output": item.text}
        return {"functionResponse": {"id": item.call, "name": item.name, "response": content}}
    image = image_source(item) if item.kind == "media" else None
    if isinstance(image, str):
        return {"fileData": {"mimeType": "image/*", "fileUri": image}}
    if image is not None:
        return {"inlineData": {"mimeType": image[0], "data": image[1]}}
    note_loss(item, "Gemini contents", lost)
    return None


def _nest_media(parts: Sequence[Any]) -> list[Any]:
    """Move a result's media into its functionResponse."""
    out: list[Any] = []
    for part in parts:
        if "functionResponse" in part or not out:
            out.append(part)
        else:
            out[-1]["functionResponse"].setdefault("parts", []).append(part)
    return out
