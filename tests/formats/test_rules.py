"""Payloads that providers accept, whatever odd parts they hold."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor, compact, data
from danshari.core.items import ItemBuilder, Piece
from danshari.formats import FORMATS
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import LEDGER_LINES, bash


def test_marks_stay_within_four() -> None:
    turns = [Turn(text="word " * 200, calls=(bash("make", "ok " * 300),)) for _ in range(12)]
    messages = conversation("anthropic", "go", turns)
    for at in (0, 6, 12, 18):
        messages[at]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    messages[6]["content"].append({"type": "text", "text": "and this"})
    minor = replace(data.load_policy("balanced"), passes=("admit", "superseded", "elide", "evict"))
    for policy, by in ((minor, "evict"), ("balanced", "summarize")):
        result = Compactor(policy, window=5000, format="anthropic").compact(messages, force=True)
        assert any(e.by == by for e in result.edits)
        assert FORMATS["anthropic"].check(result.messages) == []


def test_reasoning_that_is_no_string_moves_no_patch() -> None:
    messages = conversation("openai-chat", "go", [
        Turn(text="hello", calls=(Call(name="Write", arguments={"file_path": "a", "content": LEDGER_LINES}, result="ok"),)),
        *[Turn(calls=(bash("true", "ok"),)) for _ in range(6)],
    ])  # fmt: skip
    messages[1]["reasoning_content"] = [{"t": 1}]
    shown = compact(messages, policy="repair").messages[1]
    assert shown["content"] == "hello"
    assert "compacted" in json.loads(shown["tool_calls"][0]["function"]["arguments"])["content"]


def tool_piece(number: int, kind: str) -> Piece:
    """A result, or an image of a tool that says its number."""
    raw = {"type": "image", "source": {"type": "url", "url": f"https://host/image-{number}"}}
    if kind == "media":
        return Piece(kind="media", role="tool", text="", call="c", raw=raw, body=str(number))
    return Piece(kind="result", role="tool", text=f"result {number}", call="c")


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
@given(kinds=st.lists(st.sampled_from(["media", "result"]), max_size=5))
def test_media_of_tools_are_built_or_named_as_lost(name: str, kinds: list[str]) -> None:
    """An image may come with no result before it, where the result was dropped or lies in an earlier part."""
    chain, lost = ItemBuilder(), list[str]()
    chain.begin_turn()
    chain.extend(0, [tool_piece(number, kind) for number, kind in enumerate(kinds)])
    messages = FORMATS[name].build(chain.items, lost)
    built = json.dumps(messages)
    assert not any(problem.rule == "order" for problem in FORMATS[name].check(messages))
    carried = sum(f"image-{number}" in built for number in range(len(kinds)))
    assert carried + sum("tool media" in line for line in lost) == kinds.count("media")
