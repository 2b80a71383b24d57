"""One door to language models: any callable, any compatible endpoint, and other providers through an extra."""

from danshari.models.base import Door, Summarizer, as_door, as_reply, called

__all__ = ["Door", "Summarizer", "as_door", "as_reply", "called"]
