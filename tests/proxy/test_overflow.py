"""Requests that are refused for their length."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari.data import package_text
from danshari.proxy.http.overflow import parse_overflow
from danshari.testing.fake_provider import ScriptedFailure
from tests.support.proxy import Client, Pair, body_of, make_pair, work


def test_a_request_too_long_is_compacted_and_sent_again() -> None:
    for pair in make_pair():
        messages = work(40, "openai-chat")
        pair.upstream.window = 18_000
        for cut in range(2, len(messages) + 1, 2):
            status, _, said = pair.client.post("/v1/chat/completions", body_of("openai-chat", messages[:cut]))
            assert status == 200, (cut, said)
        assert pair.metric("rescues_total") >= 1
        assert pair.app.state.sessions.all_branches()[0].totals.rescues >= 1


def test_an_overflow_that_nothing_helps_against_stays_the_providers_own(pair: Pair) -> None:
    pair.upstream.script = lambda asked: ScriptedFailure(
        status=400, text="prompt is too long: 300000 tokens > 200000 maximum"
    )
    direct = Client(pair.there).post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "hi"}]))
    through = pair.client.post("/v1/messages", body_of("anthropic", [{"role": "user", "content": "hi"}]))
    assert through[0] == 400
    assert through[2] == direct[2]


TABLE = tomllib.loads(package_text("overflow.toml"))


@pytest.mark.parametrize("row", TABLE["saying"], ids=lambda row: row["who"])
def test_every_wording_is_recognised_with_its_counts(row: dict[str, Any]) -> None:
    """In plain words, in JSON and inside another provider's error, under every status that it may come with."""
    counted, limit = (n or None for n in (*row["counts"], 0, 0)[:2])
    quoted = json.dumps({"error": {"message": row["example"], "type": "invalid_request_error"}})
    nested = json.dumps({"error": {"message": f"GatewayException: {quoted}", "code": "400"}})
    for text in (row["example"], quoted, nested):
        for status in row.get("statuses", (400, 413, 422, 500, 502, 503)):
            found = parse_overflow(status, text.encode())
            assert found is not None, (status, text)
            assert (found.counted, found.limit) == (counted, limit)
        assert parse_overflow(200, text.encode()) is None
        assert parse_overflow(401, text.encode()) is None


@pytest.mark.parametrize("row", TABLE["other"], ids=lambda row: row["example"][:30])
def test_what_sounds_alike_is_something_else(row: dict[str, Any]) -> None:
    for text in (row["example"], json.dumps({"error": {"message": row["example"], "code": "invalid_request_error"}})):
        assert [s for s in (400, 413, 422, 429, 500, 503) if parse_overflow(s, text.encode())] == []


@given(text=st.text(max_size=400), status=st.sampled_from((400, 413, 422, 429, 500)))
def test_other_errors_are_none(text: str, status: int) -> None:
    body = json.dumps({"error": {"message": text, "type": "invalid_request_error", "param": "messages"}})
    assert parse_overflow(status, body.encode()) is None
