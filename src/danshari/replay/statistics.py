"""Uncertainty: the bootstrap over tasks, paired differences, and Holm's correction over many comparisons.

Sessions of one task are drawn together, for they share a problem. Everything is seeded: the same input gives the same
digits.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

RESAMPLES = 2_000
Pairs = Mapping[str, tuple[float, float]]
"""Task → (numerator, denominator)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A ratio of sums with its 95 % interval; `n` is the denominator's sum, `tasks` what was resampled."""

    value: float | None
    low: float | None
    high: float | None
    n: float
    tasks: int

    def to_dict(self) -> dict[str, float | int | None]:
        """Give plain JSON values, rounded to five digits."""
        return {
            "value": rounded(self.value),
            "low": rounded(self.low),
            "high": rounded(self.high),
            "n": round(self.n, 1),
            "tasks": self.tasks,
        }


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Round a figure that may be missing."""
    return None if value is None else round(value, digits)


def pooled(values: Iterable[tuple[float, float]]) -> float:
    """Give a ratio of sums; 1 where there is nothing."""
    above = below = 0.0
    for a, b in values:
        above += a
        below += b
    return above / below if below else 1.0


class Bootstrap:
    """One set of resamples over tasks, so that all contenders are compared on the same draws."""

    def __init__(self, tasks: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 20261130) -> None:
        self.tasks = sorted(set(tasks))
        draw = random.Random(seed)
        size = len(self.tasks)
        self._draws = [Counter(draw.choices(range(size), k=size)) for _ in range(resamples)] if size > 1 else []

    def ratio(self, pairs: Pairs, *, interval: bool = True) -> Estimate:
        """Give a pooled ratio and, unless told not to, its percentile interval."""
        above, below = self._columns(pairs)
        values = sorted(v for v in self._resampled(above, below) if v is not None) if interval else []
        n = sum(below)
        low, high = _percentiles(values)
        present = sum(1 for task in self.tasks if pairs.get(task, (0, 0))[1])
        return Estimate(value=sum(above) / n if n else None, low=low, high=high, n=n, tasks=present)

    def difference(self, left: Pairs, right: Pairs) -> tuple[Estimate, float]:
        """Give left − right on the same draws, and the two-sided bootstrap p-value that it is zero."""
        pairs = [self._columns(left), self._columns(right)]
        drawn = [self._resampled(a, b) for a, b in pairs]
        values = sorted(x - y for x, y in zip(*drawn, strict=True) if x is not None and y is not None)
        points = [sum(a) / sum(b) if sum(b) else None for a, b in pairs]
        value = points[0] - points[1] if points[0] is not None and points[1] is not None else None
        low, high = _percentiles(values)
        below = sum(v <= 0 for v in values)
        above = sum(v >= 0 for v in values)
        p = min(1.0, 2 * (min(below, above) + 1) / (len(values) + 1)) if values else 1.0
        return Estimate(value=value, low=low, high=high, n=sum(pairs[0][1]), tasks=len(self.tasks)), p

    def _columns(self, pairs: Pairs) -> tuple[list[float], list[float]]:
        found = [pairs.get(task, (0.0, 0.0)) for task in self.tasks]
        return [a for a, _ in found], [b for _, b in found]

    def _resampled(self, above: list[float], below: list[float]) -> list[float | None]:
        made: list[float | None] = []
        for counts in self._draws:
            n = sum(below[task] * times for task, times in counts.items())
            made.append(sum(above[task] * times for task, times in counts.items()) / n if n else None)
        return made


def _percentiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    if not values:
        return None, None
    last = len(values) - 1
    return values[round(0.025 * last)], values[round(0.975 * last)]


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values for their number (Holm 1979): sorted, each times the count that is left, never decreasing."""
    found: dict[str, float] = {}
    worst = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: (pair[1], pair[0]))):
        worst = max(worst, min(1.0, p * (len(p_values) - rank)))
        found[name] = worst
    return found
