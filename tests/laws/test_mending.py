"""Conversations that came in broken: what is sent is accepted by the provider, and says what was mended."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor
from danshari.formats import find_format
from tests.support.every_view import cuts, judge
from tests.support.strategies import Setting, sessions, settings_of_runs

SURE = ("pairing", "order", "encoding", "content")
"""Rules whose breach a mend takes away."""


def engine_for(name: str, setting: Setting, mend: Any = "safe", mode: Any = "view") -> Compactor:
    engine = Compactor(
        setting.policy, model=setting.model, window=setting.window, prices=setting.prices, format=name, mode=mode,
        clock=lambda: 0.0,
    )  # fmt: skip
    engine.policy = engine.policy.with_fields(mend=mend)
    return engine


def holds(name: str, message: Any, kind: str) -> bool:
    return any(p.kind == kind for p in find_format(name).split(message))


def lose_results(name: str, messages: list[Any], at: int) -> None:
    """A run was interrupted before its results were stored."""
    if holds(name, messages[at], "result"):
        del messages[at]


def lose_calls(name: str, messages: list[Any], at: int) -> None:
    """Somebody cut the history right before results."""
    if holds(name, messages[at], "call"):
        del messages[at]


def double_results(name: str, messages: list[Any], at: int) -> None:
    """A client stored results twice."""
    if holds(name, messages[at], "result"):
        messages.insert(at, copy.deepcopy(messages[at]))


def speak_between(name: str, messages: list[Any], at: int) -> None:
    """The user spoke before the results were there."""
    if holds(name, messages[at], "result"):
        messages.insert(at, find_format(name).user_message("Are you there?"))


def halve_characters(name: str, messages: list[Any], at: int) -> None:
    """Something cut a text inside an emoji."""
    messages.insert(at, find_format(name).user_message("half \ud83d of it")) if at else None


def empty_user(name: str, messages: list[Any], at: int) -> None:
    """A client sent nothing."""
    nothing = {"gemini": {"role": "user", "parts": []}, "anthropic": {"role": "user", "content": ""}}
    if name in nothing and not holds(name, messages[at], "result"):
        messages.insert(at, nothing[name])


BREAKS: tuple[Callable[[str, list[Any], int], None], ...] = (
    lose_results, lose_calls, double_results, speak_between, halve_characters, empty_user,
)  # fmt: skip


@st.composite
def broken_sessions(draw: Any) -> tuple[str, list[Any]]:
    name, messages = draw(sessions())
    messages = copy.deepcopy(messages)
    for place, kind in draw(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), min_size=1, max_size=4)):
        BREAKS[kind](name, messages, 1 + place % (len(messages) - 1) if len(messages) > 1 else 0)
    if holds(name, messages[-1], "call") or not holds(name, messages[-1], "result"):
        messages.append(find_format(name).user_message("Go on."))
    return name, messages


def waits(engine: Compactor) -> bool:
    """Return whether the newest turn has calls whose results may still be added."""
    facts = engine.facts
    return facts is not None and bool(facts.pending) and facts.items[-1].role in ("assistant", "tool")


@pytest.mark.parametrize("mode", ["view", "replace"])
@given(session=broken_sessions(), setting=settings_of_runs)
def test_what_is_sent_is_accepted(mode: Any, session: tuple[str, list[Any]], setting: Setting) -> None:
    name, messages = session
    wire, engine = find_format(name), engine_for(name, setting, mode=mode)
    held: list[Any] = []
    seen = 0
    for number, at in enumerate(cuts(session)):
        held += messages[seen:at]
        seen = at
        result = engine.compact(list(held), force="full" if number % 3 == 2 else setting.force and number % 3 == 1)
        assert result.ok, result.fault
        assert waits(engine) or [str(p) for p in wire.check(result.messages) if p.rule in SURE] == []
        held = list(result.messages) if mode == "replace" else held


@given(session=broken_sessions(), setting=settings_of_runs)
def test_every_mend_is_told_and_off_leaves_all_alone(session: tuple[str, list[Any]], setting: Setting) -> None:
    name, messages = session
    wire = find_format(name)
    quiet = Setting("off", 400_000, setting.model, setting.prices, force=False)
    engine = engine_for(name, quiet)
    told = engine.compact(messages)
    off = engine_for(name, quiet, "off").compact(messages)
    report = engine_for(name, quiet, "report").compact(messages)
    wrong = [p for p in wire.check(messages) if p.rule in SURE]
    assert all(a is b for a, b in zip(off.messages, messages, strict=True))
    assert all(a is b for a, b in zip(report.messages, messages, strict=True))
    assert bool(told.mended) or not wrong or waits(engine)
    assert len([n for n in report.notes if n.startswith("the provider may refuse")]) == len(told.mended)


@given(session=broken_sessions(), setting=settings_of_runs)
def test_a_growing_conversation_keeps_its_prefix(session: tuple[str, list[Any]], setting: Setting) -> None:
    name, messages = session
    engine = engine_for(name, Setting("off", 400_000, setting.model, setting.prices, force=False))
    last: list[Any] = []
    open_before: set[int] = set()
    for at in cuts(session):
        now = list(engine.compact(messages[:at]).messages)
        facts = engine.facts
        assert facts is not None
        open_now = {*facts.pending, *facts.unanswered}
        late = open_before - open_now  # a result that came after all takes the place of the one that stood for it
        assert late or now[: len(last)] == last
        open_before = open_now
        waiting = name == "gemini" and waits(engine)  # its results stand in one content, which may still grow
        last = copy.deepcopy(now[:-1] if waiting else now)


@given(session=sessions(), setting=settings_of_runs)
def test_what_is_whole_is_not_mended(session: tuple[str, list[Any]], setting: Setting) -> None:
    name, messages = session
    wire = find_format(name)
    engine, last = engine_for(name, setting), list[Any]()
    sound = not wire.check(messages)
    for at in cuts(session):
        result = engine.compact(messages[:at], force=setting.force)
        last = judge(engine, messages[:at], result, wire, last)
        assert not sound or not result.mended
