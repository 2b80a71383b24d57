"""For people who test agents, passes or formats: a scripted model, conversation builders, law checkers."""

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
from danshari.formats import named
from danshari.formats.base import Format
from danshari.handovers.user_words import PASTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of a scripted turn, with the result it will get; `result` None leaves it running."""

    name: str
    arguments: dict[str, Any]
    result: str | None = "ok"
    failed: bool = False
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One scripted assistant turn: text, thinking, calls, and what the user says after it."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    user: str = ""


def conversation(format_name: str, request: str, turns: Iterable[Turn], *, system: str = "") -> list[Any]:
    """Build messages in the named format from a first request and scripted turns."""
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
    def __init__(self) -> None:
        self.messages: list[Any] = []

    def system(self, text: str) -> None:
        raise NotImplementedError

    def user(self, text: str) -> None:
        raise NotImplementedError

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
        raise NotImplementedError


class _Chat(_Builder):
    def system(self, text: str) -> None:
        self.messages.append({"role": "system", "content": text})

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
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
    def system(self, text: str) -> None:
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def user(self, text: str) -> None:
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages[-1]["content"].append({"type": "text", "text": text})
        else:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
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
    def system(self, text: str) -> None:
        self._message("developer", "input_text", text)

    def user(self, text: str) -> None:
        self._message("user", "input_text", text)

    def _message(self, role: str, kind: str, text: str) -> None:
        self.messages.append({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})

    def turn(self, turn: Turn, calls: Sequence[Call]) -> None:
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
    """What a provider would answer with status 400; the message names the broken rules."""


@dataclass(slots=True)
class ScriptedModel:
    """A model that answers from a script, refuses what its provider would refuse, and reports usage with a cache."""

    format_name: str
    turns: Sequence[Turn]
    family: str = "o200k"
    window: int = 200_000
    usages: list[dict[str, int]] = field(default_factory=list)
    _last: list[Any] = field(default_factory=list)

    def __call__(self, messages: Sequence[Any]) -> Turn:
        """Take one request; raises InvalidRequest for a broken rule or an overflow of the window."""
        format = named(self.format_name)  # noqa: A001
        problems = format.check(messages)
        if problems:
            raise InvalidRequest("; ".join(map(str, problems)))
        count = data.estimator(self.family)
        sizes = [sum(count.item(p.kind, p.text, p.weight) for p in format.split(m)) for m in messages]
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
    """A summarizer that answers from a script and keeps every request; the last answer repeats.

    An answer is a text, a `Reply`, an exception to raise, a number of seconds to hang, or a function of the request.
    `window` (tokens) makes it refuse what is longer, as a provider would.
    """

    answers: Sequence[Any] = ("",)
    window: int = 0
    family: str = "o200k"
    requests: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Any:
        """Answer one request."""
        self.requests.append(request)
        if self.window:
            wire, count = named(request.format), data.estimator(self.family)
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


def reads_as(format: Format, payload: Any, shown: View) -> list[str]:  # noqa: A002
    """Say where a written payload does not read as the view it was written from."""
    got = _joined([_content(i) for i in format.read(payload)])
    want = _joined([_content(i) for i in shown.conversation()])
    if got == want:
        return []
    at = next((n for n, (a, b) in enumerate(zip(got, want, strict=False)) if a != b), min(len(got), len(want)))
    return [f"item {at} of {len(got)}/{len(want)}: got {got[at : at + 1]} want {want[at : at + 1]}"]


def _joined(contents: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Join neighbouring texts of the user: where content is one string, a hand-over becomes a paragraph of it."""
    found: list[tuple[Any, ...]] = []
    for content in contents:
        if found and content[:2] == found[-1][:2] == ("user", "text"):
            found[-1] = (*content[:4], f"{found[-1][4]}\n\n{content[4]}", content[5])
        else:
            found.append(content)
    return found


def _content(item: Item) -> tuple[Any, ...]:
    text: Any = item.text
    if item.kind == "call":
        try:
            text = json.loads(item.text)
        except ValueError:
            text = item.text
    return item.role, item.kind, item.name, item.call, text, item.failed


def broken_promises(source: Sequence[Any], result: Compaction, format: Format) -> list[str]:  # noqa: A002
    """List words of the user or the system that the view lacks or changed.

    A user's words may stand quoted in a hand-over, line by line; what machines wrote into the user's role may leave.
    """
    view = [i.text for i in format.read(result.messages) if i.kind == "text" and i.role in ("user", "system")]
    shown, lines = list(view), {line for text in view for line in text.split("\n")}
    markers, lost = data.markers(), []
    for item in format.read(source):
        if item.kind != "text" or item.role not in ("user", "system"):
            continue
        if item.text in shown:
            shown.remove(item.text)
        elif item.role == "system" or not _quoted(markers.own_words(item.text), lines):
            lost.append(f"{item.role} words lost: {item.text[:60]!r}")
    return lost


def _quoted(words: str, lines: set[str]) -> bool:
    """Say whether every line stands in the view; of an outsized paste only the ends need to."""
    wanted = words.split("\n") if len(words) <= PASTE else words[:200].split("\n")[:1]
    return all(line in lines or f"\\{line}" in lines or not line.strip() for line in wanted)
