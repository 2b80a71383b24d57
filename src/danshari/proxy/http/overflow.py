"""Recognise a provider's error that the context is too long, and read the token counts in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from danshari import data

OVERFLOW_STATUSES = frozenset((400, 404, 413, 422, 429, 500, 502, 503, 529))
"""Statuses under which an error is looked at: gateways pass a refusal on as their own failure."""
_MEANINGLESS_STATUSES = frozenset((429, 529))
"""Statuses that mean a rate or a load, unless a row of the table names them."""
MAX_ERROR_BYTES = 65_536
"""Bytes of an error's body that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOverflow:
    """A provider's error that the context is too long.

    Its token count of the request and its limit; None where the error states none.
    """

    counted: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowSaying:
    """One row of `data/overflow.toml`: a wording, and the statuses under which it means an overflow."""

    pattern: re.Pattern[str]
    statuses: frozenset[int]


@cache
def overflow_sayings() -> tuple[tuple[OverflowSaying, ...], re.Pattern[str]]:
    """Load the wordings of all providers, and the pattern of what sounds alike and is something else."""
    table = tomllib.loads(data.package_text("overflow.toml"))
    usual = OVERFLOW_STATUSES - _MEANINGLESS_STATUSES
    sayings = tuple(
        OverflowSaying(
            pattern=re.compile(row["pattern"], re.IGNORECASE), statuses=frozenset(row.get("statuses", usual))
        )
        for row in table["saying"]
    )
    return sayings, re.compile("|".join(f"(?:{row['pattern']})" for row in table["other"]), re.IGNORECASE)


def parse_overflow(status: int, body: bytes) -> ContextOverflow | None:
    """Parse an error response; return None if it is not about the context's length."""
    if status not in OVERFLOW_STATUSES:
        return None
    text = body[:MAX_ERROR_BYTES].decode("utf-8", "replace").replace("\\", "")
    sayings, others = overflow_sayings()
    matches = [found for row in sayings if status in row.statuses and (found := row.pattern.search(text))]
    if not matches:
        return None
    found = max(matches, key=_told_counts)  # the most telling one
    if others.search(text) and not _told_counts(found):
        return None
    told = {name: int(n.replace(",", "")) for name, n in found.groupdict().items() if n and n.strip(",")}
    return ContextOverflow(counted=told.get("counted"), limit=told.get("limit"))


def parse_stream_overflow(events: Sequence[bytes]) -> ContextOverflow | None:
    """Parse events that opened a stream of status 200; return None if none of them is an overflow."""
    return next((found for event in events if b"error" in event and (found := parse_overflow(400, event))), None)


def _told_counts(found: re.Match[str]) -> int:
    """Return how many counts a wording states."""
    return sum(n is not None for n in found.groupdict().values())
