"""Edited requests extend what was sent before; what the provider keeps is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danshari.formats import find_format
from danshari.proxy.body.body import read_body
from danshari.testing.fake_provider import UpstreamRequest
from tests.support.proxy import PATHS, Pair, body_of, make_pair, round_by_round, work
from tests.support.waiting import wait_until


@pytest.mark.parametrize("format_name", PATHS)
def test_requests_extend_each_other_except_at_committed_edits(pair: Pair, format_name: str) -> None:
    """One hundred rounds: what goes upstream is valid, smaller, and begins with what went before, byte for byte."""
    messages, wire, client = work(100, format_name), find_format(format_name), pair.client
    cuts = [n for n, m in enumerate(messages) if n and wire.begins_turn(m, messages[n - 1])]
    edits = []
    for cut in cuts:
        status, headers, said = client.post(PATHS[format_name], body_of(format_name, messages[:cut], max_tokens=100))
        assert status == 200, said
        edits.append(int(headers["x-danshari-edits"]))
    sent = [asked.raw for asked in pair.upstream.requests]
    assert not pair.upstream.bills[""].problems
    whole = len(json.dumps(body_of(format_name, messages[: cuts[-1]])))
    assert len(sent[-1]) < 0.6 * whole
    extended = 0
    for before, after, fresh in zip(sent, sent[1:], edits[1:], strict=False):
        old = json.loads(before)[wire.key]
        same = json.loads(after)[wire.key][: len(old)] == old
        assert same or fresh, "only a commit may change what was sent"
        body = read_body(before.decode(), wire.key)
        assert not same or after.startswith(before[: len(body.text[: body.places[-1][1]].encode())])
        extended += same
    assert extended > 80


def test_a_cache_mark_that_moves_does_not_move_the_session(pair: Pair) -> None:
    """Claude Code marks the last user message; once the mark is gone a lone text becomes a plain string."""
    messages, client = work(30, "anthropic"), pair.client
    names = set()
    for cut in range(1, len(messages), 2):
        sent = json.loads(json.dumps(messages[:cut]))
        first = sent[0]["content"][0]["text"]
        if cut > 1:
            sent[0]["content"] = first
        sent[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        status, headers, said = client.post("/v1/messages", body_of("anthropic", sent), x_claude_code_session_id="abc")
        assert status == 200, said
        names.add(headers["x-danshari-session"])
        last = json.loads(pair.upstream.requests[-1].raw)["messages"][-1]["content"][-1]
        assert last["cache_control"] == {"type": "ephemeral"}
    assert len(names) == 1
    assert pair.app.state.keepers.all_branches()[0].figures.edits > 10


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"previous_response_id": "resp_1"}, "the provider holds the history (previous_response_id)"),
        ({"conversation": "conv_1"}, "the provider holds the history (conversation)"),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 9}]},
            "the provider edits the context itself",
        ),
        ({"input": "only a text"}, "no list of messages"),
    ],
)
def test_what_the_provider_keeps_is_passed_through_and_said(pair: Pair, field: dict[str, Any], why: str) -> None:
    raw = json.dumps({**body_of("openai-responses", work(12, "openai-responses")), **field}).encode()
    _, headers, _ = pair.client.post("/v1/responses", raw)
    assert headers["x-danshari-untouched"].startswith(why)
    assert pair.upstream.requests[-1].raw == raw


def test_claude_codes_own_clearing_of_thinking_is_no_reason(pair: Pair) -> None:
    field = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
    _, headers, _ = pair.client.post("/v1/messages", {**body_of("anthropic", work(12, "anthropic")), **field})
    assert int(headers["x-danshari-edits"]) > 0


def test_switched_off_for_one_request(pair: Pair) -> None:
    raw = json.dumps(body_of("anthropic", work(12, "anthropic"))).encode()
    _, headers, _ = pair.client.post("/v1/messages", raw, x_danshari="off")
    assert headers["x-danshari-untouched"] == "switched off"
    assert pair.upstream.requests[-1].raw == raw
    assert "x-danshari" not in pair.upstream.requests[-1].headers


def test_what_was_written_is_not_kept_for_ever() -> None:
    for pair in make_pair():
        round_by_round(pair, "anthropic", work(30, "anthropic"))
        body = pair.app.state.keepers.all_branches()[0].body
        assert len(body.written) <= len(body.messages)
        wait_until(lambda: pair.metric("running") == 0)


def test_bound_thinking_brings_its_field_and_its_beta(tmp_path: Path) -> None:
    """Once an edit changed what thinking is bound to, every later request asks the provider to drop it."""
    policy = tmp_path / "hint.toml"
    policy.write_text('extends = "literal"\nthinking = "hint"\n')
    for pair in make_pair(policy=str(policy)):
        thinking = {"type": "enabled", "budget_tokens": 2048}
        messages, asked = work(14, "anthropic"), list[UpstreamRequest]()
        for cut in range(1, len(messages) + 1, 2):
            body = {**body_of("anthropic", messages[:cut], thinking=thinking), "model": "claude-fable-5-2"}
            pair.client.post("/v1/messages", body, anthropic_beta="own-beta-1")
            asked.append(pair.upstream.requests[-1])
        hinted = [a for a in asked if "block_binding" in a.body["thinking"]]
        assert hinted
        assert asked[-len(hinted) :] == hinted, "from the first such edit on, always"
        for request in asked:
            assert request.body["thinking"]["budget_tokens"] == 2048
            beta = "own-beta-1,thinking-binding-controls-2026-08-01" if request in hinted else "own-beta-1"
            assert request.headers["anthropic-beta"] == beta
