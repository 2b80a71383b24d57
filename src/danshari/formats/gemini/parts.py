"""The parts of Gemini contents: their objects in either spelling (camelCase, snake_case), and texts of responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from danshari.formats.base import as_plain_value


def find_object(part: Any, name: str) -> Mapping[str, Any] | None:
    """Return an object of a part by its camelCase name, in either spelling; None if it has none."""
    found = as_plain_value(part.get(name, part.get(_snake(name)))) if isinstance(part, Mapping) else None
    return found if isinstance(found, Mapping) else None


def replace_object(part: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return a part with an object replaced in the spelling that it has."""
    return {**part, (name if name in part else _snake(name)): value}


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


def mime_type(data: Mapping[str, Any]) -> str:
    """Return the media type of inline data or a file; "" if it names none."""
    return str(data.get("mimeType") or data.get("mime_type") or "")


def response_text(response: Mapping[str, Any]) -> tuple[str, str]:
    """Return the text of a function response and the key it stands under; "" and JSON if it is not one text."""
    content = response.get("response")
    if not isinstance(content, Mapping):
        return "", json.dumps(content, ensure_ascii=False) if content is not None else ""
    if len(content) == 1:
        key, value = next(iter(content.items()))
        if isinstance(value, str):
            return str(key), value
    return "", json.dumps(content, ensure_ascii=False, default=str)
