"""LangChain: ClearToolUsesEdit, trim_messages and SummarizationMiddleware, at their documented defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from langchain.agents.middleware import ClearToolUsesEdit, SummarizationMiddleware
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    get_buffer_string,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately

DEFAULT = 100_000
"""Tokens: the trigger of ClearToolUsesEdit; the other two name none."""
Compact = Callable[[list[Any]], list[Any]]


class History:
    """The same history as LangChain messages; originals come back wherever LangChain left them alone."""

    def __init__(self) -> None:
        self.raw: dict[str, Any] = {}
        self.seen = 0

    def fresh(self, messages: list[Any]) -> list[Any]:
        """Translate what came since the last call."""
        made = []
        for message in messages[self.seen :]:
            tag = f"m{len(self.raw)}"
            self.raw[tag] = message
            made.append(translated(message, tag))
        self.seen = len(messages)
        return made

    def back(self, message: Any) -> Any:
        """Translate one message back; one that LangChain wrote is its summary."""
        raw = self.raw.get(message.id)
        if raw is None:
            return {"role": "user", "content": message.content}
        return raw if message.content == (raw.get("content") or "") else {**raw, "content": message.content}


def translated(message: Any, tag: str) -> Any:
    """Make a LangChain message."""
    text = message.get("content") or ""
    if message["role"] == "tool":
        return ToolMessage(text, tool_call_id=message["tool_call_id"], id=tag)
    if message["role"] == "assistant":
        calls = [
            {"type": "tool_call", "id": c["id"], "name": c["function"]["name"], "args": arguments(c)}
            for c in message.get("tool_calls") or ()
        ]
        return AIMessage(text, tool_calls=calls, id=tag)
    return (SystemMessage if message["role"] == "system" else HumanMessage)(text, id=tag)


def arguments(call: Any) -> dict[str, Any]:
    """Parse arguments; LangChain takes objects only."""
    try:
        value = json.loads(call["function"]["arguments"] or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": call["function"]["arguments"]}


def clear(budget: int | None, _: Any) -> Compact:
    """Clear old tool results of each request; the kept history stays whole."""
    history, state = History(), []
    edit = ClearToolUsesEdit(trigger=budget or DEFAULT)

    def compact(messages: list[Any]) -> list[Any]:
        state.extend(history.fresh(messages))
        shown = list(state)
        edit.apply(shown, count_tokens=count_tokens_approximately)
        return [history.back(m) for m in shown]

    return compact


def trim(budget: int | None, _: Any) -> Compact:
    """Keep the newest messages that fit."""
    history, state = History(), []

    def compact(messages: list[Any]) -> list[Any]:
        state.extend(history.fresh(messages))
        shown = trim_messages(
            state,
            max_tokens=budget or DEFAULT,
            token_counter=count_tokens_approximately,
            strategy="last",
            start_on="human",
            include_system=True,
        )
        return [history.back(m) for m in shown]

    return compact


def summary(budget: int | None, summarize: Callable[[str], str]) -> Compact:
    """Replace all but the newest 20 messages by a summary once over the trigger."""
    history = History()
    middleware = SummarizationMiddleware(
        FakeListChatModel(responses=["unused"]),
        trigger=("tokens", budget or DEFAULT),
        summarizer=lambda messages: summarize(get_buffer_string(messages)),
    )
    system: list[Any] = []
    state: list[Any] = []

    def compact(messages: list[Any]) -> list[Any]:
        for message in history.fresh(messages):  # LangChain keeps the system prompt out of the state
            (system if isinstance(message, SystemMessage) else state).append(message)
        update = middleware.before_model({"messages": list(state)}, None)
        if update:
            state[:] = update["messages"][1:]  # the first one says: remove all others
        return [history.back(m) for m in [*system, *state]]

    return compact
