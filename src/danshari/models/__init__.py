"""One door to language models: any callable, any compatible endpoint, and other providers through an extra."""

from danshari.models.base import Door, Summarizer, as_door, as_reply, called
from danshari.models.endpoint import endpoint
from danshari.models.providers import provider

__all__ = ["Door", "Summarizer", "as_door", "as_reply", "called", "endpoint", "provider"]
