"""Requests that are refused for their length."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize(
    ("status", "text", "counted", "limit"),
    [
        (400, "prompt is too long: 210,000 tokens > 200000 maximum", 210_000, 200_000),
        (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 9001, 8192),
        (400, "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease", 199_000, 200_000),
        (400, '{"code": "context_length_exceeded"}', None, None),
        (400, "Your input exceeds the context window of this model.", None, None),
        (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).", 1_100_000, 1_048_576),
        (413, "request_too_large", None, None),
    ],
)  # fmt: skip
def test_refusals_for_length_are_recognised(status: int, text: str, counted: int | None, limit: int | None) -> None:
    found = parse_overflow(status, text.encode())
    assert found is not None
    assert (found.counted, found.limit) == (counted, limit)
    assert parse_overflow(500, text.encode()) is None
    assert parse_overflow(400, b"max_tokens: must be positive") is None
