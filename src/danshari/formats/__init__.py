"""The known message formats: their table, detection, and conversion between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from danshari.errors import ArgumentError, FormatError
from danshari.formats.anthropic.messages import AnthropicMessages
from danshari.formats.base import Format, Problem
from danshari.formats.gemini.messages import Gemini
from danshari.formats.openai_chat.messages import OpenAIChat
from danshari.formats.openai_responses.messages import OpenAIResponses

FORMATS: dict[str, Format] = {f.name: f for f in (OpenAIChat(), OpenAIResponses(), AnthropicMessages(), Gemini())}
"""One row per format. Where messages fit several, the first one reads them."""


def find_format(name: str | Format) -> Format:
    """Return a format by its name, or the given instance. Raises ArgumentError that lists the known ones."""
    if isinstance(name, Format):
        return name
    if not isinstance(name, str) or name not in FORMATS:
        raise ArgumentError(f"unknown format {name!r}; known: {', '.join(FORMATS)}, or an instance of your own Format")
    return FORMATS[name]


def detect_format(payload: object) -> tuple[Format, tuple[str, ...]]:
    """Return the format of a list of messages or a whole request, and notes on what is unusual.

    Plain text messages fit several formats and are read as chat completions. Raises FormatError if the
    payload is no list of messages.
    """
    known = list(FORMATS.values())
    notes: tuple[str, ...] = ()
    if isinstance(payload, Mapping):
        key = next((f.key for f in known if f.key in payload), None)
        if key is None:
            keys = " or ".join(f"`{k}`" for k in dict.fromkeys(f.key for f in known))
            raise FormatError(f"a request needs {keys}; got keys: {', '.join(map(str, payload))[:200]}")
        known = [f for f in known if f.key == key]
        if isinstance(payload[key], str):
            return known[0], (f"{key} is a plain string: nothing to compact",)
        if payload.get("context_management"):
            notes = (
                "the request asks the provider to edit the context too (context_management); that is not seen here",
            )
    messages = known[0].messages(payload)
    counts = {wire.name: sum(map(wire.is_own_message, messages)) for wire in known}
    best = max(counts, key=lambda name: counts[name])
    if not counts[best]:
        fields = payload.keys() if isinstance(payload, Mapping) else ()
        return next((f for f in known if not f.request_fields.isdisjoint(fields)), known[0]), notes
    mixed = [name for name, count in counts.items() if count and name != best]
    if mixed:
        notes = (f"mixed formats: read as {best}, but some messages look like {', '.join(mixed)}", *notes)
    return FORMATS[best], notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A payload in another format, with one line for everything that format cannot carry."""

    payload: list[Any]
    lost: tuple[str, ...]


def convert(payload: object, to: str, *, source: str | None = None) -> Conversion:
    """Convert messages to the format named `to`.

    Raises ArgumentError for an unknown format, FormatError if the payload is no list of messages.
    """
    from danshari.formats.building import unique_call_ids

    wire = find_format(source) if source else detect_format(payload)[0]
    lost: list[str] = []
    built = find_format(to).build(unique_call_ids(wire.read(payload)), lost)
    return Conversion(payload=built, lost=tuple(lost))


__all__ = ["FORMATS", "Conversion", "Format", "Problem", "convert", "detect_format", "find_format"]
