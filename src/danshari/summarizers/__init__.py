"""One door to language models: any callable, any compatible endpoint, and other providers through an extra."""

from danshari.summarizers.base import (
    Door,
    Summarizer,
    as_door,
    as_reply,
    called,
)
from danshari.summarizers.endpoint import endpoint
from danshari.summarizers.providers import provider

__all__ = ["Door", "Summarizer", "as_door", "as_reply", "called", "endpoint", "provider"]
