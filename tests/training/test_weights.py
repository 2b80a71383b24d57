"""Weights as they are stored, with their version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from danshari import ArgumentError, VersionError, data
from danshari.core.line_weights import weights_from_dict
from danshari.shorten.line_scorer import feature_bucket_counts


def test_our_own_weights_fit_and_bring_their_report() -> None:
    weights = data.line_weights()
    assert weights is not None
    code = weights.report["families"]["code"]["rows"]
    assert code["scorer"]["auc_inside"] > max(code[b]["auc_inside"] for b in ("recency", "rarity", "BM25 to the task"))
    assert weights_from_dict(json.loads(json.dumps(weights.to_dict())), feature_bucket_counts(), "x") == weights


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda d: d.update(format=99), VersionError, "train again"),
        (lambda d: d.pop("format"), ArgumentError, "danshari train"),
        (lambda d: d["families"].pop("code"), ArgumentError, "family 'code'"),
        (lambda d: d["families"]["code"]["features"]["form"].pop(), ArgumentError, "feature 'form': 7 finite weights"),
    ],
)
def test_weights_that_do_not_fit_are_named(change: Any, error: type[Exception], said: str) -> None:
    weights = data.line_weights()
    assert weights is not None
    stored = json.loads(json.dumps(weights.to_dict()))
    change(stored)
    with pytest.raises(error, match=said):
        weights_from_dict(stored, feature_bucket_counts(), "mine.json")
