"""The known message formats: their table, detection, and conversion between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from danshari.errors import ArgumentError, FormatError
from danshari.formats.anthropic.messages import AnthropicMessages
from danshari.formats.base import Format, Problem
from danshari.formats.openai_chat.messages import OpenAIChat
from danshari.formats.openai_responses.messages import OpenAIResponses

FORMATS: dict[str, Format] = {f.name: f for f in (OpenAIChat(), OpenAIResponses(), AnthropicMessages())}


def find_format(name: str) -> Format:
    """Return a format by its name. Raises ArgumentError that lists the known ones."""
    try:
        return FORMATS[name]
    except KeyError:
        raise ArgumentError(f"unknown format {name!r}; known: {', '.join(FORMATS)}") from None


def detect_format(payload: object) -> tuple[Format, tuple[str, ...]]:
    """Return the format of a list of messages or a whole request, and notes on what is unusual.

    Plain text messages fit several formats and are read as chat completions. Raises FormatError if the
    payload is no list of messages.
    """
    chat, responses, anthropic = FORMATS["openai-chat"], FORMATS["openai-responses"], FORMATS["anthropic"]
    if isinstance(payload, Mapping):
        if "input" in payload and "messages" not in payload:
            if isinstance(payload["input"], str):
                return responses, ("input is a plain string: nothing to compact",)
            return responses, ()
        if "messages" not in payload:
            raise FormatError("a request needs `messages` or `input`; got keys: " + ", ".join(map(str, payload))[:200])
    messages = chat.messages(payload)
    counts = dict.fromkeys(FORMATS, 0)
    for message in messages:
        for wire in FORMATS.values():
            counts[wire.name] += wire.is_own_message(message)
    served: tuple[str, ...] = ()
    if isinstance(payload, Mapping) and payload.get("context_management"):
        served = ("the request asks the provider to edit the context too (context_management); that is not seen here",)
    best = max(counts, key=lambda name: counts[name])
    if not counts[best]:
        return (anthropic if isinstance(payload, Mapping) and "system" in payload else chat), served
    mixed = [name for name, count in counts.items() if count and name != best]
    notes = (f"mixed formats: read as {best}, but some messages look like {', '.join(mixed)}",) if mixed else ()
    return FORMATS[best], (*notes, *served)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A payload in another format, with one line for everything that format cannot carry."""

    payload: list[Any]
    lost: tuple[str, ...]


def convert(payload: object, to: str, *, source: str | None = None) -> Conversion:
    """Convert messages to the format named `to`. Raises ArgumentError for an unknown format."""
    wire = find_format(source) if source else detect_format(payload)[0]
    lost: list[str] = []
    built = find_format(to).build(wire.read(payload), lost)
    return Conversion(payload=built, lost=tuple(lost))


__all__ = ["FORMATS", "Conversion", "Format", "Problem", "convert", "detect_format", "find_format"]
