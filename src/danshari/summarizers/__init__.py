"""Summarizers: any callable, any OpenAI- or Anthropic-compatible endpoint, other providers by an extra."""

from danshari.summarizers.base import (
    Summarizer,
    SummarizerFunction,
    as_reply,
    as_summarizer,
    call_summarizer,
)
from danshari.summarizers.endpoint import endpoint
from danshari.summarizers.providers import provider

__all__ = ["Summarizer", "SummarizerFunction", "as_reply", "as_summarizer", "call_summarizer", "endpoint", "provider"]
