"""A provider's prompt cache, simulated to the byte, and what requests cost under it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from danshari.core.pricing import Prices
from danshari.core.tokens import Estimator
from danshari.formats import Format
from danshari.sessions import Recorded

VECTORS: dict[str, Prices] = {
    ".10": Prices(read=0.10, write=1.25),
    ".05": Prices(read=0.05, write=1.25),
    ".025": Prices(read=0.025, write=1.25),
    ".02": Prices(read=0.02, write=1.0),
}
"""Price vectors of the benchmarks: cache read .10/.05/.025 with write 1.25, and read .02 with write 1.0."""
DEFAULT_MODEL = "claude-opus-4-5"
"""Model assumed where a recording names none (the compaction records come from Claude Code of that time)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One request: its tokens, how many of them the cache holds if it is warm, and the seconds since the last one."""

    tokens: float
    cached: float
    rewritten: bool
    """Whether already sent bytes changed."""
    gap: float | None = None

    def hit(self, prices: Prices, *, idle: bool = False, floor: float = 0.0) -> float:
        """Give the tokens read from the cache; none below the minimum, or after the time to live if `idle`."""
        cold = idle and self.gap is not None and self.gap > prices.ttl
        cached = self.cached + floor if self.cached else 0.0
        return 0.0 if cold or cached < prices.minimum else cached

    def cost(self, prices: Prices, *, idle: bool = False, floor: float = 0.0) -> float:
        """Price the request in units of base input tokens; `floor` tokens of system prompt and tools come before."""
        hit = self.hit(prices, idle=idle, floor=floor)
        return prices.read * hit + prices.write * (self.tokens + floor - hit)


class PrefixCache:
    """A prompt cache over the byte prefix of the last request."""

    def __init__(self, format: Format, count: Estimator) -> None:  # noqa: A002
        self._format, self._count = format, count
        self._last: list[Any] = []
        self._sizes: dict[int, tuple[Any, float]] = {}

    def size(self, message: Any) -> float:
        """Estimate the tokens of one message; the same object is counted once."""
        known = self._sizes.get(id(message))
        if known is None:
            pieces = self._format.split(message)
            known = (message, sum(self._count.item(p.kind, p.text, p.weight) for p in pieces))
            self._sizes[id(message)] = known
        return known[1]

    def forget(self) -> None:
        """Forget the sizes of messages: needed where equal ones come as new objects every time."""
        kept = {id(message) for message in self._last}
        self._sizes = {key: value for key, value in self._sizes.items() if key in kept}

    def send(self, messages: Sequence[Any], *, gap: float | None = None) -> Sent:
        """Book one request."""
        sizes = [self.size(m) for m in messages]
        same = 0
        for old, new in zip(self._last, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        cached = sum(sizes[:same])
        rewritten = same < len(self._last)
        if rewritten and same < len(messages):
            cached += sizes[same] * _common(self._last[same], messages[same])
        self._last = list(messages)
        return Sent(tokens=sum(sizes), cached=cached, rewritten=rewritten, gap=gap)


def _common(old: Any, new: Any) -> float:
    a, b = json.dumps(old, ensure_ascii=False), json.dumps(new, ensure_ascii=False)
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return same / max(len(b), 1)


def cuts(session: Recorded, format: Format) -> Iterator[int]:  # noqa: A002
    """Give the message indices at which a request went out: before every assistant turn but a leading one."""
    before: Any = None
    for at, message in enumerate(session.messages):
        if at and format.begins_turn(message, before):
            yield at
        before = message
