"""Token estimates and the features that they count."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import data
from danshari.core.tokens import ITEM_OVERHEAD, TOKEN_FEATURES, count_features, literal_tokens


def test_features_are_counted_by_class() -> None:
    counts = dict(zip(TOKEN_FEATURES, count_features("aB1 \n.é".encode()), strict=True))
    assert (counts["a"], counts["A"], counts["0"], counts["s"], counts["n"], counts["p"], counts["L"], counts["h"]) == (
        1,
    ) * 8
    assert counts["aA"] == 1


@given(st.text(max_size=500), st.sampled_from(data.tokenizer_families()))
def test_estimates_are_never_negative(text: str, family: str) -> None:
    assert data.load_estimator(family)(text) >= 0
    assert data.load_estimator(family)("") == 0


def test_the_seeds_estimate() -> None:
    """M3: 4 characters a token, 1.5 for CJK."""
    assert literal_tokens("hello world!") == 3
    assert literal_tokens("你好世界！！") == 4
    assert literal_tokens("ab你好") == pytest.approx(2 / 4 + 2 / 1.5)


@given(st.binary(min_size=600, max_size=6000), st.sampled_from(data.tokenizer_families()), st.text(max_size=300))
def test_bytes_written_as_text_count_as_bytes(raw: bytes, family: str, around: str) -> None:
    estimate = data.load_estimator(family)
    dense = base64.b64encode(hashlib.sha512(raw).digest() + raw).decode()
    words = "the ledger keeps its entries " * 40
    assert estimate.estimate_item("result", f'{{"image": "{dense}"}}') >= 0.7 * len(dense)
    assert estimate.estimate_item("result", words) == estimate(words) + ITEM_OVERHEAD
    assert estimate.estimate_item("result", "G" * 4000) == estimate("G" * 4000) + ITEM_OVERHEAD
    assert estimate.estimate_item("result", around) >= 0
