"""Laws of Gemini contents over generated sessions: ids or none, either spelling, SDK objects, signatures, odd responses."""

from __future__ import annotations

import copy
import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest
from google.genai.types import Content
from hypothesis import assume, given
from hypothesis import strategies as st

from danshari import Compactor, convert
from danshari.core.edits import view
from danshari.formats import FORMATS, detect_format, find_format
from danshari.formats.building import image_source, unique_call_ids
from tests.support.every_view import judge
from tests.support.strategies import Digits, Setting, settings_of_runs

WIRE = FORMATS["gemini"]
PNG = b"\x89PNG\r\n\x1a\n\xff\xfe"
IMAGE = {"inlineData": {"mimeType": "image/png", "data": b64encode(PNG).decode()}}
FILE = {"fileData": {"mimeType": "image/png", "fileUri": "https://files.example/a.png"}}
SOUND = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
NAMES = ("read_file", "run_shell_command", "search: all")
SIGNATURE = b64encode(b"signed").decode()

Contents = list[Any]


def response_of(digits: Digits, text: str) -> dict[str, Any]:
    """One of the shapes in which clients word what a function gave."""
    shapes: tuple[dict[str, Any], ...] = (
        {"output": text}, {"output": text}, {"result": text}, {"error": text}, {"body": text},
        {"output": text, "exit_code": 3}, {"error": text, "code": 5}, {"rows": [1, {"name": text}]}, {},
    )  # fmt: skip
    return dict(digits.one(shapes))


def round_of(digits: Digits, number: int, named: bool) -> Contents:
    """One turn of the model with its function responses; either side may be several contents."""
    said: list[Any] = []
    if digits.take(3) == 0:
        said.append({"text": "Which file comes first?", "thought": True})
    if digits.take(2):
        said.append({"text": f"Round {number}."} | ({"thoughtSignature": SIGNATURE} if digits.take(2) else {}))
    answers: list[Any] = []
    for place in range(digits.take(4)):
        name, ids = digits.one(NAMES), {"id": f"call-{number}-{place}"} if named else {}
        path = digits.one(("src/app.py", "docs/设计.md"))
        signed = {"thoughtSignature": SIGNATURE} if not place else {}
        said.append({"functionCall": {**ids, "name": name, "args": {"path": path, "text": digits.text()}}, **signed})
        nested = {"parts": [copy.deepcopy(IMAGE)]} if digits.take(5) == 0 else {}
        shown = response_of(digits, digits.text())
        answers.append({"functionResponse": {**ids, "name": name, "response": shown, **nested}})
    if digits.take(4) == 0:
        said.append({"text": "", "thoughtSignature": SIGNATURE})
    if all(part.get("thought") for part in said):
        said.append({"text": "Well."})
    if not answers:
        extra = digits.one((None, IMAGE, FILE, SOUND, {"text": ""}))
        answers = [{"text": "Go on."}, *([copy.deepcopy(extra)] if extra else [])]
    return [*in_pieces("model", said, digits.take(3)), *in_pieces("user", answers, digits.take(3))]


def in_pieces(role: str, parts: list[Any], how: int) -> Contents:
    """The parts as one content, or (as chats store a stream) as one content each."""
    if how or len(parts) < 2:
        return [{"role": role, "parts": parts}]
    return [{"role": role, "parts": [part]} for part in parts]


def snake(value: Any) -> Any:
    """The same contents with the field names of the REST API's other spelling; what a program made stays."""
    if isinstance(value, list):
        return [snake(v) for v in value]
    if not isinstance(value, dict):
        return value
    spell: Callable[[str], str] = lambda key: "".join(f"_{c.lower()}" if c.isupper() else c for c in key)  # noqa: E731
    return {spell(k): v if k in ("args", "response") else snake(v) for k, v in value.items()}


def as_objects(contents: Contents) -> Contents:
    return [Content.model_validate(content) for content in contents]


def plain(message: Any) -> Any:
    return WIRE.as_message(message)


