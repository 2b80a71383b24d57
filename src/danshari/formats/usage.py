"""Reported token usage in every provider's spelling, and an estimate of a request's fixed parts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from danshari.core.tokens import Estimator
from danshari.errors import ArgumentError


def input_tokens(usage: Any) -> float:
    """Return all input tokens of a request, cached ones included, or 0 if nothing was reported.

    Anthropic reports cached tokens beside `input_tokens`. OpenAI's `prompt_tokens` and the Responses API's
    `input_tokens` include them. Raises ArgumentError if `usage` is no number, usage object or dict.
    """
    if isinstance(usage, bool):
        raise ArgumentError("usage must be a number of tokens, a usage object or its dict")
    if isinstance(usage, int | float):
        return float(usage)
    if hasattr(usage, "model_dump"):
        usage = usage.model_dump()
    if usage is None:
        return 0.0
    if not isinstance(usage, Mapping):
        raise ArgumentError(f"usage must be a number of tokens, a usage object or its dict, not {type(usage).__name__}")
    total = _read_number(usage, "prompt_tokens") or _read_number(usage, "input_tokens")
    return total + _read_number(usage, "cache_read_input_tokens") + _read_number(usage, "cache_creation_input_tokens")


def cache_read_tokens(usage: Mapping[str, Any]) -> float:
    """Return the input tokens that were read from the provider's cache."""
    if "cache_read_input_tokens" in usage:
        return _read_number(usage, "cache_read_input_tokens")
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return _read_number(details, "cached_tokens") if isinstance(details, Mapping) else 0.0


def _read_number(usage: Mapping[str, Any], key: str) -> float:
    value = usage.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def estimate_floor(tools: Any, system: Any, count: Estimator) -> float:
    """Estimate the tokens of what comes before the messages: tool schemas and the system prompt."""
    texts = [v if isinstance(v, str) else json.dumps(v, default=str) for v in (tools, system) if v]
    return sum(count(text) for text in texts)
