"""What each pass proposes, on literal conversations."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from danshari import Compactor, compact, data
from danshari.analysis.terminal import clean_terminal_output
from danshari.compaction import Compaction
from danshari.core.placeholder import is_compacted_text
from danshari.testing import Call, Turn, conversation

LONG = "\n".join(f"{n}: the ledger keeps entry {n} of the book" for n in range(120))


def talk(*calls: Call, more: int = 6) -> list[Any]:
    filler = [Call(name="Bash", arguments={"command": f"true {n}"}, result="ok") for n in range(more)]
    return conversation("openai-chat", "Fix ledger_total.", [Turn(calls=(c,)) for c in (*calls, *filler)])


def shown(result: Compaction, name: str) -> list[str]:
    calls = {c["id"] for m in result.messages for c in m.get("tool_calls", ()) if c["function"]["name"] == name}
    return [m["content"] for m in result.messages if m.get("tool_call_id") in calls]


def test_admission_cleans_terminals() -> None:
    assert clean_terminal_output("\x1b[31mred\x1b[0m") == "red"
    assert clean_terminal_output("10%\r50%\rdone\nnext") == "done\nnext"
    assert clean_terminal_output("a\r\nb") == "a\nb"
    assert clean_terminal_output("x\bab\b\bcd") == "cd"
    assert clean_terminal_output("wait\n" * 9 + "go") == "wait\n[danshari: the line above stood 9 times in a row]\ngo"
    assert clean_terminal_output("plain\ntext") == "plain\ntext"


def test_admission_squeezes_first_sight_only() -> None:
    log = "\n".join(f"2026-03-01 INFO worker {n} took {n}ms" for n in range(300)) + "\nERROR ledger_total is off by one"
    engine = Compactor("balanced", model="gpt-5")
    first = talk(Call(name="Bash", arguments={"command": "make"}, result=log), more=0)
    text = engine.compact(first).messages[-1]["content"]
    assert len(text) < 2000
    assert "ERROR ledger_total is off by one" in text
    assert text.startswith("[danshari kept ")
    joined = [*first, {"role": "assistant", "content": "I see."}, {"role": "user", "content": "Go on."}]
    late = Compactor("balanced", model="gpt-5")
    assert late.compact(joined).messages[2]["content"] == log, "an item that was sent before is not first sight"


def test_file_reads_stay_whole_at_first_sight() -> None:
    for call in (
        Call(name="Read", arguments={"file_path": "a.py"}, result=LONG * 2),
        Call(name="Bash", arguments={"command": "cat a.py"}, result=LONG * 2),
        Call(name="Bash", arguments={"command": "sed -n '1,400p' a.py"}, result=LONG * 2),
    ):
        assert not Compactor("balanced").compact(talk(call, more=0)).edits


def test_a_long_read_keeps_blocks_of_its_likeliest_lines_and_says_how_to_get_the_rest() -> None:
    source = "\n\n".join(f"def step_{n}(ledger):\n    entry = ledger[{n}]\n    return entry.total" for n in range(400))
    read = Call(name="Read", arguments={"file_path": "a.py"}, result=source)
    edit = Compactor("balanced").compact(talk(read, more=0)).edits[0]
    assert edit.why == f"first sight of {len(source)} characters of a file"
    head, *kept = edit.text.split("\n")
    assert "read the span you need to see more" in head
    assert 0.5 * len(source) < len("\n".join(kept)) < 0.9 * len(source)
    assert {line.split("| ", 1)[-1] for line in kept} <= set(source.split("\n")), "verbatim lines only"
    small = Call(name="Read", arguments={"file_path": "a.py"}, result=source[:14_000])
    assert not Compactor("balanced").compact(talk(small, more=0)).edits


def test_a_result_of_any_kind_larger_than_a_quarter_of_the_window_is_squeezed() -> None:
    call = Call(name="Read", arguments={"file_path": "a.py"}, result=LONG * 30)
    result = Compactor("balanced", window=20_000).compact(talk(call, more=0))
    assert [e.by for e in result.edits] == ["admit"]
    assert len(shown(result, "Read")[0]) < 20_000


def test_a_read_again_shows_what_is_new_and_the_first_read_stays() -> None:
    part = Call(name="Read", arguments={"file_path": "a.py", "offset": 10, "limit": 20}, result=LONG)
    whole = Call(name="Read", arguments={"file_path": "a.py"}, result=LONG + "\nmore")
    old, new = shown(compact(talk(part, whole, more=1)), "Read")
    assert old == LONG
    assert new.endswith("\nmore")
    assert "unchanged since an earlier read" in new
    other = Call(name="Read", arguments={"file_path": "b.py"}, result=LONG + "\nother")
    assert shown(compact(talk(part, other)), "Read") == [LONG, LONG + "\nother"]


def test_without_that_re_reads_point_to_the_surviving_view() -> None:
    policy = replace(data.load_policy("balanced"), admit_again=0)
    part = Call(name="Read", arguments={"file_path": "a.py", "offset": 10, "limit": 20}, result=LONG)
    whole = Call(name="Read", arguments={"file_path": "a.py"}, result=LONG + "\nmore")
    old, new = shown(compact(talk(part, whole), policy=policy), "Read")
    assert json.loads(old)["gist"] == "the file was read again later"
    assert new == whole.result


def test_an_error_overtaken_by_success() -> None:
    bad = Call(name="Bash", arguments={"command": "pytest -q"}, result=LONG[:2000] + "\nexit code 1")
    good = Call(name="Bash", arguments={"command": "pytest  -q"}, result="3 passed")
    result = compact(talk(bad, good))
    assert json.loads(shown(result, "Bash")[0])["gist"] == "the same command succeeded later"


def test_a_view_before_a_rewrite_goes_and_one_before_an_edit_stays() -> None:
    read = Call(name="Read", arguments={"file_path": "a.py"}, result=LONG)
    write = Call(name="Write", arguments={"file_path": "a.py", "content": LONG}, result="ok")
    edit = Call(name="Edit", arguments={"file_path": "a.py", "old_string": "x", "new_string": "y"}, result="ok")
    assert "written anew" in shown(compact(talk(read, write)), "Read")[0]
    assert shown(compact(talk(read, edit)), "Read") == [LONG]


def test_written_bodies_go_and_notes_stay() -> None:
    write = Call(name="Write", arguments={"file_path": "a.py", "content": LONG}, result="ok")
    note = Call(name="frobnicate", arguments={"thought": LONG}, result="ok")
    assert compact(talk(write, note)).edits == (), "by default what the agent wrote stays"
    result = compact(talk(write, note), policy="repair")
    arguments = [json.loads(c["function"]["arguments"]) for m in result.messages for c in m.get("tool_calls", ())]
    assert arguments[0]["file_path"] == "a.py"
    assert is_compacted_text(arguments[0]["content"])
    assert "written to disk" in arguments[0]["content"]
    assert arguments[1]["thought"] == LONG


def test_a_failed_write_keeps_its_body() -> None:
    write = Call(name="Write", arguments={"file_path": "a.py", "content": LONG}, result="Error: permission denied")
    result = compact(talk(write))
    assert json.loads(result.messages[1]["tool_calls"][0]["function"]["arguments"])["content"] == LONG


def test_old_plans_go_and_the_newest_stays() -> None:
    todo = [Call(name="TodoWrite", arguments={"todos": [{"content": f"{n} " * 400}]}, result="ok") for n in range(3)]
    result = compact(talk(*todo))
    arguments = [c["function"]["arguments"] for m in result.messages for c in m.get("tool_calls", ())][:3]
    assert [is_compacted_text(a) for a in arguments] == [True, True, False]


def test_eviction_drops_whole_rounds_oldest_first_and_says_when_nothing_helps() -> None:
    turns = [
        Turn(text="word " * 300, calls=(Call(name="Bash", arguments={"command": "true"}, result="ok"),))
        for _ in range(20)
    ]
    messages = conversation("openai-chat", "Fix it.", turns)
    minor = replace(data.load_policy("balanced"), passes=("admit", "superseded", "elide", "evict"))
    result = Compactor(minor, window=4000).compact(messages)
    assert result.after <= 4000
    assert {e.by for e in result.edits} == {"evict"}
    assert result.messages[0] == messages[0]
    assert result.messages[-2:] == messages[-2:]
    stuck = Compactor(minor, window=4000).compact([{"role": "user", "content": "word " * 9000}])
    assert any("cannot fit" in note for note in stuck.notes)
    assert stuck.messages == [{"role": "user", "content": "word " * 9000}]


def test_a_view_with_a_read_shown_again_is_left_as_it_is_when_it_comes_back() -> None:
    prose = "The parser keeps an entry and refuses the rest. " * 55
    reads = [Call(name="Read", arguments={"file_path": "t.py", "offset": 1}, result=prose) for _ in range(2)]
    other = [Call(name="Read", arguments={"file_path": f"{n}.py"}, result="ok") for n in range(2)]
    once = compact(talk(reads[0], other[0], reads[1], other[1], more=1))
    assert any(e.by == "admit" for e in once.edits)
    assert compact(once.messages).messages == once.messages
