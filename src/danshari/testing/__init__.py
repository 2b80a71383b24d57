"""Helpers for testing agents, passes and formats: scripted models, conversation builders, view checkers."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.compaction import Compaction
from danshari.core.edits import View
from danshari.core.items import Item
from danshari.core.summary import Request
from danshari.formats import find_format
from danshari.formats.base import Format
from danshari.handovers.user_words import PASTE_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call of a scripted turn, with the result it will get. Without a result it stays unanswered."""

    name: str
    arguments: dict[str, Any]
    result: str | None = "ok"
    failed: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A scripted assistant turn: text, thinking, calls, and what the user says after it."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    user: str = ""


def conversation(format_name: str, request: str, turns: Iterable[Turn], *, system: str = "") -> list[Any]:
    """Build messages in the named format from a system prompt, a first request and scripted turns."""
    builders: dict[str, type[_Builder]] = {
        "openai-chat": _Chat,
        "anthropic": _Anthropic,
        "openai-responses": _Responses,
    }
    builder = builders[format_name]()
    if system:
        builder.system(system)
    builder.user(request)
    for number, turn in enumerate(turns):
        calls = [
            c
            if c.id
            else Call(
                name=c.name, arguments=c.arguments, result=c.result, failed=c.failed, id=f"call_{number:04d}_{place}"
            )
            for place, c in enumerate(turn.calls)
        ]
        builder.turn(turn, calls)
        if turn.user:
            builder.user(turn.user)
    return builder.messages


class _Builder:
    """Base class that collects messages. Subclasses write one format."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def system(self, text: str) -> None:
        raise NotImplementedError

    def user(self, text: str) -> None:
        raise NotImplementedError

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        raise NotImplementedError


class _Chat(_Builder):
    """Builds OpenAI chat completion messages."""

    def system(self, text: str) -> None:
        self.messages.append({"role": "system", "content": text})

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Append the assistant message and one tool message per result."""
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None}
        if turn.thinking:
            message["reasoning_content"] = turn.thinking
        if calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
                for c in calls
            ]
        elif not turn.text:
            message["content"] = "…"
        self.messages.append(message)
        for c in calls:
            if c.result is not None:
                self.messages.append({"role": "tool", "tool_call_id": c.id, "content": c.result})


class _Anthropic(_Builder):
    """Builds Anthropic messages."""

    def system(self, text: str) -> None:
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def user(self, text: str) -> None:
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append({"type": "text", "text": text})
        else:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Append the assistant message and one user message with all results."""
        blocks: list[Any] = []
        if turn.thinking:
            blocks.append({"type": "thinking", "thinking": turn.thinking, "signature": f"sig{len(self.messages)}"})
        if turn.text or not calls:
            blocks.append({"type": "text", "text": turn.text or "…"})
        blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls]
        self.messages.append({"role": "assistant", "content": blocks})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": c.id,
                "content": c.result,
                **({"is_error": True} if c.failed else {}),
            }
            for c in calls
            if c.result is not None
        ]
        if results:
            self.messages.append({"role": "user", "content": results})


class _Responses(_Builder):
    """Builds OpenAI Responses items."""

    def system(self, text: str) -> None:
        self._message("developer", "input_text", text)

    def user(self, text: str) -> None:
        self._message("user", "input_text", text)

    def _message(self, role: str, kind: str, text: str) -> None:
        self.messages.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        """Append the items of the turn: reasoning, message, calls, then outputs."""
        if turn.thinking:
            self.messages.append(
                {
                    "type": "reasoning",
                    "id": f"rs_{len(self.messages)}",
                    "encrypted_content": "A" * 64,
                    "summary": [{"type": "summary_text", "text": turn.thinking}],
                }
            )
        if turn.text or not calls:
            self.messages.append({"type": "message", "role": "assistant", "content": turn.text or "…"})
        for c in calls:
            self.messages.append(
                {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": json.dumps(c.arguments)}
            )
        for c in calls:
            if c.result is not None:
                self.messages.append({"type": "function_call_output", "call_id": c.id, "output": c.result})


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


def view_differences(format: Format, payload: Any, shown: View) -> list[str]:  # noqa: A002
    """Return where a written payload differs from the view it was written from, empty if nowhere."""
    got = _join_user_texts([_item_content(i) for i in format.read(payload)])
    want = _join_user_texts([_item_content(i) for i in shown.conversation()])
    if got == want:
        return []
    at = next((n for n, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), min(len(got), len(want)))
    return [f"item {at} of {len(got)}/{len(want)}: got {got[at : at + 1]} want {want[at : at + 1]}"]


def _join_user_texts(contents: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Join neighbouring user texts, because a hand-over may become a paragraph of string content."""
    found: list[tuple[Any, ...]] = []
    for content in contents:
        if found and content[:2] == found[-1][:2] == ("user", "text"):
            found[-1] = (*content[:4], f"{found[-1][4]}\n\n{content[4]}", content[5])
        else:
            found.append(content)
    return found


def _item_content(item: Item) -> tuple[Any, ...]:
    text: Any = item.text
    if item.kind == "call":
        try:
            text = json.loads(item.text)
        except ValueError:
            text = item.text
    return item.role, item.kind, item.name, item.call, text, item.failed


def find_lost_words(source: Sequence[Any], result: Compaction, format: Format) -> list[str]:  # noqa: A002
    """List the texts of the user or the system that the view lacks or changed.

    A user's words may be quoted in a hand-over, line by line. Text that machines wrote under the user's role
    may go.
    """
    view = [i.text for i in format.read(result.messages) if i.kind == "text" and i.role in ("user", "system")]
    shown, lines = list(view), {line for text in view for line in text.split("\n")}
    markers, lost = data.load_markers(), []
    for item in format.read(source):
        if item.kind != "text" or item.role not in ("user", "system"):
            continue
        if item.text in shown:
            shown.remove(item.text)
        elif item.role == "system" or not _is_quoted(markers.human_text(item.text), lines):
            lost.append(f"{item.role} words lost: {item.text[:60]!r}")
    return lost


def _is_quoted(words: str, lines: set[str]) -> bool:
    """Return whether every line is in the view. Of a long paste, only the first line has to be."""
    wanted = words.split("\n") if len(words) <= PASTE_LIMIT else words[:200].split("\n")[:1]
    return all(line in lines or f"\\{line}" in lines or not line.strip() for line in wanted)
