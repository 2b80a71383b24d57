"""The session's account and calibration, prices and models."""

from __future__ import annotations

import pytest

from danshari import ArgumentError, Compactor, Prices, data
from danshari.core.session import Calibration, CostAccount


def test_prices_must_make_sense() -> None:
    with pytest.raises(ArgumentError, match="cannot cost more"):
        Prices(read=2.0)
    with pytest.raises(ArgumentError, match="read = -1"):
        Prices(read=-1)


def test_the_account_bounds_what_may_be_risked() -> None:
    prices = Prices()
    account = CostAccount()
    for tokens in (1000.0, 2000.0, 3000.0):
        account = account.record_request(tokens, tokens, account.shown, prices, cold=False)
    assert account.spent == pytest.approx(account.untouched)
    assert account.risk_budget(0.05) == pytest.approx(0.05 * account.untouched)


def test_calibration_anchors_on_reports() -> None:
    calibration = Calibration().observe(12_000, 10_000)
    assert calibration.tokens(10_000) == 12_000
    assert calibration.tokens(11_000) == pytest.approx(13_000)
    learned = calibration.observe(13_500, 11_000)
    assert learned.ratio == pytest.approx(1.25)
    assert Calibration().observe(1e9, 1).observe(1, 1000).ratio >= 0.5


def test_models_and_windows() -> None:
    assert data.find_model("claude-opus-4-5-20251101").prices.read == 0.1
    assert data.find_model("anthropic/claude-opus-5-5").binding
    assert not data.find_model("nobody-knows-this").known
    notes = Compactor(model="nobody-knows-this").compact([{"role": "user", "content": "x"}]).notes
    assert any("unknown model" in note for note in notes)
    assert Compactor(window=1000).model.window == 1000
