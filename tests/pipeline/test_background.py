"""Summaries on the event loop, cancelled ones, and those written in the background."""

from __future__ import annotations

import asyncio

import pytest

from danshari import Compactor, data
from danshari.compaction import Compaction
from danshari.core.edits import Fold
from danshari.core.policy import Policy
from danshari.core.summary import Request
from danshari.testing import ScriptedSummarizer, Turn, conversation
from tests.support.material.summaries import (
    CENT_FOUND,
    READ_NOTE,
    WITHOUT_TAIL,
    document_text,
    ledger_part,
    ledger_work,
    reads,
)
from tests.support.waiting import PATIENCE, HeldSummarizer


def test_an_async_summarizer_runs_on_the_callers_loop() -> None:
    loops = []

    async def answer(request: Request) -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return CENT_FOUND

    policy = data.load_policy("balanced").with_fields(handover_tail=0.0)

    async def main() -> Compaction:
        mine = asyncio.get_running_loop()
        result = await Compactor(policy, model="gpt-5", summarizer=answer).acompact(ledger_work(), force="full")
        assert loops == [mine]
        return result

    assert document_text(asyncio.run(main())) == document_text(
        Compactor(policy, model="gpt-5", summarizer=answer).compact(ledger_work(), force="full")
    )


def test_cancelling_gives_the_summary_up_and_loses_nothing() -> None:
    policy = data.load_policy("balanced").with_fields(handover_tail=0.0)
    answer = HeldSummarizer()
    engine = Compactor(policy, model="gpt-5", summarizer=answer)

    async def main() -> None:
        task = asyncio.create_task(engine.acompact(ledger_work(), force="full"))
        await asyncio.to_thread(answer.asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not answer.answered.is_set()
    answer.released.set()
    assert engine.session.ledger == ()
    assert engine.compact(ledger_work()).ok


def in_background(**knobs: float) -> Policy:
    fixed = data.load_policy("balanced")
    fixed = fixed.with_fields(handover_tail=0.0, summary_background=True, commit_mode="trigger", passes=("summarize",))
    return fixed.with_fields(**knobs)


def test_in_the_background_only_what_was_sent_is_swapped() -> None:
    script = ScriptedSummarizer([CENT_FOUND])
    policy = in_background(commit_evaluate=0.05)
    engine = Compactor(policy, model="gpt-5", window=60_000, summarizer=script)
    first = engine.compact(ledger_part(20))
    assert first.handover is None
    assert engine.pending is not None
    engine.pending.thread.join(PATIENCE)
    result = engine.compact(ledger_part(24))
    assert result.handover is not None
    fold = next(e for e in result.edits if isinstance(e, Fold))
    shown = str(result.messages)
    assert "loses a cent in src/ledger.py" in fold.text
    assert all(f"src/ledger_{n}.py" in shown for n in range(20, 24))
    assert "def total_22" in shown, "what came after the request stays verbatim"


def test_at_the_hard_line_a_background_summary_is_waited_for_or_given_up() -> None:
    policy = in_background(commit_evaluate=0.02, summary_seconds=0.3)
    answer = HeldSummarizer()
    engine = Compactor(policy, model="gpt-5", window=12_000, summarizer=answer)
    assert engine.compact(ledger_part(4)).handover is None
    result = engine.compact(ledger_part(30))
    assert result.handover is not None
    assert result.layer == "fallback"
    assert result.after < 12_000
    assert not answer.answered.is_set()
    answer.released.set()


def test_a_rewound_conversation_voids_a_background_summary() -> None:
    policy = in_background(commit_evaluate=0.05)
    engine = Compactor(policy, model="gpt-5", window=60_000, summarizer=ScriptedSummarizer([CENT_FOUND]))
    engine.compact(ledger_work(20))
    assert engine.pending is not None
    engine.pending.thread.join(PATIENCE)
    other = conversation("openai-chat", "Another task.", [Turn(text="ok")])
    result = engine.compact(other)
    assert result.messages == other
    assert any("no longer the one" in note for note in result.notes)


def test_cancelling_one_call_leaves_the_next_alone() -> None:
    answer = HeldSummarizer()
    script = ScriptedSummarizer([answer, READ_NOTE])
    engine = Compactor(WITHOUT_TAIL.with_fields(summary_tries=1), model="gpt-5", summarizer=script)

    async def main() -> None:
        task = asyncio.create_task(engine.acompact(reads(12), force="full"))
        await asyncio.to_thread(answer.asked.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())  # it ends when the thread of the call has ended
    assert not answer.answered.is_set(), "the call did not wait for the answer"
    answer.released.set()
    assert engine.session.ledger == (), "what was given up commits nothing"
    again = engine.compact(reads(12), force="full")
    assert (again.layer, again.fault) == ("major", "")


def test_usage_reported_while_a_summarizer_works_holds_nothing_up() -> None:
    """The answer comes after the report: were the report to wait for it, the summary would meet its time limit."""
    asked, released = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> str:
        asked.set()
        await released.wait()
        return READ_NOTE

    engine = Compactor(WITHOUT_TAIL, model="gpt-5", summarizer=answer)

    async def main() -> str:
        task = asyncio.create_task(engine.acompact(reads(12), force="full"))
        await asked.wait()
        engine.observe(9_000)
        released.set()
        return (await task).layer

    assert asyncio.run(main()) == "major"
    engine.compact(reads(12))
    assert engine.session.calibration.reported == 9_000