@st.composite
def contents(draw: Any, *, rounds: int = 7) -> Contents:
    """Draw a session that ends where a model call would follow, in one of three spellings."""
    digits = Digits(draw(st.integers(0, 2**60)))
    made = in_pieces("user", [{"text": "Fix the ledger."}, *([copy.deepcopy(IMAGE)] if digits.take(2) else [])], 1)
    for number in range(draw(st.integers(1, rounds))):
        made += round_of(Digits(draw(st.integers(0, 2**140))), number, bool(digits.take(2)))
    spelling: Callable[[Contents], Contents] = digits.one((list, list, snake, as_objects))
    return spelling(made)


@given(contents())
def test_what_the_strategy_draws_is_accepted(session: Contents) -> None:
    assert WIRE.check(session) == []
    assert detect_format(session)[0] is WIRE
    assert all(Content.model_validate(message) for message in session)


@given(contents())
def test_written_without_edits_the_same_objects_leave(session: Contents) -> None:
    written = WIRE.write(session, view(WIRE.read(session), ()))
    assert all(a is b for a, b in zip(written, session, strict=True))


@given(contents())
def test_every_result_has_its_call(session: Contents) -> None:
    """Calls are paired by name and order where they have no id, over all contents of a side."""
    items = unique_call_ids(WIRE.read(session))
    calls = {i.call: i.name for i in items if i.kind == "call"}
    results = {i.call: i.name for i in items if i.kind == "result"}
    assert results == calls
    assert len(calls) == sum(i.kind == "call" for i in items)


@given(contents(), st.data())
def test_a_patched_part_keeps_every_other_field(session: Contents, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(session) - 1))
    message = plain(session[at])
    pieces = WIRE.split(session[at])
    assume(pieces)
    ordinal = data.draw(st.integers(0, len(pieces) - 1))
    text = json.dumps({"short": "x"}) if pieces[ordinal].kind == "call" else "short"
    before = copy.deepcopy(message)
    patched: Any = WIRE.patch(message, {ordinal: text})
    assert message == before
    again = WIRE.split(patched)
    same = pieces[ordinal].kind in ("media", "opaque")
    assert [p.text for p in again] == [p.text if n != ordinal or same else text for n, p in enumerate(pieces)]
    assert [(p.kind, p.name, p.call, p.failed) for p in again] == [(p.kind, p.name, p.call, p.failed) for p in pieces]
    assert without_texts(patched) == without_texts(message)
    assert Content.model_validate(patched)


def without_texts(message: Any) -> Any:
    """A content without what a patch may change."""
    changed = ("text", "args", "response")

    def strip(part: Any) -> Any:
        return {k: strip(v) if isinstance(v, dict) else v for k, v in part.items() if k not in changed}

    return {**message, "parts": [strip(WIRE.as_message(part)) for part in message["parts"]]}


@given(contents(), settings_of_runs)
def test_whatever_is_sent_is_valid_and_whatever_left_is_in_the_archive(session: Contents, setting: Setting) -> None:
    before, last = copy.deepcopy(session), list[Any]()
    engine = Compactor(setting.policy, model=setting.model, window=setting.window, prices=setting.prices,
                       format="gemini", clock=lambda: 0.0)  # fmt: skip
    turns = [plain(message) for message in session]
    cuts = [n for n in range(1, len(turns)) if WIRE.begins_turn(turns[n], turns[n - 1])]
    for number, cut in enumerate([*cuts, len(session)]):
        source = session[:cut]
        result = engine.compact(source, force=setting.force and number % 3 == 2)
        last = judge(engine, source, result, WIRE, last)
        assert all(Content.model_validate(message) for message in result.messages)
        assert WIRE.check(result.messages) == []
    assert session == before


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "gemini"])
@given(session=contents())
def test_conversion_there_and_back_keeps_texts_pairs_and_images(name: str, session: Contents) -> None:
    there = convert(session, name, source="gemini")
    assert find_format(name).check(there.payload) == []
    back = convert(there.payload, "gemini", source=name)
    assert WIRE.check(back.payload) == []
    assert all(Content.model_validate(message) for message in back.payload)
    held = [
        held_by(find_format(n), p) for n, p in (("gemini", session), (name, there.payload), ("gemini", back.payload))
    ]
    assert held[0] == held[1] == held[2]


