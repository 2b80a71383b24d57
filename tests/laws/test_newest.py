"""What arrived last and alone exceeds the window is reduced evenly, so that the request is not refused."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor
from danshari.formats import find_format
from danshari.testing import Call, Turn, conversation
from tests.support.every_view import judge
from tests.support.strategies import FORMATS, SHAPES, body

WINDOW = 8000


def engine_for(name: str) -> Compactor:
    return Compactor("balanced", model="gpt-5", window=WINDOW, format=name, clock=lambda: 0.0)


@st.composite
def batches(draw: Any) -> tuple[str, list[Any]]:
    """Draw a session whose newest turn makes many calls with results of any size and shape."""
    name = draw(st.sampled_from(FORMATS))
    sizes = draw(st.lists(st.sampled_from((50, 3000, 20_000, 60_000)), min_size=2, max_size=9))
    shapes = draw(st.lists(st.sampled_from([s for s in SHAPES if s != "ours"]), min_size=9, max_size=9))
    tool = draw(st.sampled_from(("Read", "Bash", "lookup", "Grep")))
    calls = [
        Call(
            name=tool,
            arguments={"path": f"pkg/{n}/mod.py", "command": f"make {n}"},
            result=body(shape, size, n) or "ok",
        )
        for n, (size, shape) in enumerate(zip(sizes, shapes, strict=False))
    ]
    return name, conversation(name, "Compare the modules.", [Turn(text="Looking.", calls=tuple(calls))])


@given(session=batches())
def test_the_newest_batch_fits_and_loses_nothing(session: tuple[str, list[Any]]) -> None:
    name, messages = session
    engine, wire = engine_for(name), find_format(name)
    result = engine.compact(messages)
    judge(engine, messages, result, wire, [])
    results = [item for item in wire.read(result.messages) if item.kind == "result"]
    originals = [item for item in wire.read(messages) if item.kind == "result"]
    assert result.after <= WINDOW - engine.model.output or result.after <= WINDOW * 0.875 + 1
    assert len(results) == len(originals)
    assert all(item.text.strip() for item in results)
    changed = [old for old, new in zip(originals, results, strict=True) if old.text != new.text]
    assert all(engine.archive.get(old.digest).text == old.text for old in changed)


@given(name=st.sampled_from(FORMATS), size=st.integers(60_000, 400_000), shape=st.sampled_from(SHAPES[:6]))
def test_of_a_paste_that_exceeds_the_window_both_ends_stay(name: str, size: int, shape: str) -> None:
    paste = f"Find the error in this log.\n{body(shape, size, 3)}\nAnswer with the line number only."
    messages = conversation(name, paste, [])
    engine, wire = engine_for(name), find_format(name)
    result = engine.compact(messages)
    text = "\n".join(item.text for item in wire.read(result.messages) if item.role == "user")
    assert result.after <= WINDOW * 0.875 + 1
    assert "Find the error in this log." in text
    assert "Answer with the line number only." in text


@given(session=batches())
def test_what_was_reduced_stays_so(session: tuple[str, list[Any]]) -> None:
    name, messages = session
    engine = engine_for(name)
    first = list(engine.compact(messages).messages)
    assert list(engine.compact(messages).messages) == first
