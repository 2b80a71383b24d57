"""Files that are read again: what is new is shown, what is in sight is named."""

from __future__ import annotations

import json

from danshari import Compactor, compact
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import LEDGER_BOOK, POLICY, ledger_talk, shown_results


def shown_again(*versions: str) -> list[str]:
    """Read a file in two versions; give the lines that are shown of the second."""
    turns = [Turn(calls=(Call(name="Read", arguments={"file_path": "m.py"}, result=text),)) for text in versions]
    engine = Compactor("balanced")
    engine.compact(conversation("openai-chat", "go", turns[:1]))
    text = engine.compact(conversation("openai-chat", "go", turns)).messages[-1]["content"]
    return [line.split("| ", 1)[-1] for line in text.split("\n")]


def test_moved_and_repeated_code_is_shown() -> None:
    a, b, c = ("\n".join(f"def {name}_{n}(): return {n} * ledger" for n in range(40)) for name in "abc")
    moved = shown_again(f"{a}\n{b}\n{c}", f"{c}\n{a}\n{b}")
    first, last = sum(line in moved for line in f"{a}\n{b}".split("\n")), sum(line in moved for line in c.split("\n"))
    assert first >= 78 or last >= 38
    repeated = shown_again(f"{a}\n{b}", f"{a}\n{b}\n{a}")
    assert sum(line in repeated for line in a.split("\n")) >= 38


def test_few_numbers_only_where_a_tool_numbers_unasked() -> None:
    shown = "\n".join(f"{n + 1:6}→value_{n} = {n}" for n in range(300))
    for name, arguments, fewer in (
        ("Read", {"file_path": "a.py"}, True), ("Bash", {"command": "cat -n a.py"}, False),
        ("open", {"path": "a.py"}, False),
    ):  # fmt: skip
        messages = conversation(
            "openai-chat", "go", [Turn(calls=(Call(name=name, arguments=arguments, result=shown),))]
        )
        result = Compactor("balanced").compact(messages)
        text = json.dumps(result.messages, ensure_ascii=False)
        assert (f"{299:6}→" not in text) is fewer, name
        assert f"{300:6}→" in text
    kept = Compactor(POLICY.with_fields(admit_number_every=1)).compact(messages)
    assert not kept.edits


def test_a_read_again_shows_what_is_new_and_the_first_read_stays() -> None:
    part = Call(name="Read", arguments={"file_path": "a.py", "offset": 10, "limit": 20}, result=LEDGER_BOOK)
    whole = Call(name="Read", arguments={"file_path": "a.py"}, result=LEDGER_BOOK + "\nmore")
    old, new = shown_results(compact(ledger_talk(part, whole, more=1)), "Read")
    assert old == LEDGER_BOOK
    assert new.endswith("\nmore")
    assert "unchanged since an earlier read" in new
    other = Call(name="Read", arguments={"file_path": "b.py"}, result=LEDGER_BOOK + "\nother")
    assert shown_results(compact(ledger_talk(part, other)), "Read") == [LEDGER_BOOK, LEDGER_BOOK + "\nother"]


def test_a_view_with_a_read_shown_again_is_left_as_it_is_when_it_comes_back() -> None:
    prose = "The parser keeps an entry and refuses the rest. " * 55
    reads = [Call(name="Read", arguments={"file_path": "t.py", "offset": 1}, result=prose) for _ in range(2)]
    other = [Call(name="Read", arguments={"file_path": f"{n}.py"}, result="ok") for n in range(2)]
    once = compact(ledger_talk(reads[0], other[0], reads[1], other[1], more=1))
    assert any(e.by == "admit" for e in once.edits)
    assert compact(once.messages).messages == once.messages
