"""Thinking and reasoning stay with what they led to, and a tool loop begins as the provider wants it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor
from danshari.formats import find_format
from tests.support.every_view import cuts, judge

LINES = "row of the ledger with a value\n"


@st.composite
def loops(draw: Any) -> list[Any]:
    """Draw an Anthropic session of some requests, each a tool loop that may think at first only, always or never."""
    messages: list[Any] = []
    number = 0
    for request in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"Request {request}: fix it."}]})
        habit = draw(st.sampled_from(("first", "always", "never", "first")))
        for step in range(draw(st.integers(1, 9))):
            number += 1
            think = habit == "always" or (habit == "first" and step == 0)
            thought = {"type": "thinking", "thinking": f"thought {number}", "signature": f"sig{number}"}
            name = draw(st.sampled_from(("Read", "Bash", "Skill")))
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {"n": number}}
            size = draw(st.sampled_from((2, 60, 400)))
            result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": LINES * size}
            messages.append({"role": "assistant", "content": [*([thought] if think else []), call]})
            messages.append({"role": "user", "content": [result]})
            if draw(st.integers(0, 5)) == 0:
                messages.append({"role": "system", "content": "A note of the client."})
    return messages


def opens_with_thinking(messages: list[Any]) -> bool:
    """Return whether the newest tool loop begins with thinking."""
    begin = 0
    for at, message in enumerate(messages):
        content = message["content"]
        results = isinstance(content, list) and all(b["type"] == "tool_result" for b in content)
        begin = at + 1 if message["role"] == "user" and not results else begin
    first = next((m for m in messages[begin:] if m["role"] == "assistant"), None)
    return first is not None and first["content"][0]["type"] == "thinking"


@given(messages=loops(), window=st.sampled_from((3000, 9000, 30_000)), policy=st.sampled_from(("balanced", "repair")))
def test_a_tool_loop_begins_with_the_thinking_that_opened_it(messages: list[Any], window: int, policy: str) -> None:
    engine = Compactor(policy, model="claude-sonnet-4-5", window=window, format="anthropic", clock=lambda: 0.0)
    wire, last = find_format("anthropic"), list[Any]()
    for number, at in enumerate(cuts(("anthropic", messages))):
        source = messages[:at]
        result = engine.compact(source, force="full" if number % 4 == 3 else number % 4 == 1)
        last = judge(engine, source, result, wire, last)
        assert opens_with_thinking(last) or not opens_with_thinking(source)


@st.composite
def reasoned_items(draw: Any) -> list[Any]:
    """Draw Responses items whose turns begin with sealed reasoning and make several calls, some of them protected."""
    items: list[Any] = [{"type": "message", "role": "user", "content": "Fix the ledger."}]
    for turn in range(draw(st.integers(2, 8))):
        items.append({"type": "reasoning", "id": f"rs_{turn}", "summary": [], "encrypted_content": "c2VhbGVk"})
        names = draw(st.lists(st.sampled_from(("Read", "Bash", "Skill")), min_size=1, max_size=3))
        ids = [f"call_{turn}_{n}" for n in range(len(names))]
        items += [
            {"type": "function_call", "call_id": i, "name": name, "arguments": "{}"}
            for i, name in zip(ids, names, strict=True)
        ]
        size = draw(st.sampled_from((2, 100, 400)))
        items += [{"type": "function_call_output", "call_id": i, "output": f"{i} {LINES * size}"} for i in ids]
    return items


@given(items=reasoned_items(), window=st.sampled_from((3000, 9000)), policy=st.sampled_from(("balanced", "repair")))
def test_reasoning_stays_before_what_it_led_to(items: list[Any], window: int, policy: str) -> None:
    engine = Compactor(policy, model="gpt-5", window=window, format="openai-responses", clock=lambda: 0.0)
    follows = {m["id"]: after["call_id"] for m, after in pairwise(items) if m["type"] == "reasoning"}
    for number, at in enumerate(cuts(("openai-responses", items))):
        shown = list(engine.compact(items[:at], force="full" if number % 3 == 2 else number % 3 == 1).messages)
        pairs = pairwise(shown)
        assert all(after.get("call_id") == follows[m["id"]] for m, after in pairs if m["type"] == "reasoning")
