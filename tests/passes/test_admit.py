"""First sight: long output is shortened before it is ever sent, files stay whole."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from danshari import Compactor
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import LEDGER_BOOK, bash, ledger_talk, shown_results


def test_admission_squeezes_first_sight_only() -> None:
    log = "\n".join(f"2026-03-01 INFO worker {n} took {n}ms" for n in range(300)) + "\nERROR ledger_total is off by one"
    engine = Compactor("balanced", model="gpt-5")
    first = ledger_talk(Call(name="Bash", arguments={"command": "make"}, result=log), more=0)
    text = engine.compact(first).messages[-1]["content"]
    assert len(text) < 2000
    assert "ERROR ledger_total is off by one" in text
    assert text.startswith("[danshari kept ")
    joined = [*first, {"role": "assistant", "content": "I see."}, {"role": "user", "content": "Go on."}]
    late = Compactor("balanced", model="gpt-5")
    assert late.compact(joined).messages[2]["content"] == log, "an item that was sent before is not first sight"


def test_file_reads_stay_whole_at_first_sight() -> None:
    for call in (
        Call(name="Read", arguments={"file_path": "a.py"}, result=LEDGER_BOOK * 2),
        Call(name="Bash", arguments={"command": "cat a.py"}, result=LEDGER_BOOK * 2),
        Call(name="Bash", arguments={"command": "sed -n '1,400p' a.py"}, result=LEDGER_BOOK * 2),
    ):
        assert not Compactor("balanced").compact(ledger_talk(call, more=0)).edits


def test_a_result_of_any_kind_larger_than_a_quarter_of_the_window_is_squeezed() -> None:
    call = Call(name="Read", arguments={"file_path": "a.py"}, result=LEDGER_BOOK * 30)
    result = Compactor("balanced", window=20_000).compact(ledger_talk(call, more=0))
    assert [e.by for e in result.edits] == ["admit"]
    assert len(shown_results(result, "Read")[0]) < 20_000


def test_file_reads_are_never_cleaned() -> None:
    text = "one\rtwo\n" + "same\n" * 9
    call = Call(name="Read", arguments={"file_path": "a"}, result=text)
    assert not Compactor("balanced").compact(conversation("openai-chat", "go", [Turn(calls=(call,))])).edits


def test_cleaning_leaves_no_blank_result() -> None:
    messages = conversation("anthropic", "go", [Turn(calls=(bash("clear", "\x1b[2J\x1b[H\n"),))])
    assert Compactor("balanced").compact(messages).messages == messages


def test_escapes_are_gone_from_squeezed_output() -> None:
    noisy = "\n".join(f"\x1b[32m{n}\x1b[0m worker ran" for n in range(400))
    shown = Compactor("balanced").compact(conversation("openai-chat", "go", [Turn(calls=(bash("make", noisy),))]))
    assert "\x1b" not in shown.messages[-1]["content"]


@given(
    tool=st.text("abcdefghij", min_size=3, max_size=8).map(lambda t: f"mcp__zz__{t}"),
    asked=st.dictionaries(st.text("abcdef", min_size=1, max_size=4), st.integers(0, 9), min_size=1, max_size=3),
    rows=st.integers(350, 900),
    again=st.integers(1, 3),
)
@settings(max_examples=25, deadline=None)
def test_an_unknown_tool_asked_again_shows_everything(tool: str, asked: dict[str, int], rows: int, again: int) -> None:
    """The first answer is shortened and says how to get the rest; each repeat is whole, however its keys are ordered."""
    table = "\n".join(f"{n}\t{n * 37 % 101}\tcustomer-{n}\tlate" for n in range(rows))
    messages = [{"role": "user", "content": "Which are late?"}]
    engine = Compactor("balanced", model="gpt-5")
    shown = []
    for turn in range(again + 1):
        arguments = json.dumps(dict(sorted(asked.items(), reverse=bool(turn % 2))))
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": tool, "arguments": arguments}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},  # type: ignore[dict-item]
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": table},
        ]
        shown.append(engine.compact(messages).messages[-1]["content"])
    assert len(shown[0]) < len(table) / 2
    assert "the same call again shows all" in shown[0]
    assert shown[1:] == [table] * again
