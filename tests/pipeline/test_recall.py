"""Recall: by id and words, as tools in three formats, bounded, fresh, learning, across sessions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import ToolParam
from openai.types.chat import ChatCompletionToolParam
from pydantic import TypeAdapter

from danshari import Compactor, Filters, RecallError, data
from danshari.archive.sqlite import SqliteArchive
from danshari.core.edits import Restore
from danshari.core.recall_tools import READ_TOOL, SEARCH_TOOL, SYSTEM_PROMPT_HINT
from danshari.testing import Call, Turn, conversation

POLICY = data.load_policy("literal").with_fields(elide_placeholder="full", name="short")


def body(n: int) -> str:
    return "\n".join(f"def step_{n}_{k}(ledger): return {k}" for k in range(90))


def turns(count: int) -> list[Turn]:
    return [
        Turn(calls=(Call(name="Read", arguments={"file_path": f"src/m{n}.py"}, result=body(n)),)) for n in range(count)
    ]


def engine(count: int = 12, wire: str = "openai-chat", **options: Any) -> Compactor:
    made = Compactor(options.pop("policy", POLICY), format=wire, **options)
    made.compact(conversation(wire, "go", turns(count)))
    return made


def test_by_id_by_words_by_path_and_what_never_left() -> None:
    made = engine()
    items = {item.text: item for item in made.view().items if item.kind == "result"}
    assert made.recall(items[body(0)].digest[:12])[0].text == body(0)
    assert made.recall(items[body(11)].digest[:12])[0].text == body(11), "still in the conversation"
    assert made.recall("step_3_44")[0].entry.path == "src/m3.py"
    assert made.recall("src/m5.py")[0].entry.path == "src/m5.py"
    with pytest.raises(RecallError, match="in path 'nowhere': no archived original"):
        made.recall("step_3_44", filters=Filters(path="nowhere"))


def is_list_of_functions(tools: Any) -> bool:
    """The SDK's own type asks for more than its provider does."""
    return [set(t) for t in tools] == [{"type", "name", "description", "parameters"}] * 2


TAKEN: dict[str, Callable[[Any], Any]] = {
    "openai-chat": TypeAdapter(list[ChatCompletionToolParam]).validate_python,
    "openai-responses": is_list_of_functions,
    "anthropic": TypeAdapter(list[ToolParam]).validate_python,
}


@pytest.mark.parametrize("wire", TAKEN)
def test_the_definitions_are_what_the_providers_take(wire: str) -> None:
    tools = engine(wire=wire).recall_tools()
    assert TAKEN[wire](tools)
    assert [t.get("type", "function") for t in tools] == ["function", "function"]
    assert [t.get("function", t)["name"] for t in tools] == [SEARCH_TOOL, READ_TOOL]
    assert SEARCH_TOOL in SYSTEM_PROMPT_HINT
    assert READ_TOOL in SYSTEM_PROMPT_HINT


def test_a_search_is_short_and_a_read_gives_a_span_and_says_how_to_go_on() -> None:
    made = engine(policy=POLICY.with_fields(recall_length=1500))
    found = made.run_recall(SEARCH_TOOL, {"query": "step_3_44"})
    assert len(found) < 2500
    assert "45| def step_3_44(ledger): return 44" in found
    id_ = made.recall("step_3_44")[0].entry.id
    assert (
        made.run_recall(READ_TOOL, json.dumps({"id": id_, "start": 45, "end": 46})).split("\n")[1:]
        == body(3).split("\n")[44:46]
    )
    part = made.run_recall(READ_TOOL, {"id": id_})
    assert "go on with start=" in part.split("\n")[0]
    start = int(part.split("go on with start=")[1].split("]")[0])
    again = made.run_recall(READ_TOOL, {"id": id_, "start": start})
    whole = part.split("\n")[1:] + again.split("\n")[1:]
    assert whole == body(3).split("\n")[: len(whole)]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (SEARCH_TOOL, {}, "needs a query"),
        (SEARCH_TOOL, {"query": "zebra"}, "no archived original"),
        (READ_TOOL, {"id": "abcdef123"}, "no original has this id"),
        (READ_TOOL, {"id": "step", "start": "x"}, "Try"),
        (READ_TOOL, "not json", "Try"),
        (READ_TOOL, {"id": "step_3_44"}, "6 hex digits or more"),
        (READ_TOOL, '{"id": "abcdef", "start": 1e999}', "Try"),
        (READ_TOOL, None, "Try"),
        (SEARCH_TOOL, [1], "Try"),
        ("other", {}, "is no recall tool"),
    ],
)
def test_wrong_calls_say_what_to_do(name: str, arguments: Any, said: str) -> None:
    assert said in engine().run_recall(name, arguments)


