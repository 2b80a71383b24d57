"""Options with a text of their own: a policy's fields and the proxy's settings are documented and checked alike."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, Literal, get_args, get_origin


def option(default: Any, text: str, *, share: bool = False) -> Any:
    """Declare a dataclass field with its documentation; `share` limits a number to 0 to 1."""
    if callable(default):
        return field(default_factory=default, metadata={"text": text, "share": share})
    return field(default=default, metadata={"text": text, "share": share})


def option_texts(owner: Any) -> dict[str, str]:
    """Return the documentation of every option of a dataclass, in order."""
    return {f.name: str(f.metadata["text"]) for f in fields(owner) if "text" in f.metadata}


def check_option(value: Any, hint: Any) -> str:
    """Return what a value must be to fit a type, or "" if it fits.

    Types are a Literal, a tuple of strings, bool, int, float and str. Numbers must be 0 or more.
    """
    if get_origin(hint) is Literal:
        return "" if value in get_args(hint) else f"must be one of {', '.join(map(str, get_args(hint)))}"
    if get_origin(hint) is tuple:
        fits = isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)
        return "" if fits else "must be a list of strings"
    if hint is bool:
        return "" if isinstance(value, bool) else "must be bool"
    if isinstance(value, bool) or not isinstance(value, (int, float) if hint is float else hint):
        return f"must be {hint.__name__}"
    if isinstance(value, int | float) and not value >= 0:
        return "must be a number, 0 or more"
    return ""
