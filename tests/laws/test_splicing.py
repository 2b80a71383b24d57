"""Laws of writing on the original bytes: what is written reads as asked, and what did not change keeps its spelling."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danshari.proxy.body.body import read_body
from danshari.proxy.body.json_patch import splice_value

TEXTS = st.text(max_size=12)


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)


VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


SPACES = st.sampled_from(["", " ", "\n", "\t  ", "\r\n"])


def spelled(draw: Any, value: Any) -> str:
    """Write JSON as some client might: odd white space, escapes, numbers in other spellings."""
    gap = draw(SPACES)
    if isinstance(value, dict):
        inner = ",".join(f"{gap}{spelled(draw, k)}{draw(SPACES)}:{gap}{spelled(draw, v)}" for k, v in value.items())
        return "{" + inner + gap + "}"
    if isinstance(value, list):
        return "[" + ",".join(gap + spelled(draw, v) + draw(SPACES) for v in value) + gap + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return draw(st.sampled_from([f"{int(value)}.0", f"{int(value)}.00", f"{int(value)}e0"]))
    return json.dumps(value)


@st.composite
def edited(draw: Any, value: Any) -> Any:
    """Change a value here and there; what stays is the same object, as a format's patch leaves it."""
    if isinstance(value, dict) and draw(st.booleans()):
        kept = {k: draw(edited(v)) for k, v in value.items() if draw(st.integers(0, 4))}
        return kept | draw(st.dictionaries(TEXTS, LEAVES, max_size=1))
    if isinstance(value, list) and draw(st.booleans()):
        kept_items = [draw(edited(v)) for v in value if draw(st.integers(0, 4))]
        extra = draw(st.lists(VALUES, max_size=2))
        at = draw(st.integers(0, len(kept_items)))
        return kept_items[:at] + extra + kept_items[at:]
    return draw(VALUES) if not draw(st.integers(0, 3)) else value


@given(st.data())
def test_what_is_written_reads_as_asked(data: Any) -> None:
    text = spelled(data.draw, data.draw(VALUES))
    old = json.loads(text)
    new = data.draw(edited(old))
    assert json.loads(splice_value(text, (0, len(text)), old, new)) == new


@given(st.data())
def test_nothing_changed_nothing_written(data: Any) -> None:
    text = spelled(data.draw, data.draw(VALUES))
    old = json.loads(text)
    assert splice_value(text, (0, len(text)), old, json.loads(text)) == text


MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": VALUES}, optional={"x": VALUES}),
    min_size=1, max_size=6,
)  # fmt: skip


@st.composite
def bodies(draw: Any, messages: list[Any]) -> tuple[str, dict[str, Any]]:
    """A request: some members before the messages, some after."""
    before = draw(st.dictionaries(TEXTS.filter(lambda t: t != "messages"), VALUES, max_size=3))
    after = draw(st.dictionaries(TEXTS.filter(lambda t: t != "messages" and t not in before), VALUES, max_size=3))
    values = {**before, "messages": messages, **after}
    return spelled(draw, values), values


@given(st.data())
def test_a_body_is_read_whole_and_written_with_other_messages_and_fields(data: Any) -> None:
    text, values = data.draw(data.draw(MESSAGES.map(bodies)))
    body = read_body(text, "messages")
    assert body.values == values
    assert [text[a:b] for a, b in body.places] == [text[a:b].strip() for a, b in body.places]
    assert [json.loads(text[a:b]) for a, b in body.places] == body.messages
    assert body.write(body.messages) == text.encode("utf-8", "surrogatepass")
    new = data.draw(edited(body.messages))
    if not isinstance(new, list):
        new = []
    fields = data.draw(st.dictionaries(TEXTS.filter(lambda t: t != "messages"), VALUES, max_size=2))
    assert json.loads(body.write(new, fields)) == {**values, "messages": new, **fields}


@given(st.data())
def test_a_body_that_follows_another_reads_as_if_it_stood_alone(data: Any) -> None:
    """Whatever the last body was, reading from where they differ gives the same as reading anew."""
    messages = data.draw(MESSAGES)
    first_text, _ = data.draw(bodies(messages))
    first = read_body(first_text, "messages")
    changed = [*messages[: data.draw(st.integers(0, len(messages)))], *data.draw(MESSAGES)]
    style = data.draw(st.sampled_from(["same", "other"]))
    if style == "same":  # the same client writes the same way: only the list of messages and what follows differ
        start, end = first.messages_span
        inner = ",".join(first_text[a:b] for a, b in first.places[: len(changed)])
        more = ",".join(json.dumps(m) for m in changed[len(first.places) :])
        text = first_text[:start] + "[" + ",".join(filter(None, [inner, more])) + "]" + first_text[end:]
    else:
        text, _ = data.draw(bodies(changed))
    alone, after = read_body(text, "messages"), read_body(text, "messages", first)
    assert after.values == alone.values
    assert (after.places, after.messages_span, after.end, after.spans) == (
        alone.places,
        alone.messages_span,
        alone.end,
        alone.spans,
    )


@given(st.data())
def test_what_was_written_before_does_not_change_what_is_written(data: Any) -> None:
    """A conversation grows, its view is edited here and there: each body is written as if it were the first."""
    messages: list[Any] = data.draw(MESSAGES)
    last, copies = None, {}
    for _ in range(3):
        text = json.dumps({"model": "m", "messages": messages, "stream": True})
        body, alone = read_body(text, "messages", last), read_body(text, "messages")
        view = []
        for at, message in enumerate(body.messages):
            if at not in copies and data.draw(st.integers(0, 3)) == 0:
                copies[at] = data.draw(st.sampled_from([None, {**message, "content": "short"}]))
            view.append(copies.get(at, message))
        view = [m for m in view if m is not None]
        same = [alone.messages[body.messages.index(m)] if m in body.messages else m for m in view]
        made = body.write(view)
        assert json.loads(made)["messages"] == view
        assert made == alone.write(same) or len(body.messages) != len(
            {json.dumps(m, sort_keys=True) for m in body.messages}
        )
        last, messages = body, [*messages, *data.draw(MESSAGES)]
