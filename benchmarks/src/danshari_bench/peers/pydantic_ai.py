"""pydantic-ai-harness: its compaction strategies behind their own token trigger; edits persist in the run's history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic_ai.messages import (
    CompactionPart,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import _conversation_summary_text
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_harness.compaction import (
    ClearToolResults,
    SlidingWindowCompaction,
    SummarizingCompaction,
    TieredCompaction,
    compact_now,
    estimate_token_count,
)

DEFAULT = 100_000
"""Tokens: the trigger of the docstring examples; there is no other default."""
Compact = Callable[[list[Any]], list[Any]]


class History:
    """The run's history in its own message types; what stands between two assistant turns is one request there."""

    def __init__(self) -> None:
        self.state: list[Any] = []
        self._turns: list[Any] = []
        self._names: dict[str, str] = {}
        self._seen = 0

    def take(self, messages: list[Any]) -> None:
        """Append what came since the last call."""
        for message in messages[self._seen :]:
            if message["role"] == "assistant":
                self._turns.append(message)
                self.state.append(self._response(message))
            else:
                self._request(message)
        self._seen = len(messages)

    def _response(self, message: Any) -> Any:
        parts: list[Any] = [TextPart(message["content"])] if message.get("content") else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            self._names[call["id"]] = function["name"]
            parts.append(ToolCallPart(function["name"], function["arguments"], call["id"]))
        return ModelResponse(parts, metadata={"n": len(self._turns) - 1})

    def _request(self, message: Any) -> None:
        text = message.get("content") or ""
        part: Any
        if message["role"] == "tool":
            call = message["tool_call_id"]
            part = ToolReturnPart(self._names.get(call, "tool"), text, call)
        else:
            part = SystemPromptPart(text) if message["role"] == "system" else UserPromptPart(text)
        if self.state and isinstance(self.state[-1], ModelRequest):
            self.state[-1] = ModelRequest([*self.state[-1].parts, part])
        else:
            self.state.append(ModelRequest([part]))

    def shown(self) -> list[Any]:
        """Spell the history as chat messages; assistant turns are the originals."""
        return [made for message in self.state for made in self._spelled(message)]

    def _spelled(self, message: Any) -> list[Any]:
        if isinstance(message, ModelResponse):
            return [self._turns[message.metadata["n"]]]
        made = []
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                made.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": part.content})
            elif isinstance(part, CompactionPart):
                made.append({"role": "user", "content": _conversation_summary_text(part.content)})
            else:
                role = "system" if isinstance(part, SystemPromptPart) else "user"
                made.append({"role": role, "content": part.content})
        return made


def _start(strategy: Any, writer: Any, trigger: int) -> Compact:
    history = History()

    def compact(messages: list[Any]) -> list[Any]:
        history.take(messages)
        if estimate_token_count(history.state) > trigger:
            history.state = asyncio.run(compact_now(strategy, history.state, model=writer))
        return history.shown()

    return compact


def _writer(summarize: Callable[[str], str]) -> Any:
    return FunctionModel(lambda messages, _: ModelResponse([TextPart(summarize(messages[-1].parts[-1].content))]))


def clear(budget: int | None, summarize: Callable[[str], str]) -> Compact:
    """Clear old tool results."""
    limit = budget or DEFAULT
    return _start(ClearToolResults(max_tokens=limit), _writer(summarize), limit)


def window(budget: int | None, summarize: Callable[[str], str]) -> Compact:
    """Slide a window over the messages."""
    limit = budget or DEFAULT
    return _start(SlidingWindowCompaction(max_tokens=limit), _writer(summarize), limit)


def tiered(budget: int | None, summarize: Callable[[str], str]) -> Compact:
    """Clear first, summarise if that was not enough: what its documentation recommends."""
    limit, writer = budget or DEFAULT, _writer(summarize)
    tiers = [ClearToolResults(max_tokens=limit), SummarizingCompaction(model=writer, max_tokens=limit)]
    return _start(TieredCompaction(tiers=tiers, target_tokens=limit), writer, limit)
