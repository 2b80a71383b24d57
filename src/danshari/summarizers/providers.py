"""Summarizers of other providers, through any-llm (extra `models`)."""

from __future__ import annotations

from typing import Any

from danshari.core.summary import Reply, Request
from danshari.errors import ArgumentError, MissingExtra
from danshari.formats import find_format
from danshari.summarizers.base import Summarizer, as_reply


def provider(name: str, *, window: int = 0, **options: Any) -> Summarizer:
    """Return a summarizer for `provider:model`, such as `mistral:mistral-small-latest`.

    `options` are passed to any-llm's `completion` (`api_key`, `api_base`, …). Raises MissingExtra if any-llm
    is not installed, ArgumentError for a name without a provider.
    """
    house, mark, model = name.partition(":")
    if not mark or not house or not model:
        raise ArgumentError(f"summarizer {name!r}: must be provider:model, or a URL")
    try:
        import any_llm
    except ImportError:
        raise MissingExtra("any-llm-sdk", "models") from None

    def ask(request: Request) -> Reply:
        body = find_format("openai-chat").api.summary_body(request, model)
        return as_reply(any_llm.completion(provider=house, **body, **options))

    return Summarizer(function=ask, window=window, name=name)
