"""Undo, after loading too, and replace mode after a rewind."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from danshari import Compactor
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import LEDGER_LINES, bash
from tests.support.material.summaries import WITHOUT_TAIL, reads


def test_undo_gives_back_what_was_shown_before_the_batch() -> None:
    log = "\n".join(f"2026-03-01 INFO worker {n} took {n}ms" for n in range(300))
    turns = [Turn(calls=(bash(f"make {n}", log),)) for n in range(10)]
    engine = Compactor("balanced", model="gpt-5", window=6_000)
    sizes = [engine.compact(conversation("openai-chat", "go", turns[:n])).after for n in range(1, 11)]
    forced = engine.compact(conversation("openai-chat", "go", turns), force=True)
    assert forced.edits
    assert forced.after < sizes[-1]
    assert engine.undo().after == sizes[-1]


def test_undo_after_load_says_what_to_do() -> None:
    messages = conversation("openai-chat", "go", [Turn(calls=(bash(f"m {n}"),)) for n in range(10)])
    engine, again = Compactor("literal"), Compactor("literal")
    engine.compact(messages)
    again.load(engine.save())
    with pytest.raises(ValueError, match="call compact with the messages once"):
        again.undo()
    again.compact(messages)
    assert again.undo().messages == messages


def test_replace_mode_survives_moved_marks_and_a_rewind() -> None:
    turns = [Turn(calls=(Call(name="Read", arguments={"file_path": f"{n}"}, result=LEDGER_LINES),)) for n in range(10)]
    engine = Compactor("literal", mode="replace", format="anthropic")
    held = engine.compact(conversation("anthropic", "go", turns)).messages
    marked = json.loads(json.dumps(held))
    marked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    more = [
        *marked,
        {"role": "assistant", "content": [{"type": "text", "text": "."}]},
        {"role": "user", "content": "on"},
    ]
    engine.compact(more)
    assert engine.recall("line 149")[0].entry.text == LEDGER_LINES
    assert len(engine.undo().messages) == len(more)
    storing = Compactor("literal", mode="replace", format="anthropic")
    held = storing.compact(conversation("anthropic", "go", turns)).messages
    storing.compact(held[:-2])
    assert storing.facts is not None
    assert all(i.text == LEDGER_LINES for i in storing.facts.items if i.kind == "result")


def test_undo_after_dropped_rounds_drops_them_again() -> None:
    minor = replace(WITHOUT_TAIL, passes=("evict",))
    engine = Compactor(minor, model="gpt-5", window=9_000)
    source = reads(40)
    small = engine.compact(source[:80])
    assert any(e.by == "evict" for e in small.edits)
    engine.policy = WITHOUT_TAIL
    engine.compact(source[:80], force="full")
    assert engine.undo().after == small.after