def test_only_failures_are_found_when_asked_for() -> None:
    bad = Call(name="Bash", arguments={"command": "make ledger"}, result="Error: exit code 2\n" + body(1))
    good = Call(name="Bash", arguments={"command": "make invoice"}, result=body(2))
    made = Compactor(POLICY)
    made.compact(conversation("openai-chat", "go", [Turn(calls=(bad,)), Turn(calls=(good,)), *turns(6)]))
    assert "make ledger" in made.run_recall(SEARCH_TOOL, {"query": "ledger", "failed": True})
    assert "make invoice" not in made.run_recall(SEARCH_TOOL, {"query": "ledger", "failed": True})


def test_what_was_recalled_stays_while_fresh_and_goes_later() -> None:
    recalled = Call(name=READ_TOOL, arguments={"id": "abcdef123456"}, result=body(99))
    policy = data.load_policy("balanced").with_fields(
        commit_mode="always", elide_keep_rounds=2, elide_process=0.0, elide_keep_files=0
    )
    for later, kept in ((4, True), (9, False)):
        messages = conversation("openai-chat", "go", [Turn(calls=(recalled,)), *turns(later)])
        shown = Compactor(policy).compact(messages).messages
        assert (body(99) in [m.get("content") for m in shown]) is kept


def test_an_item_recalled_again_and_again_is_shown_at_its_place() -> None:
    made = engine()
    id_ = made.recall("step_0_5")[0].entry.id
    for _ in range(POLICY.recall.restore - 1):
        made.run_recall(READ_TOOL, {"id": id_})
    assert any(isinstance(e, Restore) and e.by == "recall" for e in made.session.ledger)
    assert made.learned == {"read": pytest.approx(1.5**3)}
    again = Compactor(POLICY)
    again.load(made.save())
    assert again.learned == made.learned
    again.reset_learned()
    assert again.learned == {}
    for _ in range(9):
        made.recall("step_1_5")
    assert made.learned == {"read": 4.0}


def test_a_kind_that_is_recalled_is_elided_less_readily() -> None:
    policy = data.load_policy("balanced").with_fields(elide_keep_rounds=1, elide_keep_files=0, commit_cooldown=1, commit_least=100, elide_process=0.0, recall_restore=0)  # fmt: skip
    made = Compactor(policy, model="claude-opus-4-5")
    made.compact(conversation("openai-chat", "go", turns(3)))
    careful = Compactor(policy, model="claude-opus-4-5")
    careful.load(made.save())
    careful.compact(conversation("openai-chat", "go", turns(3)))
    original = next(item.digest for item in careful.view().items if item.kind == "result")
    for _ in range(4):
        careful.recall(original[:12])
    assert careful.learned == {"read": 4.0}
    for n in range(4, 30):
        made.compact(conversation("openai-chat", "go", turns(n)))
        careful.compact(conversation("openai-chat", "go", turns(n)))
    assert len(careful.session.ledger) <= len(made.session.ledger)


def test_across_sessions_of_a_project(tmp_path: Path) -> None:
    archive = SqliteArchive(tmp_path / "a.db")
    engine(archive=archive, session="monday", project="shop")
    tuesday = Compactor(POLICY, archive=archive, session="tuesday", project="shop")
    tuesday.compact(conversation("openai-chat", "go", turns(1)))
    assert "no archived original" in tuesday.run_recall(SEARCH_TOOL, {"query": "step_3_44"})
    assert "src/m3.py" in tuesday.run_recall(SEARCH_TOOL, {"query": "step_3_44", "everywhere": True})
    other = Compactor(POLICY, archive=archive, session="wednesday", project="bank")
    assert "no archived original" in other.run_recall(SEARCH_TOOL, {"query": "step_3_44", "everywhere": True})


def test_words_that_look_like_ids_are_searched() -> None:
    made = Compactor(POLICY)
    calls = [
        Turn(calls=(Call(name="Bash", arguments={"command": "git log"}, result=f"commit deadbeef1 facade {n}\n" * 40),))
        for n in range(8)
    ]
    made.compact(conversation("openai-chat", "go", calls))
    assert "facade" in made.run_recall(SEARCH_TOOL, {"query": "facade"})
    assert "deadbeef1" in made.run_recall(SEARCH_TOOL, {"query": "deadbeef1"})


def test_a_line_longer_than_a_recall_is_read_in_stretches() -> None:
    made = Compactor(POLICY)
    long = "0123456789" * 3000
    calls = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"cat {n}"}, result=f"{n}\n{long}\nend"),))
        for n in range(8)
    ]
    made.compact(conversation("openai-chat", "go", calls))
    id_ = next(item.digest for item in made.view().items if item.kind == "result")
    got, heads, offset = "", ["offset=0"], 0
    while "offset=" in heads[-1] and len(heads) < 10:
        offset = int(heads[-1].split("offset=")[1].rstrip("]"))
        head, part = made.run_recall(READ_TOOL, {"id": id_, "start": 2, "offset": offset}).split("\n", 1)
        got += part
        heads.append(head)
    assert len(heads) > 2
    assert "go on with start=3" in heads[-1]
    assert got == long
