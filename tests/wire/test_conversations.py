"""Conversations made from the SDKs' own types stay valid, whole and stable; what is lost today is listed."""

from __future__ import annotations

import random

import pytest
from danshari_bench.conversations import responses
from danshari_bench.conversations.reflect import Maker
from danshari_bench.conversations.run import GENERATORS, run_conversation

COUNT = 60
LOST_TODAY = {
    "Content.text",
    "FunctionCallOutput.id",
    "FunctionCallOutput.name",
    "FunctionCallOutput.namespace",
    "ResponseCustomToolCallOutputParam.id",
    "ResponseCustomToolCallParam.id",
    "ResponseCustomToolCallParam.namespace",
    "ResponseFunctionToolCallParam.id",
    "ResponseFunctionToolCallParam.namespace",
    "ResponseReasoningItemParam.encrypted_content",
}
"""Open: fields of the SDK that neither a request nor the archive holds once their item was removed."""


@pytest.mark.parametrize("wire", list(GENERATORS))
def test_what_holds_today(wire: str) -> None:
    for seed in range(COUNT):
        outcome = run_conversation((seed, wire))
        for fault in outcome.faults:
            known = fault.what in LOST_TODAY or fault.what.endswith(".x_unknown")
            assert fault.kind == "lost" and known, (seed, outcome.policy, outcome.mode, fault)


def test_every_item_of_the_sdk_occurs() -> None:
    seen = set()
    for seed in range(150):
        for step in responses.make_conversation(Maker(random.Random(seed))):
            seen |= {item.get("type") for item in step}
    assert set(responses.item_types()) <= seen


def test_the_referee_accepts_what_was_made_and_finds_a_missing_item() -> None:
    found = set()
    for seed in range(60):
        steps = responses.make_conversation(Maker(random.Random(seed)))
        given = [item for step in steps for item in step]
        assert responses.judge(given, given) == []
        paired = (*responses.ANSWERS, *responses.CALL_OF)
        for at, item in [(at, item) for at, item in enumerate(given) if item.get("type") in paired]:
            found.add(item["type"])
            assert responses.judge(given, given[:at] + given[at + 1 :]), (seed, at, item["type"])
    assert found == {*responses.ANSWERS, *responses.CALL_OF}
