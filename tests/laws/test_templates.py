"""Chat templates that demand turns: user and assistant alternate, and the head of the conversation stays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor, data
from danshari.core.handover_markdown import OPENING
from danshari.core.policy import CompactedShape
from danshari.core.summary import Reply
from danshari.formats import find_format
from danshari.handovers.validate import CheckContext, check_answer
from danshari.testing import Call, Turn, conversation
from tests.support.every_view import cuts
from tests.support.strategies import FORMATS


@st.composite
def taking_turns(draw: Any) -> tuple[str, list[Any]]:
    """Draw a session in which user and assistant alternate, with calls and results between."""
    name = draw(st.sampled_from(FORMATS))
    turns: list[Turn] = []
    for request in range(draw(st.integers(1, 4))):
        for step in range(draw(st.integers(0, 5))):
            size = draw(st.sampled_from((20, 4000)))
            call = Call(
                name="Bash", arguments={"command": f"make {request}.{step}"}, result=f"row {step}\n" * (size // 6)
            )
            turns.append(Turn(calls=(call,)))
        turns.append(Turn(text=f"Done with {request}.", user=f"Next: part {request}."))
    system = draw(st.sampled_from(("", "You are an agent."))) if name != "anthropic" else ""
    return name, conversation(name, "Begin.", turns, system=system)


def speakers(name: str, messages: list[Any]) -> list[str]:
    """List who speaks, calls, results and system prompts aside."""
    pieces = [find_format(name).split(message) for message in messages]
    spoken = [p for p in pieces if p and all(x.kind == "text" and x.role in ("user", "assistant") for x in p)]
    return [p[0].role for p in spoken]


@pytest.mark.parametrize("shape", ["state", "seed"])
@given(session=taking_turns(), window=st.sampled_from((3000, 9000)), head=st.integers(0, 6))
def test_sides_alternate_and_the_head_stays(
    shape: CompactedShape, session: tuple[str, list[Any]], window: int, head: int
) -> None:
    name, messages = session
    engine = Compactor("balanced", model="gpt-5", window=window, format=name, clock=lambda: 0.0)
    engine.policy = engine.policy.with_fields(handover_alternate=True, handover_shape=shape, protected_head=head)
    wire = find_format(name)
    begin = sum(wire.split(m)[0].role == "system" for m in messages[:1])
    for number, at in enumerate(cuts(session)):
        shown = list(engine.compact(messages[:at], force="full" if number % 3 == 2 else number % 3 == 1).messages)
        sides = speakers(name, shown)
        assert wire.check(shown) == []
        assert all(a != b for a, b in pairwise(sides)), sides
        assert sides[-1] == "user"
        held = messages[begin : min(begin + head, at)]
        assert [m for m in shown if any(m is h for h in held)] == held or not head


def ground(lines: tuple[str, ...]) -> CheckContext:
    return CheckContext(
        known=(), words="", prompt="", language="en", source=100_000, limit=10_000, markers=data.load_markers(),
        languages=data.load_phrases(), lines=frozenset(lines),
    )  # fmt: skip


@given(words=st.lists(st.text("abcdefgh ", min_size=40, max_size=90), min_size=3, max_size=8, unique=True))
def test_an_echo_of_the_conversation_is_no_summary(words: list[str]) -> None:
    lines = tuple(" ".join(word.split()) + " and so the work went on." for word in words)
    assert check_answer(Reply(text="\n".join(lines)), ground(lines)).refused == "an echo of the conversation"
    assert not check_answer(Reply(text="\n".join(lines)), ground(())).refused
    assert not OPENING.startswith(lines[0])
