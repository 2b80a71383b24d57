"""Responses items built from items alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from danshari.core.items import Item
from danshari.core.text import is_json_object
from danshari.formats.base import data_url
from danshari.formats.building import image_source, note_loss, parse_call_arguments


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
            text = item.text if is_json_object(item.text) else json.dumps(parse_call_arguments(item, lost))
            out.append({"type": "function_call", "call_id": item.call, "name": item.name, "arguments": text})
        elif item.kind == "result":
            out.append({"type": "function_call_output", "call_id": item.call, "output": item.text})
            if item.failed:
                lost.append(f"result {item.call}: the error flag has no place in Responses")
        elif (image := image_source(item)) is not None and item.kind == "media":
            part = {
                "type": "input_image",
                "detail": "auto",
                "image_url": image if isinstance(image, str) else data_url(*image),
            }
            _attach_image(out, item, part)
        else:
            note_loss(item, "Responses", lost)
    return out


def _attach_image(out: list[Any], item: Item, part: dict[str, Any]) -> None:
    if item.role == "tool" and out and out[-1]["type"] == "function_call_output":
        text = out[-1]["output"]
        parts = text if isinstance(text, list) else [{"type": "input_text", "text": text}]
        out[-1]["output"] = [*parts, part]
    else:
        out.append({"type": "message", "role": "user", "content": [part]})
