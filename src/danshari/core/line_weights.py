"""The weights of the line scorer as data: for each family of texts, one weight per bucket of every feature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari.errors import ArgumentError, VersionError

WEIGHTS_FORMAT = 1
"""Format number of stored weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyWeights:
    """Weights of one family of texts. A line's score is the bias plus one bucket's weight per feature."""

    bias: float
    features: Mapping[str, tuple[float, ...]]
    """Feature → weight of each of its buckets, in log odds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerWeights:
    """Learned weights of the line scorer: log odds that a later action needs a line."""

    families: Mapping[str, FamilyWeights] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    """How it was trained and how well it did on repositories it had not seen."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values with a format number."""
        families = {
            name: {"bias": family.bias, "features": {k: list(v) for k, v in family.features.items()}}
            for name, family in self.families.items()
        }
        return {"format": WEIGHTS_FORMAT, "families": families, "report": dict(self.report)}


def weights_from_dict(data: Any, expected: Mapping[str, Mapping[str, int]], where: str) -> ScorerWeights:
    """Read `Weights.to_dict` back; `expected` gives each family's features and their numbers of buckets.

    Raises VersionError for another format, ArgumentError for what is no weights or has other features.
    """
    if not isinstance(data, Mapping) or "format" not in data:
        raise ArgumentError(f"{where}: no weights of a line scorer; make them with `danshari train`")
    if data["format"] != WEIGHTS_FORMAT:
        raise VersionError(
            f"{where}: weights of format {data['format']}, this danshari reads {WEIGHTS_FORMAT}: train again"
        )
    families: dict[str, FamilyWeights] = {}
    for name, features in expected.items():
        try:
            row = data["families"][name]
            found = {k: tuple(map(float, row["features"][k])) for k in features}
            bias = float(row["bias"])
        except (KeyError, TypeError, ValueError) as error:
            raise ArgumentError(f"{where}: family {name!r}: {type(error).__name__}: {error}; train again") from None
        for feature, buckets in features.items():
            if len(found[feature]) != buckets or not all(map(math.isfinite, (bias, *found[feature]))):
                raise ArgumentError(
                    f"{where}: family {name!r}, feature {feature!r}: {buckets} finite weights are expected; train again"
                )
        families[name] = FamilyWeights(bias=bias, features=found)
    return ScorerWeights(families=families, report=data.get("report") or {})


def sum_bucket_weights(family: FamilyWeights, columns: Mapping[str, Sequence[int]], count: int) -> list[float]:
    """Return the score of each of `count` lines, in log odds.

    A score is the family's bias plus, for every feature, the weight of the bucket that the line falls
    into.
    """
    scores = [family.bias] * count
    for name, column in columns.items():
        weights = family.features[name]
        scores = [score + weights[bucket] for score, bucket in zip(scores, column, strict=True)]
    return scores
