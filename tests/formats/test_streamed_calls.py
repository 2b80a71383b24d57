"""Hidden recall in streams of chat completions, however a server cuts and numbers its deltas."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danshari.core.recall_tools import RECALL_TOOL_NAMES
from danshari.formats.openai_chat.deltas import StreamedCalls
from danshari.formats.openai_chat.recall import ChatRecallFormat
from danshari.formats.sse import EventSplitter, event_value, render_event

names = st.sampled_from([*sorted(RECALL_TOOL_NAMES), "Bash", "recall", "recall_readme", "read", "r"])
extras = st.sampled_from([{}, {"extra_content": {"google": {"thought_signature": "c2ln"}}}])
calls_of_answers = st.lists(st.tuples(names, st.text('ab"{}', max_size=12), extras), min_size=1, max_size=5)
message_fields = st.fixed_dictionaries(
    {},
    optional={
        "reasoning_content": st.sampled_from(["", "Hm, so"]),
        "reasoning_details": st.just([{"type": "reasoning.text", "text": "Hm", "signature": "s", "index": 0}]),
        "vendor_state": st.just({"a": [1, 2]}),
    },
)


def cut(draw: Any, text: str) -> list[str]:
    at = sorted(draw(st.lists(st.integers(0, len(text)), max_size=2)))
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


@st.composite
def streams(draw: Any) -> tuple[list[dict[str, Any]], dict[str, Any], list[bytes]]:
    """Draw calls, further fields, and the events of an answer; index may be right, always 0 or missing."""
    fields, numbering = draw(message_fields), draw(st.sampled_from(["right", "zero", "none"]))
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, **fields}]
    calls = []
    for number, (name, arguments, extra) in enumerate(draw(calls_of_answers)):
        index = {"right": {"index": number}, "zero": {"index": 0}, "none": {}}[numbering]
        repeated = draw(st.booleans())
        head = {**index, "id": f"c{number}", "type": "function", **extra}
        pieces = [name] if repeated else cut(draw, name)
        deltas.append({"tool_calls": [{**head, "function": {"name": pieces[0], "arguments": ""}}]})
        deltas += [{"tool_calls": [{**index, "function": {"name": piece}}]} for piece in pieces[1:] if piece]
        for piece in cut(draw, arguments):
            function = {"name": name, "arguments": piece} if repeated else {"arguments": piece}
            deltas.append({"tool_calls": [{**index, "function": function}]})
        function = {"name": name, "arguments": arguments}
        calls.append({"type": "function", "function": function, "id": f"c{number}", **extra})
    if draw(st.booleans()):
        last = deltas.pop()
    else:
        last = {}
    events = [{"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"id": "x", "choices": [{"index": 0, "delta": last, "finish_reason": "tool_calls"}]})
    return calls, fields, [render_event(event) for event in events]


@given(streams())
def test_a_recall_never_shows_and_the_rest_arrives_whole(drawn: Any) -> None:
    calls, fields, events = drawn
    filtered = ChatRecallFormat().stream_filter()
    shown = b"".join(filtered.feed(event) for event in events)
    turn = filtered.end_response()
    shown += filtered.closing_events()

    own = [call for call in calls if call["function"]["name"] not in RECALL_TOOL_NAMES]
    seen = StreamedCalls()
    for event in EventSplitter().feed(shown):
        for part in event_value(event)["choices"][0]["delta"].get("tool_calls") or ():
            number = seen.add(part)
            assert (part.get("index") or 0) == number, "every call has an index of its own"
    assert seen.calls == own, "what the client puts together is the model's own calls, each under its own index"
    assert len(turn.hidden) == len(calls) - len(own)
    assert turn.others is bool(own)
    assert [json.loads(json.dumps(call)) for call in turn.messages[0]["tool_calls"]] == calls
    assert {name: turn.messages[0].get(name) for name in fields} == fields


@given(calls=calls_of_answers, fields=message_fields)
def test_a_whole_answer_keeps_its_fields(calls: Any, fields: dict[str, Any]) -> None:
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": text}, **extra}
        for n, (name, text, extra) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": "Hm", "tool_calls": made, "annotations": [], "refusal": None, **fields}
    turn = ChatRecallFormat().parse_response({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert turn.messages == [{"role": "assistant", "content": "Hm", "tool_calls": made, **fields}]
