"""Uncertainty: bootstrap over tasks, paired differences, and Holm's correction for multiple comparisons.

Sessions of one task are resampled together because they share a problem. All draws are seeded, so
the same input gives the same digits.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

RESAMPLES = 2_000
TaskSums = Mapping[str, tuple[float, float]]
"""Task → (numerator, denominator)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioEstimate:
    """A ratio of sums with its 95 % interval; `n` is the sum of denominators, `tasks` the number of tasks."""

    value: float | None
    low: float | None
    high: float | None
    n: float
    tasks: int

    def to_dict(self) -> dict[str, float | int | None]:
        """Return plain JSON values, rounded to five digits."""
        return {
            "value": round_optional(self.value),
            "low": round_optional(self.low),
            "high": round_optional(self.high),
            "n": round(self.n, 1),
            "tasks": self.tasks,
        }


def round_optional(value: float | None, digits: int = 5) -> float | None:
    """Round a figure that may be None."""
    return None if value is None else round(value, digits)


def pool_ratio(values: Iterable[tuple[float, float]]) -> float:
    """Return the sum of numerators over the sum of denominators, or 1 if the latter is 0."""
    above = below = 0.0
    for a, b in values:
        above += a
        below += b
    return above / below if below else 1.0


class Bootstrap:
    """One set of resamples over tasks, so that all contenders are compared on the same draws.

    Source: percentile bootstrap (Efron 1979).
    """

    def __init__(self, tasks: Sequence[str], *, resamples: int = RESAMPLES, seed: int = 20261130) -> None:
        self.tasks = sorted(set(tasks))
        draw = random.Random(seed)
        size = len(self.tasks)
        self._draws = [Counter(draw.choices(range(size), k=size)) for _ in range(resamples)] if size > 1 else []

    def ratio(self, pairs: TaskSums, *, interval: bool = True) -> RatioEstimate:
        """Return the pooled ratio, with its percentile interval if `interval`."""
        above, below = self._split_columns(pairs)
        values = sorted(v for v in self._resample(above, below) if v is not None) if interval else []
        n = sum(below)
        low, high = _percentiles(values)
        present = sum(1 for task in self.tasks if pairs.get(task, (0, 0))[1])
        return RatioEstimate(value=sum(above) / n if n else None, low=low, high=high, n=n, tasks=present)

    def difference(self, left: TaskSums, right: TaskSums) -> tuple[RatioEstimate, float]:
        """Return left - right on the same draws, and the two-sided bootstrap p-value of zero difference.

        p = 2 × (k + 1) / (number of resamples + 1), at most 1, where k is the smaller of the counts of
        resampled differences ≤ 0 and ≥ 0.
        """
        pairs = [self._split_columns(left), self._split_columns(right)]
        drawn = [self._resample(a, b) for a, b in pairs]
        values = sorted(x - y for x, y in zip(*drawn, strict=True) if x is not None and y is not None)
        points = [sum(a) / sum(b) if sum(b) else None for a, b in pairs]
        value = points[0] - points[1] if points[0] is not None and points[1] is not None else None
        low, high = _percentiles(values)
        below = sum(v <= 0 for v in values)
        above = sum(v >= 0 for v in values)
        p = min(1.0, 2 * (min(below, above) + 1) / (len(values) + 1)) if values else 1.0
        return RatioEstimate(value=value, low=low, high=high, n=sum(pairs[0][1]), tasks=len(self.tasks)), p

    def _split_columns(self, pairs: TaskSums) -> tuple[list[float], list[float]]:
        found = [pairs.get(task, (0.0, 0.0)) for task in self.tasks]
        return [a for a, _ in found], [b for _, b in found]

    def _resample(self, above: list[float], below: list[float]) -> list[float | None]:
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


def correct_holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values corrected for their number (Holm 1979).

    In ascending order each is multiplied by the number of p-values left; values never decrease and are
    at most 1.
    """
    found: dict[str, float] = {}
    worst = 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: (pair[1], pair[0]))):
        worst = max(worst, min(1.0, p * (len(p_values) - rank)))
        found[name] = worst
    return found
