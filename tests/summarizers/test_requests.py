"""What a summarizer is sent, and what is accepted as one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from danshari import Compactor, Summarizer
from danshari.core.summary import Request
from danshari.errors import ArgumentError, ModelError
from danshari.formats import find_format
from danshari.summarizers import call_summarizer
from danshari.testing import InvalidRequest, ScriptedSummarizer
from tests.support.material.summaries import CENT_FOUND, READ_NOTE, WITHOUT_TAIL, reads
from tests.support.waiting import HeldSummarizer


def test_what_is_sent_to_a_summarizer_is_a_copy() -> None:
    def answer(request: Request) -> str:
        for message in request.messages:
            message["content"] = "changed"
        return READ_NOTE

    source = reads(12)
    before = json.dumps(source)
    result = Compactor(WITHOUT_TAIL, model="gpt-5", summarizer=Summarizer(function=answer, same_model=True)).compact(
        source, force="full"
    )
    assert json.dumps(source) == before
    assert "changed" not in str(result.messages[0])


def test_braces_of_a_users_prompt_are_its_own(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/handover.en.md").write_text(
        'Answer {"add": {}} about {request} in {language}.', encoding="utf-8"
    )
    monkeypatch.setenv("DANSHARI_HOME", str(tmp_path))
    script = ScriptedSummarizer([READ_NOTE])
    Compactor(WITHOUT_TAIL, model="gpt-5", summarizer=script).compact(
        reads(12, request="Mind the {braces}."), force="full"
    )
    assert 'Answer {"add": {}} about Mind the {braces}. in English.' in str(script.requests[0].messages[0]["content"])


def test_warm_requests_carry_hints_and_their_own_limit() -> None:
    request = Request(
        format="openai-chat",
        messages=[],
        warm=True,
        model="gpt-5",
        most=900,
        body={"max_completion_tokens": 32_000, "seed": 1},
    )
    assert find_format("openai-chat").api.summary_body(request, "m") == {
        "model": "gpt-5",
        "messages": [],
        "max_completion_tokens": 900,
        "seed": 1,
    }
    thinking = {"type": "enabled", "budget_tokens": 8_000}
    kept = find_format("anthropic").api.summary_body(
        Request(
            format="anthropic", messages=[], warm=True, most=900, body={"max_tokens": 16_000, "thinking": thinking}
        ),
        "m",
    )
    assert kept["max_tokens"] == 16_000
    script = ScriptedSummarizer([READ_NOTE])
    engine = Compactor(
        replace(WITHOUT_TAIL, thinking="hint"),
        model="claude-opus-5-5",
        format="anthropic",
        summarizer=Summarizer(function=script, same_model=True),
    )
    source = reads(20, "anthropic", thinking="hm")
    first = engine.compact(source[:20], force="full")
    assert first.hints
    engine.compact(source, force="full")
    assert script.requests[-1].body.get("betas") == first.hints["betas"]


def test_an_efforts_spelling_and_a_flat_body() -> None:
    request = Request(
        format="anthropic", messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}]}], effort="low"
    )
    assert find_format("openai-chat").api.summary_body(request, "m") == {
        "model": "m", "max_tokens": 4_000, "messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "low",
    }  # fmt: skip
    assert find_format("openai-responses").api.summary_body(request, "m")["reasoning"] == {"effort": "low"}


def test_a_time_limit_holds_even_for_a_door_that_never_answers() -> None:
    answer = HeldSummarizer()
    request = Request(format="openai-chat", messages=[])
    with pytest.raises(ModelError, match="no answer within"):
        call_summarizer(Summarizer(function=answer), request, seconds=0.2)
    assert not answer.answered.is_set()
    answer.released.set()


def test_a_summarizer_must_be_callable_and_a_scripted_one_refuses_overflow() -> None:
    with pytest.raises(ArgumentError, match="summarizer"):
        Compactor("balanced", summarizer=7)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="context_length"):
        ScriptedSummarizer([CENT_FOUND], window=10)(
            Request(format="openai-chat", messages=[{"role": "user", "content": "word " * 99}])
        )
