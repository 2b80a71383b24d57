"""A framework's own message objects are read, changed and saved as dicts are, and stay objects."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor, open_archive
from danshari.core.edits import view
from danshari.errors import ArgumentError, FormatError, SessionError
from danshari.formats import find_format
from danshari.summarizers.base import Reply
from danshari.testing import Call, Turn, conversation
from tests.support.every_view import cuts, judge
from tests.support.objects import ModelSays, ToolSays, ToyFormat, UserSays, as_objects, shown_texts
from tests.support.strategies import Setting, sessions, settings_of_runs

CHAT = find_format("openai-chat")
chat_sessions = sessions(formats=("openai-chat",))


def long_work(rounds: int = 12) -> list[Any]:
    """Reads of ever the same file, long enough to be compacted."""
    turns = [
        Turn(
            text=f"Step {n}.",
            calls=[Call(name="read_file", arguments={"path": f"src/m{n}.py"}, result=f"def f{n}():\n    pass\n" * 300)],
        )
        for n in range(rounds)
    ]
    return as_objects(conversation("openai-chat", "Fix the parser.", [*turns, Turn(text="", user="Go on.")]))


def compactor(setting: Setting, wire: Any, **more: Any) -> Compactor:
    """A compactor for either spelling of a conversation."""
    policy, window, prices = setting.policy, setting.window, setting.prices
    return Compactor(policy, window=window, prices=prices, format=wire, clock=lambda: 0.0, **more)


@given(chat_sessions)
def test_objects_read_as_the_dicts_they_stand_for(session: tuple[str, list[Any]]) -> None:
    wire, objects = ToyFormat(), as_objects(session[1])
    read = wire.read(objects)
    assert [(i.id, i.text, i.turn) for i in read] == [(i.id, i.text, i.turn) for i in CHAT.read(session[1])]
    written = wire.write(objects, view(read, ()))
    assert all(a is b for a, b in zip(written, objects, strict=True))


@given(chat_sessions, settings_of_runs)
def test_objects_are_compacted_as_the_dicts_they_stand_for(session: tuple[str, list[Any]], setting: Setting) -> None:
    objects, last = as_objects(session[1]), list[Any]()
    before = copy.deepcopy(objects)
    wire = ToyFormat()
    engine, other = compactor(setting, wire), compactor(setting, "openai-chat")
    for number, at in enumerate(cuts(session)):
        force = setting.force and number % 3 == 2
        result = engine.compact(objects[:at], force=force)
        assert result.format == "toy"
        assert shown_texts(result.messages) == shown_texts(
            as_objects(other.compact(session[1][:at], force=force).messages)
        )
        last = judge(engine, objects[:at], result, wire, last)
    assert objects == before


def test_an_edited_object_keeps_all_else() -> None:
    objects = long_work()
    result = Compactor("balanced", window=60_000, format=ToyFormat()).compact(objects, force=True)
    assert result.after < result.before
    held = {m.call: m for m in objects if isinstance(m, ToolSays)}
    edited = [m for m in result.messages if isinstance(m, ToolSays) and m is not held[m.call]]
    assert edited
    for message in edited:
        assert replace(message, content=held[message.call].content) == held[message.call]


def test_a_hand_over_joins_the_user_message_before_it() -> None:
    objects = long_work()
    result = Compactor("architecture", window=20_000, format=ToyFormat()).compact(objects, force="full")
    assert result.trigger == "asked"
    first = result.messages[0]
    assert isinstance(first, UserSays)
    assert first.metadata == objects[0].metadata
    assert first.texts[0] == "Fix the parser."
    assert len(first.texts) == 2
    assert ToyFormat().check(result.messages) == []


@given(
    st.lists(st.sampled_from((None, "x", 5, [], object())), min_size=1, max_size=4), st.integers(0, 24), st.booleans()
)
def test_what_is_no_message_may_stand_anywhere(odd: list[Any], at: int, objects: bool) -> None:
    """Values of other types among the messages are passed through or leave with their round; nothing breaks."""
    work = long_work() if objects else conversation("openai-chat", "Fix it.", [Turn(text="On it.", user="Go on.")] * 12)
    engine = Compactor("balanced", window=20_000, format=ToyFormat() if objects else "openai-chat")
    for force in (True, "full"):
        assert engine.compact([*work[:at], *odd, *work[at:]], force=force).fault == ""  # type: ignore[arg-type]


def test_a_value_that_is_no_message_is_carried() -> None:
    odd = object()
    objects: list[Any] = [*long_work(), odd, 7, None]
    result = Compactor("balanced", window=20_000, format=ToyFormat()).compact(objects, force=True)
    assert result.fault == ""
    assert result.messages[-3:] == [odd, 7, None]


def test_plain_requests_go_in_the_providers_format() -> None:
    asked: list[Any] = []

    def summarize(request: Any) -> Reply:
        asked.append(request)
        return Reply(text="<summary>The parser was read.</summary>")

    engine = Compactor("architecture", window=20_000, format=ToyFormat(), summarizer=summarize)
    engine.compact(long_work(), force="full")
    assert asked
    assert all(request.format == "toy" for request in asked if request.warm)
    plain = [request for request in asked if not request.warm]
    assert all(request.format == "openai-chat" and isinstance(request.messages[-1], dict) for request in plain)
    assert engine.recall_tools()[0]["type"] == "function"


def test_a_session_of_objects_goes_on_in_another_process() -> None:
    objects = long_work()
    first = Compactor("balanced", window=20_000, format=ToyFormat(), mode="replace")
    held = list(first.compact(objects, force=True).messages)
    second = Compactor("balanced", window=20_000, format=ToyFormat(), mode="replace")
    second.load(first.save())
    held = [ToyFormat().from_json(ToyFormat().to_json(message)) for message in held]  # the host stores them too
    more = [*held, ModelSays(text="Done."), UserSays(("And now?",))]
    result = second.compact(more)
    assert result.notes == ()
    assert [i.text for i in ToyFormat().read(result.messages[: len(held)])] == [i.text for i in ToyFormat().read(held)]
    assert second.last_view() == list(result.messages)


def test_storing_objects_that_cannot_be_read_again_is_refused(tmp_path: Path) -> None:
    class Unsaved(ToyFormat):
        to_json = ToyFormat.__mro__[1].to_json  # type: ignore[assignment]

    engine = Compactor("balanced", window=20_000, format=Unsaved(), mode="replace")
    engine.compact(long_work())
    with pytest.raises(SessionError, match="to_json"):
        engine.save()
    with open_archive(tmp_path / "a.db") as archive, pytest.raises(ArgumentError, match="to_json"):
        Compactor("balanced", format=Unsaved(), mode="replace", archive=archive, session="s")


def test_broken_pairs_and_building_are_told() -> None:
    wire = ToyFormat()
    objects = long_work(3)
    results = [at for at, m in enumerate(objects) if isinstance(m, ToolSays)]
    without_result = [m for at, m in enumerate(objects) if at != results[0]]
    assert [p.rule for p in wire.check(without_result)] == ["pairing"]
    without_call = [m for at, m in enumerate(objects) if at != results[0] - 1]
    assert [p.rule for p in wire.check(without_call)] == ["pairing"]
    with pytest.raises(FormatError, match="toy"):
        wire.build(wire.read(objects))
