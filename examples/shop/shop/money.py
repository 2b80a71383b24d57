"""Money as whole cents, so that sums are exact."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PATTERN = re.compile(r"^\s*(-?)\s*(\d{1,3}(?:,\d{3})*|\d+)(?:\.(\d{1,2}))?\s*(?:EUR|€)?\s*$")


class MoneyError(ValueError):
    """A text that is no amount of money."""


@dataclass(frozen=True, order=True)
class Money:
    """An amount in cents; arithmetic never leaves whole cents."""

    cents: int

    def __add__(self, other: Money) -> Money:
        return Money(self.cents + other.cents)

    def __sub__(self, other: Money) -> Money:
        return Money(self.cents - other.cents)

    def __mul__(self, factor: int) -> Money:
        return Money(self.cents * factor)

    def __neg__(self) -> Money:
        return Money(-self.cents)

    def __bool__(self) -> bool:
        return self.cents != 0

    def __str__(self) -> str:
        sign = "-" if self.cents < 0 else ""
        whole, rest = divmod(abs(self.cents), 100)
        return f"{sign}{whole:,}.{rest} EUR"

    def percent(self, rate: float) -> Money:
        """Take a share in percent, rounded half up to whole cents."""
        return Money(int(self.cents * rate / 100))

    def allocate(self, weights: list[int]) -> list[Money]:
        """Split by weights so that the parts sum to the whole; early parts take the odd cents."""
        total = sum(weights)
        if total <= 0 or any(weight < 0 for weight in weights):
            raise MoneyError(f"weights must be positive, got {weights}")
        parts = [self.cents * weight // total for weight in weights]
        missing = self.cents - sum(parts)
        for place in range(missing):
            parts[place] += 1
        return [Money(part) for part in parts]


ZERO = Money(0)


def parse(text: str) -> Money:
    """Read '1,234.50 EUR', '12.5' or '-3'; raises MoneyError for anything else."""
    match = _PATTERN.match(text)
    if not match:
        raise MoneyError(f"not an amount of money: {text!r}")
    sign, whole, rest = match.groups()
    cents = int(whole.replace(",", "")) * 100 + int(rest or 0)
    return Money(-cents if sign else cents)


def total(amounts: list[Money]) -> Money:
    """Sum amounts; the empty sum is zero."""
    result = ZERO
    for amount in amounts:
        result = result + amount
    return result
