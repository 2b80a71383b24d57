"""Simulation of a provider's prompt cache on the byte prefix, and the cost of requests under it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from danshari.core.pricing import Prices
from danshari.core.tokens import Estimator
from danshari.formats import Format
from danshari.sessions import RecordedSession

PRICE_VECTORS: dict[str, Prices] = {
    ".10": Prices(read=0.10, write=1.25),
    ".05": Prices(read=0.05, write=1.25),
    ".025": Prices(read=0.025, write=1.25),
    ".02": Prices(read=0.02, write=1.0),
}
"""Price vectors of the benchmarks: cache read .10/.05/.025 with write 1.25, and read .02 with write 1.0."""
DEFAULT_MODEL = "claude-opus-4-5"
"""Model assumed where a recording names none (the compaction records come from Claude Code of that time)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRequest:
    """One request: its tokens, how many a warm cache would hold, and the seconds since the previous request."""

    tokens: float
    cached: float
    rewritten: bool
    """Whether already sent bytes changed."""
    gap: float | None = None

    def hit_tokens(self, prices: Prices, *, idle: bool = False, floor: float = 0.0) -> float:
        """Return the tokens read from the cache.

        This is 0 below the provider's minimum and, if `idle`, after its time to live. `floor` is tokens
        that precede the messages.
        """
        cold = idle and self.gap is not None and self.gap > prices.ttl
        cached = self.cached + floor if self.cached else 0.0
        return 0.0 if cold or cached < prices.minimum else cached

    def cost(self, prices: Prices, *, idle: bool = False, floor: float = 0.0) -> float:
        """Return the cost in units of base input tokens.

        read price × tokens read from the cache + write price × all other tokens. `floor` is tokens of
        system prompt and tools that precede the messages.
        """
        hit = self.hit_tokens(prices, idle=idle, floor=floor)
        return prices.read * hit + prices.write * (self.tokens + floor - hit)


class PrefixCache:
    """A prompt cache over the byte prefix of the last request."""

    def __init__(self, format: Format, count: Estimator) -> None:  # noqa: A002
        self._format, self._count = format, count
        self._last: list[Any] = []
        self._sizes: dict[int, tuple[Any, float]] = {}

    def message_tokens(self, message: Any) -> float:
        """Return the estimated tokens of one message; each object is counted once."""
        known = self._sizes.get(id(message))
        if known is None:
            pieces = self._format.split(message)
            known = (message, sum(self._count.estimate_item(p.kind, p.text, p.weight) for p in pieces))
            self._sizes[id(message)] = known
        return known[1]

    def forget_sizes(self) -> None:
        """Drop sizes of messages that are not in the last request, for callers that pass new objects each time."""
        kept = {id(message) for message in self._last}
        self._sizes = {key: value for key, value in self._sizes.items() if key in kept}

    def send(self, messages: Sequence[Any], *, gap: float | None = None) -> SimulatedRequest:
        """Record one request and return its tokens and cached part; `gap` is seconds since the previous one."""
        sizes = [self.message_tokens(m) for m in messages]
        same = 0
        for old, new in zip(self._last, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        cached = sum(sizes[:same])
        rewritten = same < len(self._last)
        if rewritten and same < len(messages):
            cached += sizes[same] * _common_share(self._last[same], messages[same])
        self._last = list(messages)
        return SimulatedRequest(tokens=sum(sizes), cached=cached, rewritten=rewritten, gap=gap)


def _common_share(old: Any, new: Any) -> float:
    """Return the share of `new` (as JSON text) that is an unchanged prefix of `old`."""
    a, b = json.dumps(old, ensure_ascii=False), json.dumps(new, ensure_ascii=False)
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return same / max(len(b), 1)


def request_boundaries(session: RecordedSession, format: Format) -> Iterator[int]:  # noqa: A002
    """Return the message indices at which a request was sent: before every assistant turn except a leading one."""
    before: Any = None
    for at, message in enumerate(session.messages):
        if at and format.begins_turn(message, before):
            yield at
        before = message
