"""Calls and results are paired by position: ids that a client uses again change nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor
from danshari.formats import find_format
from tests.support.every_view import cuts
from tests.support.strategies import Setting, sessions, settings_of_runs

CHAT = find_format("openai-chat")


def with_recurring_ids(messages: list[Any]) -> list[Any]:
    """Return the messages with call ids that count anew in every turn, as several clients write them."""
    out = copy.deepcopy(messages)
    names: dict[str, str] = {}
    for message in out:
        for number, call in enumerate(message.get("tool_calls", ())):
            names[call["id"]] = f"call_{number}"
            call["id"] = names[call["id"]]
        if "tool_call_id" in message:
            message["tool_call_id"] = names[message["tool_call_id"]]
    return out


def told(messages: list[Any]) -> list[tuple[str, str, str, str]]:
    """Return what a view says, ids aside."""
    return [(p.kind, p.role, p.name, p.text) for message in messages for p in CHAT.split(message)]


@pytest.mark.parametrize("pinned", [False, True])
@given(session=sessions(formats=("openai-chat",)), setting=settings_of_runs, data=st.data())
def test_ids_that_recur_change_nothing(
    pinned: bool, session: tuple[str, list[Any]], setting: Setting, data: Any
) -> None:
    recurring = with_recurring_ids(session[1])
    engines = [
        Compactor(setting.policy, model=setting.model, window=setting.window, prices=setting.prices,
                  format="openai-chat", clock=lambda: 0.0)
        for _ in range(2)
    ]  # fmt: skip
    results = sorted({m["content"] for m in recurring if m["role"] == "tool" and m["content"]})
    text = data.draw(st.sampled_from(results)) if results else "nothing"
    for number, at in enumerate(cuts(session)):
        force: Any = "full" if pinned and number % 2 else setting.force and number % 3 == 2
        if pinned and number == 2:
            for engine in engines:
                engine.pin(text)
        views = [
            engine.compact(messages[:at], force=force)
            for engine, messages in zip(engines, (session[1], recurring), strict=True)
        ]
        assert told(views[0].messages) == told(views[1].messages)
