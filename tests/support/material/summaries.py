"""Conversations to be summarised, scripted summaries, and the documents made of them."""

from __future__ import annotations

import json
from typing import Any

from danshari import Compactor, Summarizer, data
from danshari.compaction import Compaction
from danshari.core.handover_markdown import render_handover
from danshari.formats import find_format
from danshari.testing import Call, ScriptedSummarizer, Turn, conversation

CENT_FOUND = json.dumps(
    {
        "add": {
            "conclusions": ["The ledger loses a cent in src/ledger.py."],
            "next": ["Run pytest tests/test_ledger.py."],
        }
    }
)


def ledger_work(rounds: int = 14, *, format_name: str = "openai-chat", pending: bool = False) -> list[Any]:
    turns = [
        Turn(
            text=f"Looking at src/ledger_{n}.py.",
            calls=(
                Call(name="Read", arguments={"file_path": f"src/ledger_{n}.py"}, result=f"def total_{n}(): ...\n" * 60),
            ),
        )
        for n in range(rounds)
    ]
    turns.append(
        Turn(
            calls=(
                Call(
                    name="Bash",
                    arguments={"command": "pytest tests/test_ledger.py"},
                    result=None if pending else "1 passed",
                ),
            )
        )
    )
    return conversation(format_name, "Fix src/ledger.py: it loses a cent.", turns, system="Be brief.")


def ledger_part(rounds: int, of: int = 30) -> list[Any]:
    """The beginning of one and the same session."""
    return ledger_work(of)[: 2 + 2 * rounds]


def ask_summarizer(
    *answers: Any, window: int = 0, same: bool = False, messages: list[Any] | None = None, **knobs: Any
) -> tuple[Compaction, ScriptedSummarizer]:
    script = ScriptedSummarizer(answers or (CENT_FOUND,))
    policy = data.load_policy("balanced").with_fields(**{"handover_tail": 0.0, **knobs})
    engine = Compactor(policy, model="gpt-5", format="openai-chat", clock=lambda: 0.0,
                       summarizer=Summarizer(function=script, window=window, same_model=same))  # fmt: skip
    source = ledger_work() if messages is None else messages
    before = json.dumps(source)
    result = engine.compact(source, force="full")
    assert json.dumps(source) == before
    assert result.ok, result.fault
    assert find_format("openai-chat").check(result.messages) == []
    assert result.messages[0] == source[0]
    return result, script


def document_text(result: Compaction) -> str:
    assert result.handover is not None
    return render_handover(result.handover, data.load_phrases()[result.handover.language])


WITHOUT_TAIL = data.load_policy("balanced").with_fields(handover_tail=0.0)


READ_NOTE = json.dumps({"add": {"notes": ["a_5 was read."]}})


def reads(rounds: int, format_name: str = "openai-chat", request: str = "Read all.", thinking: str = "") -> list[Any]:
    turns = [
        Turn(
            text=f"step {n}", thinking=thinking,
            calls=(
                Call(name="Read", arguments={"path": f"a_{n}"}, result=f"def a_{n}(): ...\n" * 60),
                Call(name="Read", arguments={"path": f"b_{n}"}, result=f"def b_{n}(): ...\n" * 60),
            ),
        )
        for n in range(rounds)
    ]  # fmt: skip
    return conversation(format_name, request, turns)
