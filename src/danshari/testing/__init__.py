"""Helpers for testing agents, passes and formats: scripted conversations, models and providers, view checkers."""

from danshari.formats.script import Call, Turn
from danshari.testing.checkers import find_lost_words, view_differences
from danshari.testing.conversation import conversation
from danshari.testing.scripted import InvalidRequest, ScriptedModel, ScriptedSummarizer

__all__ = [
    "Call",
    "InvalidRequest",
    "ScriptedModel",
    "ScriptedSummarizer",
    "Turn",
    "conversation",
    "find_lost_words",
    "view_differences",
]