def held_by(wire: Any, payload: Contents) -> list[Any]:
    items = unique_call_ids(wire.read(payload))
    texts = [i.text.strip() for i in items if i.kind == "text" and i.text.strip()]
    calls = [(i.call, i.name, json.loads(i.text)) for i in items if i.kind == "call"]
    results = [(i.call, i.name, i.text) for i in items if i.kind == "result"]
    images = sorted(str(image_source(i)) for i in items if i.kind == "media" and image_source(i))
    return [texts, calls, sorted(results), images]


def test_a_hand_over_joins_a_content_of_the_sdk() -> None:
    """Contents before a fold may be the SDK's own objects."""
    session = as_objects([
        {"role": "user", "parts": [{"text": "Fix the ledger."}]},
        *(c for n in range(30) for c in round_of(Digits(7**40 + n), n, named=False)),
    ])  # fmt: skip
    engine = Compactor("balanced", window=6000, format="gemini")
    result = engine.compact(session, force="full")
    assert result.ok, result.fault
    assert any(edit.by == "summarize" for edit in result.edits)
    assert all(Content.model_validate(message) for message in result.messages)


BROKEN: dict[str, tuple[Contents, str]] = {
    "nothing": ([], "not empty"),
    "a role of another format": ([{"role": "assistant", "parts": [{"text": "hi"}]}], "role"),
    "no content": (["hi"], "role"),
    "no part": ([{"role": "user", "parts": []}], "content"),
    "a part without data": ([{"role": "user", "parts": [{}]}], "content"),
    "a part with two kinds": ([{"role": "user", "parts": [{"text": "a", **IMAGE}]}], "content"),
    "a response that is text": (
        [{"role": "model", "parts": [{"functionCall": {"name": "f"}}]},
         {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": "ok"}}]}], "content"),
    "arguments that are a list": ([{"role": "model", "parts": [{"functionCall": {"name": "f", "args": [1]}}]}], "arguments"),
    "a call without a response": (
        [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}, {"functionCall": {"name": "f"}}]},
         {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}], "pairing"),
    "a response without a call": (
        [{"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}], "pairing"),
    "a call at the very beginning": ([{"role": "model", "parts": [{"function_call": {"name": "f", "args": {}}}]}], "first side"),
    "half a character": ([{"role": "user", "parts": [{"text": "\ud83d"}]}], "encoding"),
}  # fmt: skip
"""What is wrong → contents and the rule they break."""


@pytest.mark.parametrize("what", BROKEN)
def test_check_names_the_rule(what: str) -> None:
    broken, rule = BROKEN[what]
    assert rule in {problem.rule for problem in WIRE.check(broken)}


def test_a_failed_response_of_several_keys_stays_a_failure() -> None:
    failed = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"error": "long", "code": 5}}}]}
    patched: Any = WIRE.patch(failed, {0: "short"})
    assert WIRE.split(patched)[0].failed
    assert patched["parts"][0]["functionResponse"]["response"] == {"error": "short"}


def test_media_that_an_edit_names_stay_as_they_are() -> None:
    message = {"role": "user", "parts": [IMAGE, {"text": "this"}]}
    patched: Any = WIRE.patch(message, {0: "a picture"})
    assert patched["parts"][0] is IMAGE


def test_the_spelling_does_not_count() -> None:
    made = [{"role": "user", "parts": [{"text": "go"}]}, *round_of(Digits(3**60), 1, named=True)]
    sizes = {round(Compactor("off", format="gemini").compact(spelled).before, 6) for spelled in (made, snake(made))}
    assert len(sizes) == 1
