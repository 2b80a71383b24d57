"""Usage reports of every shape: the bill equals the sum made by hand, and the context's size is that of one call."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaUsage
from google.genai import types as gemini_types
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.responses import ResponseUsage

from danshari.formats import find_format
from danshari.formats.api import TokenUsage
from danshari.formats.usage import read_usage

CACHE = {"cache_creation": None, "server_tool_use": None, "service_tier": None}
REPORTS: dict[str, tuple[str, Any, TokenUsage]] = {
    "openai": ("openai-chat", {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
                               "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 5},
                               "completion_tokens_details": {"reasoning_tokens": 4}}, TokenUsage(100, 60, 0, 7)),
    "deepseek": ("openai-chat", {"prompt_tokens": 100, "completion_tokens": 7, "prompt_cache_hit_tokens": 60,
                                 "prompt_cache_miss_tokens": 40}, TokenUsage(100, 60, 0, 7)),
    "kimi": ("openai-chat", {"prompt_tokens": 100, "completion_tokens": 7, "cached_tokens": 60}, TokenUsage(100, 60, 0, 7)),
    "openrouter": ("openai-chat", {"prompt_tokens": 100, "completion_tokens": 7, "cost": 0.01,
                                   "prompt_tokens_details": {"cached_tokens": 60}}, TokenUsage(100, 60, 0, 7)),
    "responses": ("openai-responses", {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107,
                                       "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20},
                                       "output_tokens_details": {"reasoning_tokens": 4}}, TokenUsage(100, 60, 20, 7)),
    "anthropic": ("anthropic", {"input_tokens": 10, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30,
                                "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10},
                                "output_tokens": 7}, TokenUsage(100, 60, 30, 7)),
    "anthropic, a server's tools and compaction": (
        "anthropic",
        {"input_tokens": 30, "cache_read_input_tokens": 170, "cache_creation_input_tokens": 0, "output_tokens": 12,
         "iterations": [
             {"type": "message", "input_tokens": 10, "cache_read_input_tokens": 60, "output_tokens": 5},
             {"type": "compaction", "input_tokens": 40, "cache_read_input_tokens": 2, "output_tokens": 9},
             {"type": "message", "input_tokens": 20, "cache_read_input_tokens": 110, "output_tokens": 7}]},
        TokenUsage(242, 172, 0, 21, 130),
    ),
    "gemini": ("gemini", {"promptTokenCount": 90, "cachedContentTokenCount": 60, "candidatesTokenCount": 4,
                          "thoughtsTokenCount": 3, "toolUsePromptTokenCount": 10}, TokenUsage(100, 60, 0, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_a_bill_is_the_sum_made_by_hand(name: str) -> None:
    format_name, usage, bill = REPORTS[name]
    assert read_usage(usage, find_format(format_name).api) == bill
    assert read_usage(usage) == bill
    assert read_usage(usage).size == (bill.context or bill.total)


SDK_TYPES = {
    "openai": CompletionUsage,
    "responses": ResponseUsage,
    "gemini": gemini_types.GenerateContentResponseUsageMetadata,
}


@pytest.mark.parametrize("name", SDK_TYPES)
def test_the_sdks_own_objects_are_read_alike(name: str) -> None:
    _, usage, bill = REPORTS[name]
    assert read_usage(SDK_TYPES[name].model_validate(usage)) == bill


def test_the_anthropic_sdks_object_is_read_alike() -> None:
    for name in ("anthropic", "anthropic, a server's tools and compaction"):
        _, usage, bill = REPORTS[name]
        assert read_usage(BetaUsage.model_construct(**usage)) == bill


@given(st.dictionaries(st.sampled_from(["prompt_tokens", "input_tokens", "iterations", "cached_tokens", "x"]),
                       st.none() | st.integers(0, 99) | st.text(max_size=3) | st.lists(st.none(), max_size=2)))  # fmt: skip
def test_odd_reports_break_nothing(usage: dict[str, Any]) -> None:
    assert read_usage(usage).total >= 0
