"""Recall tools never push a request over the number of tools that its provider takes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor
from danshari.core.recall_tools import RECALL_TOOLS, ToolDefinition
from danshari.formats import FORMATS
from danshari.proxy.recall.store import SessionRecalls

limited = st.sampled_from(sorted(name for name, wire in FORMATS.items() if wire.api.most_tools))


def tools_of(name: str, count: int) -> list[Any]:
    made = [ToolDefinition(name=f"t{n}", description="", parameters={"type": "object"}) for n in range(count)]
    return FORMATS[name].api.define_tools(made)


@given(name=limited, first=st.integers(1, 140), later=st.integers(1, 140))
def test_a_request_never_has_more_tools_than_its_provider_takes(name: str, first: int, later: int) -> None:
    wire = FORMATS[name]
    recalls = SessionRecalls(wire, Compactor(format=name), None, "s")
    values: dict[str, Any] = {"tools": tools_of(name, first), wire.key: [wire.user_message("Hi")]}
    recalls.decide_offer(values, "on", None, "")
    most = wire.api.most_tools
    assert most is not None
    assert recalls.offered is (first + len(RECALL_TOOLS) <= most)
    for count in (first, later):
        sent = recalls.add_tools({**values, "tools": tools_of(name, count)})
        fits = count + len(RECALL_TOOLS) <= most
        assert wire.api.count_tools(sent) == count + (len(RECALL_TOOLS) if fits else 0)
