"""Prompt-cache prices as multipliers of the base input price, and what a changed prefix costs under them."""

from __future__ import annotations

from dataclasses import dataclass

from danshari.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Multipliers of the base input price; `ttl` in seconds, `minimum` in tokens, `base` in dollars per million."""

    read: float = 0.10
    write: float = 1.25
    output: float = 5.0
    ttl: float = 300.0
    minimum: int = 1024
    base: float = 1.0

    def __post_init__(self) -> None:
        """Refuse prices that cannot be: negative ones, or a cached token dearer than a new one."""
        for name in ("read", "write", "output", "ttl", "minimum", "base"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
                raise ArgumentError(f"prices: {name} = {value!r}; must be a number, 0 or more")
        if self.read > self.write:
            raise ArgumentError(
                f"prices: read {self.read} is above write {self.write}; a cached token cannot cost more"
            )

    def dollars(self, units: float) -> float:
        """Turn units (tokens times multiplier) into dollars."""
        return units * self.base / 1e6


def rewrite_cost(prices: Prices, after: float, *, cold: bool) -> float:
    """Cost, in units, of sending `after` tokens anew that were cached; nothing if the cache is cold."""
    return 0.0 if cold else (prices.write - prices.read) * after


def earnings(prices: Prices, freed: float, rounds: float, *, cold: bool) -> float:
    """Units saved by not sending `freed` tokens for `rounds` more requests (the first at write price if cold)."""
    return prices.read * freed * rounds + (prices.write * freed if cold else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a model's row says: sizes in tokens, prices, tokenizer family, whether thinking is bound to its prefix."""

    name: str = ""
    window: int = 128_000
    output: int = 8_192
    family: str = "claude-new"
    binding: bool = False
    known: bool = False
    prices: Prices = Prices()
    source: str = ""
    checked: str = ""
