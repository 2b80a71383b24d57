"""Major compactions on top of others, beside pins, and under host hooks that fail."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from danshari import Compactor, Reply, data
from danshari.core.edits import Fold
from danshari.core.summary import Request
from danshari.errors import ArgumentError, PolicyError
from danshari.formats import find_format
from danshari.testing import ScriptedSummarizer
from tests.support.material.summaries import READ_NOTE, WITHOUT_TAIL, reads


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic", "openai-responses"])
def test_a_pinned_result_keeps_its_call(format_name: str) -> None:
    source = reads(12, format_name, thinking="hm")
    for pinned in (True, False):
        engine = Compactor(
            replace(WITHOUT_TAIL, pinned=("b_5()",) if pinned else ()), model="gpt-5", format=format_name
        )
        result = engine.compact(source, force="full")
        if not pinned:
            engine.pin("b_5()")
            result = engine.compact(source)
        assert find_format(format_name).check(result.messages) == []
        assert "def b_5()" in str(result.messages)
        assert result.after < result.before


def test_a_summarizer_is_not_paid_where_nothing_can_be_freed() -> None:
    script = ScriptedSummarizer([READ_NOTE])
    messages: list[Any] = [{"role": "user", "content": "start"}]
    engine = Compactor(
        WITHOUT_TAIL.with_fields(commit_mode="trigger", commit_token_trigger=800, handover_above=0.0),
        model="gpt-5",
        window=20_000,
        summarizer=script,
    )
    for n in range(8):
        messages += [
            {"role": "assistant", "content": f"ok {n}"},
            {"role": "user", "content": f"rule {n}: " + "never touch it " * 60},
        ]
        engine.compact(messages)
    assert script.requests == []


def test_hand_overs_never_overlap_whatever_the_policy() -> None:
    source = reads(40)
    engine = Compactor("literal", model="gpt-5", summarizer=ScriptedSummarizer(["a_1 was read."]))
    engine.compact(source[:40], force="full")
    for policy, end in (("balanced", 70), ("literal", 90), ("architecture", len(source))):
        engine.policy = data.load_policy(policy).with_fields(handover_tail=0.0)
        result = engine.compact(source[:end], force="full")
        assert engine.view().effects.void == []
        assert len(engine.view().effects.folds) == 1
        assert find_format("openai-chat").check(result.messages) == []
    inside = Compactor(WITHOUT_TAIL, model="gpt-5")
    inside.compact(source, force="full")
    again = inside.compact(source, force="full", until=20)
    assert not any(isinstance(e, Fold) for e in again.edits)


def test_host_hooks_and_settings_that_are_wrong_do_no_harm() -> None:
    def broken() -> dict[str, str]:
        raise RuntimeError("no plan")

    source = reads(12)
    for hook in (broken, lambda: None, lambda: {"plan": None}, lambda: {"plan": 5}):
        result = Compactor(WITHOUT_TAIL, model="gpt-5", reinject=hook).compact(source, force="full")  # type: ignore[arg-type]
        assert result.ok, result.fault
        assert result.handover is not None
    with pytest.raises(PolicyError, match="klingon"):
        Compactor(WITHOUT_TAIL.with_fields(handover_language="klingon"))
    for reply in (Reply(text=None), Reply(text=b"x"), Reply(text="x", read=float("nan"))):  # type: ignore[arg-type]
        result = Compactor(WITHOUT_TAIL, model="gpt-5", summarizer=ScriptedSummarizer([reply])).compact(
            source, force="full"
        )
        assert result.layer == "fallback"

    def leaves(request: Request) -> str:
        raise SystemExit(3)

    result = Compactor(WITHOUT_TAIL, model="gpt-5", summarizer=leaves).compact(source, force="full")
    assert any("SystemExit" in r.why for r in result.rungs)
    with pytest.raises(ArgumentError, match="force"):
        Compactor(WITHOUT_TAIL).preview(source, force="bogus")  # type: ignore[arg-type]


def test_in_replace_mode_until_counts_the_callers_messages() -> None:
    source = reads(30)
    engine = Compactor(WITHOUT_TAIL, model="gpt-5", mode="replace")
    held = list(engine.compact(source[:30], force="full").messages)
    held += source[30:]
    keep = len(held) - 10
    result = engine.compact(held, force="full", until=keep)
    assert any(isinstance(e, Fold) for e in result.edits)
    assert list(result.messages)[-10:] == source[-10:]


def test_a_document_that_is_no_longer_kept_is_read_back() -> None:
    engine = Compactor(
        WITHOUT_TAIL,
        model="gpt-5",
        summarizer=ScriptedSummarizer([json.dumps({"add": {"goal": ["Read a_5 first."]}}), "{}"]),
    )
    source = reads(30)
    engine.compact(source[:30], force="full")
    saved = json.loads(engine.save())
    assert saved["session"].pop("handovers")
    later = Compactor(WITHOUT_TAIL, model="gpt-5", summarizer=ScriptedSummarizer(["{}"]))
    later.load(json.dumps({**saved, "session": {**saved["session"], "handovers": []}}))
    found = later.compact(source, force="full").handover
    assert found is not None
    assert [p.text for p in found["goal"]] == ["Read a_5 first."]
