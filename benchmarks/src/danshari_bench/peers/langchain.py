"""Adapters for LangChain: ClearToolUsesEdit, trim_messages, SummarizationMiddleware at their defaults."""

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

LANGCHAIN_TRIGGER = 100_000
"""Tokens: the trigger of ClearToolUsesEdit; the other two name none."""
LangChainCompact = Callable[[list[Any]], list[Any]]


class LangChainHistory:
    """The history as LangChain messages; messages left unchanged are returned as the originals."""

    def __init__(self) -> None:
        self.raw: dict[str, Any] = {}
        self.seen = 0

    def translate_new(self, messages: list[Any]) -> list[Any]:
        """Translate the messages that came since the last call."""
        made = []
        for message in messages[self.seen :]:
            tag = f"m{len(self.raw)}"
            self.raw[tag] = message
            made.append(to_langchain(message, tag))
        self.seen = len(messages)
        return made

    def translate_back(self, message: Any) -> Any:
        """Translate one message back; a message without an original is a summary."""
        raw = self.raw.get(message.id)
        if raw is None:
            return {"role": "user", "content": message.content}
        return raw if message.content == (raw.get("content") or "") else {**raw, "content": message.content}


def to_langchain(message: Any, tag: str) -> Any:
    """Convert a chat message to a LangChain message with the id `tag`."""
    text = message.get("content") or ""
    if message["role"] == "tool":
        return ToolMessage(text, tool_call_id=message["tool_call_id"], id=tag)
    if message["role"] == "assistant":
        calls = [
            {"type": "tool_call", "id": c["id"], "name": c["function"]["name"], "args": _parse_arguments(c)}
            for c in message.get("tool_calls") or ()
        ]
        return AIMessage(text, tool_calls=calls, id=tag)
    return (SystemMessage if message["role"] == "system" else HumanMessage)(text, id=tag)


def _parse_arguments(call: Any) -> dict[str, Any]:
    """Parse call arguments to a dict, because LangChain accepts objects only."""
    try:
        value = json.loads(call["function"]["arguments"] or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"input": call["function"]["arguments"]}


def clear(budget: int | None, _: Any) -> LangChainCompact:
    """Clear old tool results in each request; the stored history stays complete."""
    history, state = LangChainHistory(), []
    edit = ClearToolUsesEdit(trigger=budget or LANGCHAIN_TRIGGER)

    def compact(messages: list[Any]) -> list[Any]:
        state.extend(history.translate_new(messages))
        shown = list(state)
        edit.apply(shown, count_tokens=count_tokens_approximately)
        return [history.translate_back(m) for m in shown]

    return compact


def trim(budget: int | None, _: Any) -> LangChainCompact:
    """Keep the newest messages that fit."""
    history, state = LangChainHistory(), []

    def compact(messages: list[Any]) -> list[Any]:
        state.extend(history.translate_new(messages))
        shown = trim_messages(
            state,
            max_tokens=budget or LANGCHAIN_TRIGGER,
            token_counter=count_tokens_approximately,
            strategy="last",
            start_on="human",
            include_system=True,
        )
        return [history.translate_back(m) for m in shown]

    return compact


def summary(budget: int | None, summarize: Callable[[str], str]) -> LangChainCompact:
    """Replace all but the newest 20 messages by a summary once over the trigger."""
    history = LangChainHistory()
    middleware = SummarizationMiddleware(
        FakeListChatModel(responses=["unused"]),
        trigger=("tokens", budget or LANGCHAIN_TRIGGER),
        summarizer=lambda messages: summarize(get_buffer_string(messages)),
    )
    system: list[Any] = []
    state: list[Any] = []

    def compact(messages: list[Any]) -> list[Any]:
        for message in history.translate_new(messages):  # LangChain keeps the system prompt out of the state
            (system if isinstance(message, SystemMessage) else state).append(message)
        update = middleware.before_model({"messages": list(state)}, None)
        if update:
            state[:] = update["messages"][1:]  # the first one says: remove all others
        return [history.translate_back(m) for m in [*system, *state]]

    return compact
