"""Whole rounds are dropped when nothing else helps."""

from __future__ import annotations

from dataclasses import replace

from danshari import Compactor, data
from danshari.testing import Call, Turn, conversation


def test_eviction_drops_whole_rounds_oldest_first_and_says_when_nothing_helps() -> None:
    turns = [
        Turn(text="word " * 300, calls=(Call(name="Bash", arguments={"command": "true"}, result="ok"),))
        for _ in range(20)
    ]
    messages = conversation("openai-chat", "Fix it.", turns)
    minor = replace(data.load_policy("balanced"), passes=("admit", "superseded", "elide", "evict"))
    result = Compactor(minor, window=4000).compact(messages)
    assert result.after <= 4000
    assert {e.by for e in result.edits} == {"evict"}
    assert result.messages[0] == messages[0]
    assert result.messages[-2:] == messages[-2:]
    stuck = Compactor(minor, window=4000).compact([{"role": "user", "content": "word " * 1500} for _ in range(6)])
    assert any("cannot fit" in note for note in stuck.notes)
    assert stuck.messages == [{"role": "user", "content": "word " * 1500}] * 6
