"""Major compactions: when they come, what they leave, what the caller may say."""

from __future__ import annotations

import pytest

from danshari import Compactor, data
from danshari.errors import ArgumentError
from danshari.formats import find_format
from danshari.testing import Call, ScriptedSummarizer, Turn, conversation
from tests.support.material.summaries import CENT_FOUND, ask_summarizer, document_text, ledger_part, ledger_work


def test_thrash_is_noticed_and_said() -> None:
    """Refilled three times in a row right after compacting: no fourth one, and the ladder goes on below."""
    script = ScriptedSummarizer([CENT_FOUND])
    policy = data.load_policy("balanced").with_fields(
        handover_tail=0.0, commit_mode="trigger", commit_token_trigger=1_500, handover_above=0.0, handover_size=2_500
    )
    engine = Compactor(policy, model="gpt-5", window=40_000, summarizer=script)
    notes: list[str] = []
    majors = 0
    for rounds in range(6, 30):
        result = engine.compact(ledger_part(rounds))
        majors += result.handover is not None
        notes += result.notes
    assert majors < 9
    assert any("filled up again" in note for note in notes)


def test_nothing_is_swapped_for_less_than_it_frees() -> None:
    short = conversation("openai-chat", "Say hello.", [Turn(text="hello"), Turn(text="hello again"), Turn(text="bye")])
    result, _ = ask_summarizer(CENT_FOUND, messages=short)
    assert result.handover is None
    assert result.messages == short
    assert any("no major compaction" in note for note in result.notes)


def test_an_overflow_error_makes_one_compaction() -> None:
    engine = Compactor("balanced", model="gpt-5", window=60_000)
    source = ledger_work(60)
    assert engine.compact(source).handover is None
    engine.overflowed(70_000)
    result = engine.compact(source)
    assert result.after < 60_000
    assert result.edits
    assert engine.compact(source).edits == ()
    with pytest.raises(ArgumentError, match="positive"):
        engine.overflowed(0)


def test_cannot_fit_names_the_fixed_floor() -> None:
    engine = Compactor("balanced", model="gpt-5", window=8_000)
    result = engine.compact(
        ledger_work(3), tools=[{"name": f"tool_{n}", "description": "does something " * 20} for n in range(200)]
    )
    assert any("the fixed floor alone is" in note for note in result.notes)


def test_the_seed_leaves_system_and_one_summary_message() -> None:
    """A2: twenty messages and more become two."""
    script = ScriptedSummarizer(["The ledger loses a cent; src/ledger_3.py was read."])
    engine = Compactor("literal", model="gpt-5", summarizer=script)
    source = [*ledger_work(), {"role": "user", "content": "Go on, please."}]
    result = engine.compact(source, force="full")
    assert len(source) > 20
    assert len(result.messages) == 2
    assert result.messages[0] == source[0]
    assert "Fix src/ledger.py: it loses a cent." in result.messages[1]["content"]
    assert "Go on, please." in result.messages[1]["content"]


def test_the_seed_falls_back_to_the_newest_ten_messages() -> None:
    """A6: a failed summary leaves the newest messages, made valid, and the document of code before them."""
    engine = Compactor("literal", model="gpt-5", summarizer=ScriptedSummarizer([RuntimeError("down")]))
    source = ledger_work()
    result = engine.compact(source, force="full")
    assert find_format("openai-chat").check(result.messages) == []
    assert list(result.messages)[-10:] == source[-10:]
    assert result.layer == "fallback"


def test_up_to_here_focus_language_prompt_and_model() -> None:
    script = ScriptedSummarizer([CENT_FOUND])
    policy = data.load_policy("balanced").with_fields(
        handover_tail=0.0, summary_prompt="KEEP EVERY NUMBER.", summary_model="small", summary_effort="low"
    )
    engine = Compactor(policy, model="gpt-5", summarizer=script)
    source = ledger_work(14)
    result = engine.compact(source, force="full", until=12, focus="total_3")
    assert list(result.messages)[-len(source) + 12 :] == source[12:]
    request = script.requests[0]
    assert (request.model, request.effort) == ("small", "low")
    assert "KEEP EVERY NUMBER." in str(request.messages)
    assert "Focus: total_3" in str(request.messages)
    for wrong in (0, True, "3"):
        with pytest.raises(ArgumentError, match="until"):
            engine.compact(source, force="full", until=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="until"):
        engine.compact(source, until=4)
    chinese = Compactor(
        policy.with_fields(handover_language="zh"), model="gpt-5", summarizer=ScriptedSummarizer(["{}"])
    ).compact(source, force="full")
    assert (
        "## 用户原话" in document_text(chinese)
        or "## 文件" in document_text(chinese)
        or "## 关键行" in document_text(chinese)
    )


def test_live_state_is_given_by_the_host_each_time() -> None:
    live = {"AGENTS.md": "Never push to main."}
    engine = Compactor(
        data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5", reinject=lambda: live
    )
    assert "Never push to main." in document_text(engine.compact(ledger_part(8), force="full"))
    live["AGENTS.md"] = "Pushing is fine."
    text = document_text(engine.compact(ledger_part(14), force="full"))
    assert "Pushing is fine." in text
    assert "Never push" not in text


def test_protected_and_pinned_rounds_stay() -> None:
    skill = Turn(calls=(Call(name="Skill", arguments={"name": "deck"}, result="Step 1: draw\n" * 30),))
    body = [
        Turn(text=f"step {n}", calls=(Call(name="Read", arguments={"file_path": f"a{n}"}, result="line\n" * 200),))
        for n in range(8)
    ]
    source = conversation("openai-chat", "go", [body[0], skill, *body[1:]])
    engine = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5")
    result = engine.compact(source, force="full")
    assert source[4] in result.messages
    engine.pin("step 3")
    shown = engine.compact(source)
    assert any(m.get("content") == "step 3" for m in shown.messages)
    assert find_format("openai-chat").check(shown.messages) == []


def test_saved_and_loaded_the_document_goes_on() -> None:
    engine = Compactor(
        data.load_policy("balanced").with_fields(handover_tail=0.0),
        model="gpt-5",
        summarizer=ScriptedSummarizer([CENT_FOUND]),
    )
    engine.compact(ledger_part(8), force="full")
    other = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5")
    other.load(engine.save())
    again = other.compact(ledger_part(14), force="full")
    assert "loses a cent in src/ledger.py" in document_text(again)
    assert again.handover is not None
    assert again.handover.generation == 2


def test_an_open_call_is_no_history() -> None:
    source = ledger_work(pending=True)
    result = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5").compact(
        source, force="full"
    )
    assert result.messages[-1] == source[-1]
    assert result.handover is not None


def test_one_giant_message_and_no_user_and_only_a_hand_over() -> None:
    engine = Compactor("balanced", model="gpt-5", window=20_000)
    giant = engine.compact([{"role": "user", "content": "Fix it.\n" + "2026 log line\n" * 9_000}], force="full")
    assert giant.after < 5_000
    assert "Fix it." in giant.messages[0]["content"]
    lonely = Compactor("balanced", model="gpt-5").compact(ledger_work()[2:], force="full")
    assert lonely.ok
    once = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5").compact(
        ledger_work(), force="full"
    )
    only = Compactor("balanced", model="gpt-5").compact(list(once.messages)[:2], force="full")
    assert only.messages == list(once.messages)[:2]
