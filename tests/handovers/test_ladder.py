"""The rungs of the ladder, driven by the scripted summarizer."""

from __future__ import annotations

import json

from danshari import Compactor, Reply, Summarizer, data
from danshari.formats import find_format
from danshari.testing import ScriptedSummarizer
from tests.support.material.summaries import CENT_FOUND, ask_summarizer, document_text, ledger_part, ledger_work


def test_a_delta_patches_named_fields() -> None:
    result, script = ask_summarizer(CENT_FOUND)
    assert "loses a cent in src/ledger.py" in document_text(result)
    assert [r.name for r in result.rungs] == ["flat"]
    assert result.layer == "major"
    assert len(script.requests) == 1
    prompt = str(script.requests[0].messages)
    assert "untrusted" in prompt
    assert "Fix src/ledger.py: it loses a cent." in prompt
    assert "def total_3(): ..." in prompt, "originals go uncut"


def test_a_second_delta_may_take_points_back() -> None:
    script = ScriptedSummarizer([CENT_FOUND, json.dumps({"drop": ["The ledger loses a cent in src/ledger.py."]})])
    engine = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5", summarizer=script)
    assert "loses a cent in src" in document_text(engine.compact(ledger_part(8), force="full"))
    again = engine.compact(ledger_part(14), force="full")
    assert "loses a cent in src" not in document_text(again)
    assert again.handover is not None
    assert again.handover.generation == 2


def test_prose_becomes_notes_and_the_newer_replaces_them() -> None:
    script = ScriptedSummarizer(["STATE one: ledger read.", "STATE two: ledger mended."])
    engine = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5", summarizer=script)
    assert "STATE one" in document_text(engine.compact(ledger_part(8), force="full"))
    text = document_text(engine.compact(ledger_part(14), force="full"))
    assert "STATE two" in text
    assert "STATE one" not in text


def test_a_warm_request_extends_the_main_request_byte_for_byte() -> None:
    """Law: up to the instruction the summary request is the request that would be sent, system and tools the same."""
    for name in ("openai-chat", "anthropic", "openai-responses"):
        script = ScriptedSummarizer([CENT_FOUND])
        tools = [{"name": "Read"}]
        engine = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5", format=name,
                           summarizer=Summarizer(function=script, same_model=True))  # fmt: skip
        source = ledger_work(format_name=name)
        key = "input" if name == "openai-responses" else "messages"
        main = engine.preview({key: source, "tools": tools, "temperature": 0}).messages
        engine.compact({key: source, "tools": tools, "temperature": 0}, force="full")
        request = script.requests[0]
        assert request.warm
        assert json.dumps(request.messages[:-1]) == json.dumps(main[key])
        assert (request.tools, request.body) == (tools, {"tools": tools, "temperature": 0})
        assert find_format(name).check(request.messages) == []


def test_warm_falls_to_flat_and_flat_to_code() -> None:
    result, script = ask_summarizer(Reply(calls=1), CENT_FOUND, same=True)
    assert [(r.name, r.ok) for r in result.rungs] == [("warm", False), ("flat", True)]
    assert [r.warm for r in script.requests] == [True, False]
    result, script = ask_summarizer("", same=True)
    assert [(r.name, r.ok) for r in result.rungs] == [("warm", False), ("flat", False), ("code", True)]
    assert result.layer == "fallback"
    assert "src/ledger_3.py" in document_text(result)


def test_a_retry_says_what_was_wrong() -> None:
    _, script = ask_summarizer("", CENT_FOUND)
    assert "could not be used: empty" in str(script.requests[1].messages)


def test_the_margin_keeps_a_full_window_from_being_asked() -> None:
    """S12: less free space than 1.5 times what a call needs: no warm request."""
    source = ledger_work(14)
    engine = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0, commit_reserve=0.0), model="gpt-5", window=6_500,
                       summarizer=Summarizer(function=(script := ScriptedSummarizer([CENT_FOUND])), same_model=True))  # fmt: skip
    result = engine.compact(source, force="full")
    assert any(r.name == "margin" and "free" in r.why for r in result.rungs)
    assert not any(r.warm for r in script.requests)


def test_a_long_history_goes_in_pieces_each_with_the_document_so_far() -> None:
    delta = [json.dumps({"add": {"conclusions": [f"src/ledger_{n}.py is read."]}}) for n in range(9)]
    result, script = ask_summarizer(*delta, window=9_000, summary_chunks=9)
    parts = [r.name for r in result.rungs]
    assert len(parts) > 1
    assert parts[0].startswith("flat 1/")
    assert "src/ledger_0.py is read." in str(script.requests[1].messages)
    assert "src/ledger_1.py is read." in document_text(result)
    refused = Compactor(data.load_policy("balanced").with_fields(handover_tail=0.0), model="gpt-5",
                        summarizer=Summarizer(function=ScriptedSummarizer([CENT_FOUND], window=900), window=100_000))  # fmt: skip
    assert refused.compact(ledger_work(), force="full").layer == "fallback"


def test_the_breaker_opens_at_three_and_a_user_may_close_it() -> None:
    script = ScriptedSummarizer([RuntimeError("down")])
    policy = data.load_policy("balanced").with_fields(
        handover_tail=0.0, summary_tries=1, commit_evaluate=0.1, handover_above=0.0, commit_mode="trigger"
    )
    engine = Compactor(policy, model="gpt-5", window=20_000, summarizer=script)
    names = []
    for rounds in range(4, 80, 8):
        result = engine.compact(ledger_part(rounds, 100))
        names += [[r.name for r in result.rungs]] if result.rungs else []
    assert len(script.requests) == 3
    assert ["breaker", "code"] in names
    engine.compact(ledger_part(90, 100), force="full")
    assert len(script.requests) == 4
