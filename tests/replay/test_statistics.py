"""Intervals and corrected differences."""

from __future__ import annotations

import pytest

from danshari.replay.statistics import Bootstrap, correct_holm


def test_bootstrap_is_seeded_and_holds_the_value() -> None:
    pairs = {f"t{n}": (float(n % 4), 4.0) for n in range(40)}
    first, second = (Bootstrap(list(pairs)).ratio(pairs) for _ in range(2))
    assert first == second
    assert first.low is not None
    assert first.high is not None
    assert first.value is not None
    assert first.low < first.value < first.high
    assert first.value == pytest.approx(0.375)
    alone = Bootstrap(["t"]).ratio({"t": (1.0, 2.0)})
    assert (alone.value, alone.low) == (0.5, None)
    assert Bootstrap([]).ratio({}).value is None


def test_paired_differences_and_holm() -> None:
    pairs = {f"t{n}": (float(n % 4), 4.0) for n in range(40)}
    better = {t: (a + 0.5, b) for t, (a, b) in pairs.items()}
    draws = Bootstrap(list(pairs))
    difference, p = draws.difference(better, pairs)
    assert difference.value == pytest.approx(0.125)
    assert p < 0.01
    same, p_same = draws.difference(pairs, pairs)
    assert (same.value, p_same) == (0.0, 1.0)
    assert correct_holm({"a": 0.01, "b": 0.04, "c": 0.03}) == {"a": pytest.approx(0.03), "c": pytest.approx(0.06),
                                                      "b": pytest.approx(0.06)}  # fmt: skip
