"""One example for every defect that a review found; the laws behind them stand in tests/laws."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from danshari import Compactor, compact, data
from danshari.analysis.facts import Facts
from danshari.formats import FORMATS
from danshari.testing import Call, Turn, conversation

LONG = "\n".join(f"line {n} of the ledger" for n in range(150))


def facts_of(*calls: Call) -> Facts:
    facts = Facts(data.load_tools(), data.load_estimator("o200k"))
    facts.extend(FORMATS["openai-chat"].read(conversation("openai-chat", "go", [Turn(calls=(c,)) for c in calls])))
    return facts


def bash(command: str, result: str = LONG, **more: Any) -> Call:
    return Call(name="Bash", arguments={"command": command, **more}, result=result)


@pytest.mark.parametrize(
    "second",
    [
        bash("tail -5 f"), bash("awk '/x/' f"), bash("sed -n '/a/,/b/p' f"), bash("cat f | wc -l"), bash("sed -n '1,20p;50,60p' f"),
        bash("cat f | sort"), bash("head -c 100 f"), bash("cat >> f <<EOF\nx\nEOF", "ok"), bash("cd /other && cat f"),
        bash("cat f", workdir="/other"), bash("cat > f <<EOF\nx\nEOF", "bash: f: Permission denied"),
    ],
    ids=lambda c: c.arguments["command"][:24],
)  # fmt: skip
def test_what_shows_less_or_something_else_covers_nothing(second: Call) -> None:
    assert facts_of(bash("cat f", LONG + "\nand this"), second).overtaken == {}


def test_a_relative_path_after_a_cd_is_another_file() -> None:
    assert facts_of(bash("cat setup.py"), bash("cd /other", "ok"), bash("cat setup.py", LONG + "\n2")).overtaken == {}


@pytest.mark.parametrize("more", [{"pages": "6-10"}, {"tail": 5}, {"offset": 3000}])
def test_native_reads_cover_only_spans_that_are_understood(more: dict[str, Any]) -> None:
    first = Call(name="Read", arguments={"file_path": "a", **more}, result=LONG)
    second = Call(name="Read", arguments={"file_path": "a", **({"pages": "1-5"} if "pages" in more else more if "tail" in more else {})},
                  result=LONG + "\nx")  # fmt: skip
    assert facts_of(first, second).overtaken == {}


def test_success_needs_evidence() -> None:
    bad = bash("make", LONG + "\nexit code 2")
    assert facts_of(bad, bash("make", "=== 3 failed in 1s ===")).overtaken == {}
    assert facts_of(bad, bash("make", "some text")).overtaken == {}
    assert 2 in facts_of(bad, bash("make", "12 passed")).overtaken
    other = "x" * 250
    assert facts_of(bash(other + "1", LONG + "\nexit code 2"), bash(other + "2", "12 passed")).overtaken == {}


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


def test_what_points_to_a_survivor_is_only_said_where_it_survives() -> None:
    reads = [Call(name="Read", arguments={"file_path": "a.py"}, result=LONG * 2 + f"\n{n}") for n in range(3)]
    short = [Call(name="Read", arguments={"file_path": f"{n}.py"}, result="x") for n in range(8)]
    policy = replace(data.load_policy("balanced"), admit_again=0, keep_evidence=0.1, keep_process=0.1)
    fresh = compact(
        conversation("openai-chat", "go", [Turn(calls=(c,)) for c in (*short, *reads)]), model="gpt-5", policy=policy
    )
    assert not fresh.edits, "the newest rounds stay"
    kept = compact(
        conversation("openai-chat", "go", [Turn(calls=(c,)) for c in (*reads, *short[:1] * 4)]),
        model="gpt-5",
        policy=policy,
    )
    assert [e.by for e in kept.edits] == ["superseded", "superseded"]
    gone = compact(
        conversation("openai-chat", "go", [Turn(calls=(c,)) for c in (*reads, *short)]), model="gpt-5", policy=policy
    )
    assert [e.by for e in gone.edits] == ["elide"] * 3


def test_marks_stay_within_four() -> None:
    turns = [Turn(text="word " * 200, calls=(bash("make", "ok " * 300),)) for _ in range(12)]
    messages = conversation("anthropic", "go", turns)
    for at in (0, 6, 12, 18):
        messages[at]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    messages[6]["content"].append({"type": "text", "text": "and this"})
    minor = replace(data.load_policy("balanced"), passes=("admit", "superseded", "elide", "evict"))
    for policy, by in ((minor, "evict"), ("balanced", "summarize")):
        result = Compactor(policy, window=5000, format="anthropic").compact(messages, force=True)
        assert any(e.by == by for e in result.edits)
        assert FORMATS["anthropic"].check(result.messages) == []


def test_reasoning_that_is_no_string_moves_no_patch() -> None:
    messages = conversation("openai-chat", "go", [
        Turn(text="hello", calls=(Call(name="Write", arguments={"file_path": "a", "content": LONG}, result="ok"),)),
        *[Turn(calls=(bash("true", "ok"),)) for _ in range(6)],
    ])  # fmt: skip
    messages[1]["reasoning_content"] = [{"t": 1}]
    shown = compact(messages, policy="repair").messages[1]
    assert shown["content"] == "hello"
    assert "compacted" in json.loads(shown["tool_calls"][0]["function"]["arguments"])["content"]


def test_undo_gives_back_what_was_shown_before_the_batch() -> None:
    log = "\n".join(f"2026-03-01 INFO worker {n} took {n}ms" for n in range(300))
    turns = [Turn(calls=(bash(f"make {n}", log),)) for n in range(10)]
    engine = Compactor("balanced", model="gpt-5")
    sizes = []
    for n in range(1, 11):
        sizes.append(engine.compact(conversation("openai-chat", "go", turns[:n])).after)
    forced = engine.compact(conversation("openai-chat", "go", turns), force=True)
    if forced.edits:
        assert engine.undo().after <= sizes[-1]


def test_undo_after_load_says_what_to_do() -> None:
    messages = conversation("openai-chat", "go", [Turn(calls=(bash(f"m {n}"),)) for n in range(10)])
    engine, again = Compactor("literal"), Compactor("literal")
    engine.compact(messages)
    again.load(engine.save())
    with pytest.raises(ValueError, match="call compact with the messages once"):
        again.undo()
    again.compact(messages)
    assert again.undo().messages == messages


def test_replace_mode_survives_moved_marks_and_a_rewind() -> None:
    turns = [Turn(calls=(Call(name="Read", arguments={"file_path": f"{n}"}, result=LONG),)) for n in range(10)]
    engine = Compactor("literal", mode="replace", format="anthropic")
    held = engine.compact(conversation("anthropic", "go", turns)).messages
    marked = json.loads(json.dumps(held))
    marked[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    more = [
        *marked,
        {"role": "assistant", "content": [{"type": "text", "text": "."}]},
        {"role": "user", "content": "on"},
    ]
    engine.compact(more)
    assert engine.recall("line 149")[0].entry.text == LONG
    assert len(engine.undo().messages) == len(more)
    storing = Compactor("literal", mode="replace", format="anthropic")
    held = storing.compact(conversation("anthropic", "go", turns)).messages
    storing.compact(held[:-2])
    assert storing.facts is not None
    assert all(i.text == LONG for i in storing.facts.items if i.kind == "result")


def test_media_are_archived() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 50}}
    messages = conversation("anthropic", "go", [Turn(text="w " * 900, calls=(bash("shot", "ok"),)) for _ in range(9)])
    messages[2]["content"][0]["content"] = [{"type": "text", "text": "seen"}, image]
    engine = Compactor("balanced", window=4000, format="anthropic")
    engine.compact(messages, force=True)
    assert any("QUJDQUJD" in passage.text for passage in engine.recall("image base64 media_type"))


def test_a_model_switch_is_a_cold_cache_and_a_request_brings_its_floor() -> None:
    turns = [Turn(calls=(bash(f"make {n}"),)) for n in range(9)]
    messages = conversation("openai-chat", "go", turns)
    engine = Compactor("balanced", model="gpt-5")
    engine.compact(messages)
    engine.set_model("gpt-5-mini")
    assert engine.compact(messages).trigger in ("cold cache", "")
    whole = {"model": "gpt-5", "messages": messages, "tools": [{"description": "word " * 3000}]}
    assert Compactor(model="gpt-5").compact(whole).after > Compactor(model="gpt-5").compact(messages).after + 2500
    plain = compact({"input": "hello"})
    assert plain.messages == {"input": "hello"}
    assert "nothing to compact" in plain.notes[0]


def test_keep_means_no_edit_of_sent_history() -> None:
    from dataclasses import replace

    keep = replace(data.load_policy("balanced"), thinking="keep")
    turns = [Turn(thinking="hm", calls=(bash(f"make {n}"),)) for n in range(12)]
    result = Compactor(keep, model="claude-opus-5-5", window=6000).compact(conversation("anthropic", "go", turns))
    assert not [e for e in result.edits if e.by != "admit"]


def test_stripping_reaches_the_newest_turn_once_its_loop_is_closed() -> None:
    turns = [Turn(thinking=f"t{n}", calls=(bash(f"make {n}"),)) for n in range(12)]
    messages = conversation("anthropic", "go", [*turns, Turn(thinking="last", text="Done.", user="Thanks, go on.")])
    engine = Compactor("balanced", model="claude-opus-5-5", clock=lambda: 0.0)
    result = engine.compact(messages, force=True)
    engine.undo() if engine.session.batches else None
    assert result.hints == {}
