"""Prompt-cache prices as multipliers of the base input price, and the cost of changing a cached prefix."""

from __future__ import annotations

from dataclasses import dataclass

from danshari.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prompt-cache prices as multipliers of the base input price.

    `ttl` is the life of the cache in seconds, `minimum` the least tokens that are cached, `base`
    dollars per million input tokens.
    """

    read: float = 0.10
    write: float = 1.25
    output: float = 5.0
    ttl: float = 300.0
    minimum: int = 1024
    base: float = 1.0

    def __post_init__(self) -> None:
        """Raise ArgumentError for negative prices, or if reading a cached token costs more than writing it."""
        for name in ("read", "write", "output", "ttl", "minimum", "base"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise ArgumentError(f"prices: {name} = {value!r}; must be a number, 0 or more")
        if self.read > self.write:
            raise ArgumentError(
                f"prices: read {self.read} is above write {self.write}; a cached token cannot cost more"
            )

    def dollars(self, units: float) -> float:
        """Convert units (tokens x multiplier) into dollars, by the base price per million tokens."""
        return units * self.base / 1e6


def rewrite_cost(prices: Prices, after: float, *, cold: bool) -> float:
    """Return the cost, in units, of sending `after` cached tokens anew: (write - read) x tokens.

    It is 0 if the cache is cold.
    """
    return 0.0 if cold else (prices.write - prices.read) * after


def cache_savings(prices: Prices, freed: float, rounds: float, *, cold: bool) -> float:
    """Return the units saved by not sending `freed` tokens in the next `rounds` requests.

    read price x freed x rounds; if the cache is cold, plus write price x freed for the first request.
    """
    return prices.read * freed * rounds + (prices.write * freed if cold else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What is known of a model: window and output limit in tokens, prices, tokenizer family, bound thinking."""

    name: str = ""
    window: int = 128_000
    output: int = 8_192
    family: str = "claude-new"
    binding: bool = False
    known: bool = False
    prices: Prices = Prices()
    source: str = ""
    checked: str = ""
