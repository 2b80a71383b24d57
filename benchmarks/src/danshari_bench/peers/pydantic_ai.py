"""Adapters for pydantic-ai-harness: compaction strategies, run when the history exceeds a token trigger.

Edits persist in the history of the run.
"""

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

HARNESS_TRIGGER = 100_000
"""Tokens: the trigger of the docstring examples; there is no other default."""
HarnessCompact = Callable[[list[Any]], list[Any]]


class HarnessHistory:
    """The history as pydantic-ai messages; everything between two assistant turns is one request there."""

    def __init__(self) -> None:
        self.state: list[Any] = []
        self._turns: list[Any] = []
        self._names: dict[str, str] = {}
        self._seen = 0

    def append_new(self, messages: list[Any]) -> None:
        """Append the messages that came since the last call."""
        for message in messages[self._seen :]:
            if message["role"] == "assistant":
                self._turns.append(message)
                self.state.append(self._make_response(message))
            else:
                self._append_request(message)
        self._seen = len(messages)

    def _make_response(self, message: Any) -> Any:
        parts: list[Any] = [TextPart(message["content"])] if message.get("content") else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            self._names[call["id"]] = function["name"]
            parts.append(ToolCallPart(function["name"], function["arguments"], call["id"]))
        return ModelResponse(parts, metadata={"n": len(self._turns) - 1})

    def _append_request(self, message: Any) -> None:
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

    def chat_messages(self) -> list[Any]:
        """Return the history as chat messages; assistant turns are the originals."""
        return [made for message in self.state for made in self._to_chat(message)]

    def _to_chat(self, message: Any) -> list[Any]:
        """Convert one pydantic-ai message to chat messages."""
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


def _start_strategy(strategy: Any, writer: Any, trigger: int) -> HarnessCompact:
    history = HarnessHistory()

    def compact(messages: list[Any]) -> list[Any]:
        history.append_new(messages)
        if estimate_token_count(history.state) > trigger:
            history.state = asyncio.run(compact_now(strategy, history.state, model=writer))
        return history.chat_messages()

    return compact


def _summary_model(summarize: Callable[[str], str]) -> Any:
    return FunctionModel(lambda messages, _: ModelResponse([TextPart(summarize(messages[-1].parts[-1].content))]))


def clear(budget: int | None, summarize: Callable[[str], str]) -> HarnessCompact:
    """Clear old tool results."""
    limit = budget or HARNESS_TRIGGER
    return _start_strategy(ClearToolResults(max_tokens=limit), _summary_model(summarize), limit)


def window(budget: int | None, summarize: Callable[[str], str]) -> HarnessCompact:
    """Keep a sliding window of messages."""
    limit = budget or HARNESS_TRIGGER
    return _start_strategy(SlidingWindowCompaction(max_tokens=limit), _summary_model(summarize), limit)


def tiered(budget: int | None, summarize: Callable[[str], str]) -> HarnessCompact:
    """Clear tool results first and summarise if that was not enough, as the documentation recommends."""
    limit, writer = budget or HARNESS_TRIGGER, _summary_model(summarize)
    tiers = [ClearToolResults(max_tokens=limit), SummarizingCompaction(model=writer, max_tokens=limit)]
    return _start_strategy(TieredCompaction(tiers=tiers, target_tokens=limit), writer, limit)
