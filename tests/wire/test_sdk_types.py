"""The official SDKs' own request types accept what we write, in all three formats and under every policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import MessageParam
from google.genai.types import Content
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import BaseModel, TypeAdapter, ValidationError

from danshari import Compactor, convert
from danshari.cli.report import bundled_sessions
from danshari.formats import FORMATS, detect_format
from danshari.sessions import read

POLICIES = ("balanced", "literal", "repair", "architecture")
ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "openai-chat": TypeAdapter(ChatCompletionMessageParam),
    "anthropic": TypeAdapter(MessageParam),
    "openai-responses": TypeAdapter(ResponseInputItemParam),
    "gemini": TypeAdapter(Content),
}


def exhaust(value: Any) -> None:
    """Walk lazily validated iterables, so that every block is judged."""
    if isinstance(value, BaseModel):
        return  # validated at once
    if isinstance(value, dict):
        for inner in value.values():
            exhaust(inner)
    elif not isinstance(value, str | bytes | int | float | bool | type(None)):
        for inner in value:
            exhaust(inner)


def judge(name: str, messages: list[Any]) -> None:
    for message in messages:
        message = {k: v for k, v in message.items() if k != "reasoning_content"}
        exhaust(ADAPTERS[name].validate_python(message))


def accepts(name: str, messages: list[Any]) -> bool:
    try:
        judge(name, messages)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("target", list(FORMATS))
@pytest.mark.parametrize("path", bundled_sessions(), ids=lambda p: p.stem)
def test_bundled_sessions(path: Path, target: str) -> None:
    session = next(iter(read(path)))
    messages = session.messages if session.format == target else convert(session.messages, target).payload
    judge(target, messages)
    for policy in POLICIES:
        for window in (16_000, 400_000):
            result = Compactor(policy, model="claude-opus-4-5", window=window, format=target).compact(messages)
            assert result.ok
            judge(target, result.messages)
            assert FORMATS[target].check(result.messages) == []


@pytest.mark.parametrize("target", list(FORMATS))
def test_cases(shared: Path, target: str) -> None:
    """The public bug reports: parts, images, thinking, encrypted reasoning."""
    seen = 0
    for path in sorted((shared / "cases").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        if case.get("format") != target or case.get("input_broken"):
            continue
        given = [{k: v for k, v in m.items() if k != "usage"} for m in case["messages"]]
        if not accepts(target, given):
            continue  # then nothing follows from a refusal of what we made of it
        for policy in POLICIES:
            result = Compactor(policy, window=20_000, format=target).compact(case["messages"], force=True)
            assert result.ok
            judge(target, [{k: v for k, v in m.items() if k != "usage"} for m in result.messages])
        seen += 1
    assert seen >= (target != "gemini"), "the public reports hold no Gemini conversation yet"


def test_sdk_objects_are_read_as_they_are() -> None:
    """People append the SDK's response objects to their lists."""
    from anthropic.types import TextBlock, ToolUseBlock
    from openai.types.chat import ChatCompletionMessage

    reply = ChatCompletionMessage.model_validate({
        "role": "assistant", "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    })  # fmt: skip
    chat = [{"role": "user", "content": "go"}, reply, {"role": "tool", "tool_call_id": "c1", "content": "x" * 5000}]
    assert detect_format(chat)[0].name == "openai-chat"
    result = Compactor("literal").compact([*chat, *[{"role": "assistant", "content": "."}] * 2])
    assert result.ok
    assert result.messages[1] is reply
    blocks = [
        TextBlock(type="text", text="hi"),
        ToolUseBlock(type="tool_use", id="t1", name="Bash", input={"command": "ls"}),
    ]
    talk = [{"role": "user", "content": "go"}, {"role": "assistant", "content": blocks},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a\n" * 9000}]}]  # fmt: skip
    assert detect_format(talk)[0].name == "anthropic"
    shown = Compactor("balanced").compact(talk)
    assert shown.ok
    assert shown.edits
    assert len(shown.messages[2]["content"][0]["content"]) < 6000
