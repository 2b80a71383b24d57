"""Models and summarizers that answer from a script, in the process of the test."""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.core.summary import Request
from danshari.formats import find_format
from danshari.formats.script import Turn


class InvalidRequest(ValueError):  # noqa: N818  (named after the provider's own error)
    """The error a provider would answer with status 400. The message names the broken rules."""


@dataclass(slots=True)
class ScriptedModel:
    """A model that answers from a script.

    It refuses what its provider would refuse, and reports usage with cached tokens (the messages equal to
    the last request's).
    """

    format_name: str
    turns: Sequence[Turn]
    family: str = "o200k"
    window: int = 200_000
    usages: list[dict[str, int]] = field(default_factory=list)
    _last: list[Any] = field(default_factory=list)

    def __call__(self, messages: Sequence[Any]) -> Turn:
        """Return the next scripted turn. Raises InvalidRequest for a broken rule or too long a prompt."""
        format = find_format(self.format_name)  # noqa: A001
        problems = format.check(messages)
        if problems:
            raise InvalidRequest("; ".join(map(str, problems)))
        count = data.load_estimator(self.family)
        sizes = [sum(count.estimate_item(p.kind, p.text, p.weight) for p in format.split(m)) for m in messages]
        if sum(sizes) > self.window:
            raise InvalidRequest(f"prompt is too long: {sum(sizes):.0f} tokens > {self.window}")
        same = 0
        for old, new in zip(self._last, messages, strict=False):
            if old != new:
                break
            same += 1
        self._last = copy.deepcopy(list(messages))
        cached = sum(sizes[:same])
        self.usages.append({"prompt_tokens": round(sum(sizes)), "cached": round(cached)})
        return self.turns[len(self.usages) - 1]


@dataclass(slots=True)
class ScriptedSummarizer:
    """A summarizer that answers from a script and keeps every request. The last answer repeats.

    An answer is a text, a `Reply`, an exception to raise, a number of seconds to hang, or a function of the
    request. `window` (tokens) makes it refuse longer requests, as a provider would.
    """

    answers: Sequence[Any] = ("",)
    window: int = 0
    family: str = "o200k"
    requests: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Any:
        """Answer one request."""
        self.requests.append(request)
        if self.window:
            wire, count = find_format(request.format), data.load_estimator(self.family)
            size = sum(count(piece.text) for message in request.messages for piece in wire.split(message))
            if size > self.window:
                raise InvalidRequest(f"context_length_exceeded: {size:.0f} tokens > {self.window}")
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, int | float):
            threading.Event().wait(answer)
            return ""
        return answer(request) if callable(answer) else answer
