"""Laws of counting: a usage report that cannot be true changes nothing, a plausible one is believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from danshari.core.session import UNSEEN_TOKENS, Calibration

TOKENS = st.integers(10_700, 2_000_000)
ERROR = st.floats(0.6, 2.4)


@given(TOKENS, ERROR)
def test_a_plausible_report_is_believed(estimated: int, error: float) -> None:
    reported = error * estimated
    assert Calibration().observe(reported, estimated).tokens(estimated) == reported


@given(TOKENS, ERROR, st.sampled_from((0.0, 0.07, 10.0)))
def test_zero_a_missing_cached_part_and_added_up_calls_change_nothing(
    estimated: int, error: float, factor: float
) -> None:
    before = Calibration().observe(error * estimated, estimated)
    assert before.observe(factor * estimated, estimated) == before
    assert Calibration().observe(factor * estimated, estimated) == Calibration()


@given(st.integers(1, 10_000), st.floats(0, UNSEEN_TOKENS))
def test_tools_and_a_system_prompt_that_were_not_given_are_believed(estimated: int, unseen: float) -> None:
    assert Calibration().observe(estimated + unseen, estimated).tokens(estimated) == estimated + unseen
