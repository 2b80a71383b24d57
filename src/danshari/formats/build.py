"""Messages built from items alone, for conversion between formats and for inserted recall calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from danshari.core.items import Item
from danshari.core.text import is_json_object, parse_arguments
from danshari.formats.base import data_url, split_data_url


def _group_items(items: Sequence[Item]) -> Iterator[tuple[str, list[Item]]]:
    """Group items into messages: a turn's assistant items, its results with media, runs of one role.

    Results come right after the turn that asked for them. Anything that stood in between follows them.
    """
    rank = {"assistant": 0, "tool": 1}
    ordered = sorted(items, key=lambda i: (i.turn, rank.get(i.role, 2)))
    for key, group in groupby(ordered, key=lambda i: (i.role, i.turn if i.role == "assistant" else 0)):
        yield key[0], list(group)


def _parse_call_arguments(item: Item, lost: list[str]) -> dict[str, Any]:
    data = parse_arguments(item.text)
    if not data and item.text.strip() not in ("", "{}"):
        lost.append(f"call {item.call}: arguments are no JSON object; carried under `input`")
        return {"input": item.text}
    return data


def _image_source(item: Item) -> tuple[str, str] | str | None:
    """Return an image as (media type, base64 data) or as a URL, from any format's block, else None."""
    raw = item.raw if isinstance(item.raw, dict) else {}
    source = raw.get("source")
    if raw.get("type") == "image" and isinstance(source, dict):
        if source.get("type") == "base64":
            return str(source.get("media_type", "image/png")), str(source.get("data", ""))
        return str(source["url"]) if source.get("url") else None
    url = raw.get("image_url")
    url = url.get("url") if isinstance(url, dict) else url
    if not isinstance(url, str):
        return None
    return split_data_url(url) or url


def _note_loss(item: Item, where: str, lost: list[str]) -> None:
    """Add a line about an item that the format cannot carry."""
    lost.append(f"{item.role} {item.kind} {item.name or ''}".strip() + f" has no place in {where}")


def build_chat(items: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build chat completion messages."""
    out: list[Any] = []
    for role, group in _group_items(items):
        if role == "assistant":
            out.append(_chat_turn(group, lost))
        elif role == "tool":
            out += _chat_results(group, lost)
        else:
            out += [{"role": role, "content": i.text} for i in group if i.kind == "text" and not i.raw]
            media = [part for i in group if i.kind != "text" and (part := _chat_part(i, lost))]
            if media:
                out.append({"role": role, "content": media})
    return [m for m in out if m]


def _chat_turn(group: Sequence[Item], lost: list[str]) -> dict[str, Any] | None:
    """Build the assistant message of one turn, or None if it has neither text nor calls."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    texts = [i.text for i in group if i.kind == "text"]
    if texts:
        message["content"] = texts[0] if len(texts) == 1 else [{"type": "text", "text": t} for t in texts]
    reasoning = "\n".join(i.text for i in group if i.kind == "reasoning" and i.text)
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = [
        {
            "id": i.call,
            "type": "function",
            "function": {"name": i.name, "arguments": json.dumps(_parse_call_arguments(i, lost))},
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
            _note_loss(item, "chat completions", lost)
    return message if texts or calls else None


def _chat_results(group: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build the tool messages of one turn, with media as parts of the result before them."""
    out: list[dict[str, Any]] = []
    for item in group:
        if item.kind == "result":
            out.append({"role": "tool", "tool_call_id": item.call, "content": item.text})
            if item.failed:
                lost.append(f"result {item.call}: the error flag has no place in chat completions")
        elif part := _chat_part(item, lost):
            text = out[-1]["content"] if out else ""
            parts = text if isinstance(text, list) else [{"type": "text", "text": text}]
            if out:
                out[-1]["content"] = [*parts, part]
    return out


def _chat_part(item: Item, lost: list[str]) -> Any:
    image = _image_source(item)
    if image is None:
        _note_loss(item, "chat completions", lost)
        return None
    return {"type": "image_url", "image_url": {"url": image if isinstance(image, str) else data_url(*image)}}


def build_anthropic(items: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build Messages API messages. Consecutive user-side items share one message, results first."""
    out: list[Any] = []
    for role, group in _group_items(items):
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
        return {"type": "tool_use", "id": item.call, "name": item.name, "input": _parse_call_arguments(item, lost)}
    if item.kind == "result":
        flag = {"is_error": True} if item.failed else {}
        return {"type": "tool_result", "tool_use_id": item.call, "content": item.text, **flag}
    image = _image_source(item) if item.kind == "media" else None
    if isinstance(image, str):
        return {"type": "image", "source": {"type": "url", "url": image}}
    if image is not None:
        return {"type": "image", "source": {"type": "base64", "media_type": image[0], "data": image[1]}}
    _note_loss(item, "Anthropic messages (thinking needs the signature of its own prefix)", lost)
    return None


def _nest_media(blocks: Sequence[Any]) -> list[Any]:
    """Move a result's media into its tool_result block."""
    out: list[Any] = []
    for block in blocks:
        if block["type"] == "tool_result" or not out:
            out.append(block)
        else:
            last = out[-1]
            text = last["content"]
            parts = text if isinstance(text, list) else ([{"type": "text", "text": text}] if text else [])
            last["content"] = [*parts, block]
    return out


def build_responses(items: Sequence[Item], lost: list[str]) -> list[Any]:
    """Build OpenAI Responses items."""
    out: list[Any] = []
    for item in items:
        if item.kind == "text":
            role = "developer" if item.role == "system" else item.role
            parts: Any = [{"type": "input_text", "text": item.text}]
            # the agent's own text goes back as a plain string: output_text parts need the id of the original
            out.append({"type": "message", "role": role, "content": item.text if role == "assistant" else parts})
        elif item.kind == "call":
            text = item.text if is_json_object(item.text) else json.dumps(_parse_call_arguments(item, lost))
            out.append({"type": "function_call", "call_id": item.call, "name": item.name, "arguments": text})
        elif item.kind == "result":
            out.append({"type": "function_call_output", "call_id": item.call, "output": item.text})
            if item.failed:
                lost.append(f"result {item.call}: the error flag has no place in Responses")
        elif (image := _image_source(item)) is not None and item.kind == "media":
            part = {
                "type": "input_image",
                "detail": "auto",
                "image_url": image if isinstance(image, str) else data_url(*image),
            }
            _attach_image(out, item, part)
        else:
            _note_loss(item, "Responses", lost)
    return out


def _attach_image(out: list[Any], item: Item, part: dict[str, Any]) -> None:
    if item.role == "tool" and out and out[-1]["type"] == "function_call_output":
        text = out[-1]["output"]
        parts = text if isinstance(text, list) else [{"type": "input_text", "text": text}]
        out[-1]["output"] = [*parts, part]
    else:
        out.append({"type": "message", "role": "user", "content": [part]})
