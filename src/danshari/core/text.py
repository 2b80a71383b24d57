"""Plain questions about texts: can it be sent, is it a JSON object, what does it hold."""

from __future__ import annotations

import json
from typing import Any


def valid_text(text: str) -> bool:
    """Say whether `text` can be encoded as UTF-8 (no lone surrogates)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def sendable(text: str) -> str:
    """Give a text as it can be encoded; lone surrogates become question marks."""
    return text if valid_text(text) else text.encode("utf-8", "replace").decode("utf-8")


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Parse call arguments; anything but a JSON object gives an empty dict."""
    try:
        data = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def is_object(text: str) -> bool:
    """Say whether `text` is a JSON object."""
    return bool(parse_arguments(text)) or "".join(text.split()) == "{}"
