"""Decisions that depend on the model: cold caches and bound thinking."""

from __future__ import annotations

from dataclasses import replace

from danshari import Compactor, compact, data
from danshari.testing import Turn, conversation
from tests.support.material.ledger import bash


def test_a_model_switch_is_a_cold_cache_and_a_request_brings_its_floor() -> None:
    turns = [Turn(calls=(bash(f"make {n}"),)) for n in range(9)]
    messages = conversation("openai-chat", "go", turns)
    engine = Compactor("balanced", model="gpt-5")
    engine.compact(messages)
    engine.set_model("gpt-5-mini")
    assert engine.compact(messages).trigger in ("cold cache", "")
    whole = {"model": "gpt-5", "messages": messages, "tools": [{"description": "word " * 3000}]}
    assert Compactor(model="gpt-5").compact(whole).after > Compactor(model="gpt-5").compact(messages).after + 2500
    plain = compact({"input": "hello"})
    assert plain.messages == {"input": "hello"}
    assert "nothing to compact" in plain.notes[0]


def test_keep_means_no_edit_of_sent_history() -> None:

    keep = replace(data.load_policy("balanced"), thinking="keep")
    turns = [Turn(thinking="hm", calls=(bash(f"make {n}"),)) for n in range(12)]
    result = Compactor(keep, model="claude-opus-5-5", window=6000).compact(conversation("anthropic", "go", turns))
    assert not [e for e in result.edits if e.by != "admit"]


def test_stripping_reaches_the_newest_turn_once_its_loop_is_closed() -> None:
    turns = [Turn(thinking=f"t{n}", calls=(bash(f"make {n}"),)) for n in range(12)]
    messages = conversation("anthropic", "go", [*turns, Turn(thinking="last", text="Done.", user="Thanks, go on.")])
    engine = Compactor("balanced", model="claude-opus-5-5", window=6_000, clock=lambda: 0.0)
    result = engine.compact(messages, force=True)
    assert {e.by for e in result.edits} == {"summarize", "binding"}
    assert messages[-2]["content"][0]["type"] == "thinking"
    assert result.messages[-2]["content"] == messages[-2]["content"][1:]
    assert result.hints == {}
    undone = engine.undo()
    assert len(undone.messages) == len(messages)
    assert undone.messages[-2]["content"] == messages[-2]["content"][1:], "its prefix changed, and changed again"
