"""The seeds' numbers (micro_compact), to the letter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from danshari import Compactor, compact
from danshari.formats import FORMATS
from danshari.testing import Call, Turn, conversation


def ten_rounds(name: str, tool: str = "read_file", arguments: int = 20) -> list[Any]:
    turns = [
        Turn(calls=(Call(name=tool, arguments={"path": "x" * arguments}, result=f"{n}" * 2000),)) for n in range(10)
    ]
    return conversation(name, "Make the slides.", turns)


def result_texts(name: str, messages: list[Any]) -> list[str]:
    return [item.text for item in FORMATS[name].read(messages) if item.kind == "result"]


@pytest.mark.parametrize("name", list(FORMATS))
def test_ten_rounds_of_two_thousand(name: str) -> None:
    """10 rounds x 2,000 characters, keep 4: 20,000 → about 8,480 characters (M9)."""
    messages = ten_rounds(name)
    assert sum(map(len, result_texts(name, messages))) == 20_000
    after = result_texts(name, compact(messages, policy="literal", format=name).messages)
    assert abs(sum(map(len, after)) - 8480) <= 0.05 * 8480
    assert [len(text) == 2000 for text in after] == [False] * 6 + [True] * 4


@pytest.mark.parametrize("name", list(FORMATS))
def test_both_placeholders_are_json_with_the_same_fields(name: str) -> None:
    """M5, M6, M7: results and arguments become JSON with the seed's four fields."""
    messages = ten_rounds(name, "write_file", 3000)
    items = FORMATS[name].read(compact(messages, policy="literal", format=name).messages)
    short = [json.loads(i.text) for i in items if i.kind in ("call", "result") and len(i.text) < 200]
    assert len(short) == 12
    assert all(list(s) == ["compacted", "tool", "originalLength", "message"] for s in short)
    assert {s["tool"] for s in short} == {"write_file"}
    assert {s["originalLength"] for s in short} == {2000, 3012}


def test_names_are_found_through_the_call_id() -> None:
    """M4: chat completion results carry no tool name."""
    messages = ten_rounds("openai-chat")
    assert all("name" not in m for m in messages if m["role"] == "tool")
    first = compact(messages, policy="literal").messages[2]
    assert json.loads(first["content"])["tool"] == "read_file"


def test_skill_is_never_touched() -> None:
    """M8, and it holds for tools that a policy adds."""
    messages = ten_rounds("openai-chat", "Skill", 3000)
    assert compact(messages, policy="literal").messages == messages
    assert Compactor("balanced").compact(messages, force=True).messages == messages


def test_short_results_stay() -> None:
    """M5: 200 characters are the limit."""
    turns = [Turn(calls=(Call(name="read", arguments={}, result="y" * 200),)) for _ in range(10)]
    assert not compact(conversation("openai-chat", "go", turns), policy="literal").edits


def test_without_a_policy_nothing_happens() -> None:
    """M1: off leaves every message as the same object."""
    messages = ten_rounds("anthropic")
    result = Compactor("off").compact(messages)
    assert all(a is b for a, b in zip(result.messages, messages, strict=True))
    assert not result.changed
