"""Recognise a provider's error that the context is too long, and read the token counts in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from danshari.formats import FORMATS

OVERFLOW_STATUSES = (400, 413, 422)
MAX_ERROR_BYTES = 65_536
"""Bytes of an error's body that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOverflow:
    """A provider's error that the context is too long.

    Its token count of the request and its limit; None where the error states none.
    """

    counted: int | None = None
    limit: int | None = None


@cache
def _overflow_patterns() -> tuple[re.Pattern[str], ...]:
    """Compile the messages of all providers: gateways answer in other formats than the request's."""
    messages = [message for wire in FORMATS.values() for message in wire.api.overflow_messages]
    return tuple(re.compile(message, re.IGNORECASE) for message in messages)


def parse_overflow(status: int, body: bytes) -> ContextOverflow | None:
    """Parse an error response; return None if it is not about the context's length."""
    if status not in OVERFLOW_STATUSES:
        return None
    text = body[:MAX_ERROR_BYTES].decode("utf-8", "replace")
    matches = [found for pattern in _overflow_patterns() if (found := pattern.search(text))]
    if not matches:
        return None
    found = max(matches, key=lambda m: sum(n is not None for n in m.groupdict().values()))  # the most telling one
    told = {name: int(n.replace(",", "")) for name, n in found.groupdict().items() if n and n.strip(",")}
    return ContextOverflow(counted=told.get("counted"), limit=told.get("limit"))
