"""What leaves is archived whole: every message comes back byte for byte, fields that nobody knows included."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor, RecallError
from danshari.archive.base import entry_from_dict
from danshari.archive.messages import message_entries, read_message
from danshari.core.items import Digest, Item, ItemId
from tests.support.every_view import cuts
from tests.support.strategies import Setting, sessions, settings_of_runs

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("danshari:text"), inner, max_size=3)
    ),
    max_leaves=8,
)


def item(text: str) -> Item:
    return Item(id=ItemId("i" * 24), digest=Digest("d" * 32), role="tool", kind="result", text=text)


@given(value=json_values, text=st.text(min_size=200, max_size=220), order=st.booleans())
def test_a_message_reads_back_as_it_was(value: Any, text: str, order: bool) -> None:
    message = {"b": value, "a": [text, {"content": text, "cache_control": value}]}
    message = message if order else dict(reversed(message.items()))
    (entry,) = message_entries(message, [item(text)])
    assert json.dumps(read_message(entry, lambda digest: {"d" * 32: text}[digest])) == json.dumps(message)
    assert len(entry.text) < 2 * len(json.dumps(value)) + 400  # the text stands in it by reference


def with_unknown_fields(session: tuple[str, list[Any]], values: list[Any]) -> list[Any]:
    """Return the messages with fields that no format knows, on messages and on their parts."""
    messages = copy.deepcopy(session[1])
    for number, value in enumerate(values):
        message = messages[number * 7 % len(messages)]
        message["vendor_field"] = {"value": value, "cache_control": number}
        parts = message.get("content") or message.get("parts")
        for part in parts if isinstance(parts, list) else ():
            part["vendor_part"] = [number, value]
    return messages


@given(session=sessions(), setting=settings_of_runs, values=st.lists(json_values, min_size=1, max_size=4))
def test_every_message_of_a_run_can_be_recalled_whole(
    session: tuple[str, list[Any]], setting: Setting, values: list[Any]
) -> None:
    messages = with_unknown_fields(session, values)
    engine = Compactor(
        setting.policy, model=setting.model, window=setting.window, prices=setting.prices, format=session[0],
        clock=lambda: 0.0,
    )  # fmt: skip
    for number, at in enumerate(cuts(session)):
        engine.compact(messages[:at], force="full" if number % 3 == 2 else setting.force and number % 3 == 1)
    shown = engine.view()
    for at in {*shown.effects.gone, *shown.effects.texts}:
        found = engine.recall_messages(shown.items[at].digest)
        assert json.dumps(messages[shown.items[at].at[0]]) in map(json.dumps, found)


def test_spellings_of_one_call_come_back_apart() -> None:
    body = "x" * 3000
    spelled = [
        f'{{"a": 1, "body": "{body}"}}',
        f'{{"body": "{body}", "a": 1.0}}',
        f'{{"a": 0, "a": 1, "body": "{body}"}}',
    ]
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    for n, arguments in enumerate([*spelled, *(json.dumps({"n": n}) for n in range(6))]):
        function = {"name": "set_headers", "arguments": arguments}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": f"ok {n}"})
    messages.append({"role": "user", "content": "Next."})
    engine = Compactor("balanced", model="gpt-5", format="openai-chat", clock=lambda: 0.0)
    engine.compact(messages, force="full")
    call = next(i for i in engine.view().items if i.kind == "call")
    told = [m["tool_calls"][0]["function"]["arguments"] for m in engine.recall_messages(call.digest)]
    assert told == spelled


def test_messages_are_not_found_by_words_and_unknown_ids_are_told(tmp_path: Any) -> None:
    engine = Compactor("balanced", format="openai-chat")
    engine.archive.put(message_entries({"role": "tool", "content": "xylophone"}, [item("y" * 300)]))
    with pytest.raises(RecallError):
        engine.recall("xylophone")
    with pytest.raises(RecallError, match="no item of this conversation"):
        engine.recall_messages("abcdef123456")
    assert entry_from_dict({"digest": "d" * 32, "text": "{}"}).kind == "result"
