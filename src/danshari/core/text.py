"""Small functions on texts: valid UTF-8, JSON arguments, patterns compiled on first use."""

from __future__ import annotations

import json
import re
from typing import Any


def is_valid_text(text: str) -> bool:
    """Return whether `text` can be encoded as UTF-8 (no lone surrogates)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced by question marks, so that it can be encoded as UTF-8."""
    return text if is_valid_text(text) else text.encode("utf-8", "replace").decode("utf-8")


def parse_arguments(arguments: str) -> dict[str, Any]:
    """Parse call arguments; return an empty dict for anything but a JSON object."""
    try:
        data = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def is_json_object(text: str) -> bool:
    """Return whether `text` is a JSON object."""
    return bool(parse_arguments(text)) or "".join(text.split()) == "{}"


class _LazyPattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        for method in ("search", "match", "fullmatch", "sub", "split", "findall", "finditer", "pattern"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a regular expression that is compiled on first use: the start of a process pays for none."""
    return _LazyPattern(pattern, flags)  # type: ignore[return-value]
