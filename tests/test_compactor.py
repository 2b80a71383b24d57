"""The façade: arguments, odd input, modes, undo, pin, preview, save, usage, fail open, threads."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from danshari import (
    ArgumentError,
    Compaction,
    Compactor,
    FormatError,
    Policy,
    PolicyError,
    RecallError,
    SessionError,
    VersionError,
    compact,
)
from danshari.core.edits import Replace
from danshari.formats import find_format
from danshari.passes import Pass
from danshari.planning.proposal import Proposal
from danshari.testing import Call, ScriptedModel, Turn, conversation

TURNS = [
    Turn(
        calls=(
            Call(name="Read", arguments={"file_path": f"src/{n}.py"}, result=f"def f{n}():\n    return {n}\n" * 120),
        )
    )
    for n in range(14)
]


CHAT = conversation("openai-chat", "Fix it.", TURNS)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"policy": "nonsense"}, PolicyError, "balanced"),
        ({"policy": 7}, PolicyError, "must be a name"),
        ({"policy": "missing.toml"}, PolicyError, "no policy file"),
        ({"window": 0}, ArgumentError, "positive number"),
        ({"window": "big"}, ArgumentError, "positive number"),
        ({"model": 3}, ArgumentError, "name or a Model"),
        ({"prices": 0.1}, ArgumentError, "danshari.Prices"),
        ({"mode": "edit"}, ArgumentError, "'view' or 'replace'"),
        ({"format": "xml"}, ArgumentError, "openai-chat"),
    ],
)
def test_wrong_arguments_raise_clearly(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Compactor(**arguments)


@pytest.mark.parametrize("payload", [None, 7, "text", {"model": "x"}, {"messages": 3}])
def test_what_is_no_list_of_messages_raises(payload: Any) -> None:
    with pytest.raises(FormatError):
        compact(payload)


def test_sent_must_be_a_count() -> None:
    with pytest.raises(ArgumentError, match="sent = -1"):
        compact(CHAT, sent=-1)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "wizard", "content": "x"}],
        [{"role": "tool", "tool_call_id": "nobody", "content": "orphan " * 900}],
        [{"role": "user", "content": "\ud83d half"}],
        [None, 3, "x", ["y"]],
        [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{not json" * 500}}]}],
        [{"role": "user", "content": [{"type": "text", "text": None}, {"type": "mystery"}]}],
    ],
    ids=["empty", "role", "orphan", "surrogate", "junk", "bad arguments", "bad parts"],
)
def test_odd_content_passes_through(messages: list[Any]) -> None:
    before = json.dumps(messages)
    engine = Compactor("literal")
    engine.policy = engine.policy.with_fields(mend="off")
    result = engine.compact(messages)
    assert result.ok
    assert list(result.messages) == messages
    assert json.dumps(messages) == before


def test_mixed_formats_are_noted() -> None:
    mixed = [*CHAT, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}]
    result = compact(mixed)
    assert result.ok
    assert any("mixed formats" in note for note in result.notes)


def test_fifty_megabytes_in_one_message() -> None:
    huge = conversation(
        "openai-chat",
        "go",
        [Turn(calls=(Call(name="Bash", arguments={"command": "yes"}, result="yes no\n" * 7_000_000),))],
    )
    result = Compactor("balanced", model="gpt-5").compact(huge)
    assert result.ok
    assert len(result.messages[-1]["content"]) < 5000


def test_a_hundred_thousand_tiny_messages() -> None:
    tiny = [{"role": ("user", "assistant")[n % 2], "content": f"m{n}"} for n in range(100_000)]
    engine = Compactor("balanced", model="gpt-5", window=10_000_000)
    assert engine.compact(tiny).ok
    assert engine.compact([*tiny, {"role": "user", "content": "more"}]).ok


def test_a_call_still_running_is_left_alone() -> None:
    messages = conversation(
        "anthropic", "go", [*TURNS, Turn(calls=(Call(name="Bash", arguments={"command": "x" * 900}, result=None),))]
    )
    result = Compactor("literal", format="anthropic").compact(messages)
    assert result.messages[-1] == messages[-1]


def test_undo_pin_and_preview() -> None:
    engine = Compactor("literal")
    preview = engine.preview(CHAT)
    assert preview.edits
    assert engine.session.ledger == ()
    with pytest.raises(ArgumentError, match="nothing to undo"):
        engine.undo()
    result = engine.compact(CHAT)
    assert [e.id for e in result.edits if isinstance(e, Replace)] == [
        e.id for e in preview.edits if isinstance(e, Replace)
    ]
    assert engine.undo().messages == CHAT
    again = Compactor("literal")
    again.compact(CHAT)
    again.pin("def f2()")
    shown = again.compact([*CHAT, {"role": "assistant", "content": "."}, {"role": "user", "content": "on"}])
    assert shown.messages[CHAT.index(CHAT[6])]["content"] == CHAT[6]["content"]
    with pytest.raises(ArgumentError, match="non-empty"):
        again.pin("")


def test_focus_keeps_what_is_named() -> None:
    result = Compactor("literal").compact(CHAT, focus="def f1()")
    assert result.messages[4]["content"] == CHAT[4]["content"]
    assert result.messages[2]["content"] != CHAT[2]["content"]


def test_recall_by_id_and_by_words() -> None:
    engine = Compactor("literal", model="gpt-5")
    result = engine.compact(CHAT)
    edit = next(e for e in result.edits if isinstance(e, Replace))
    original = next(i for i in engine.view().items if i.id == edit.id)
    assert engine.recall(original.digest[:12])[0].text == original.text
    assert any("src/0.py" in passage.entry.label for passage in engine.recall("src/0.py"))
    with pytest.raises(RecallError, match="no archived original"):
        engine.recall("zzz-nothing")


def test_save_and_load_refuse_what_they_cannot_read() -> None:
    engine = Compactor("literal")
    for blob in ("", "{}", "[1]", '{"danshari": 1}'):
        with pytest.raises(SessionError, match="no saved danshari session"):
            engine.load(blob)
    with pytest.raises(VersionError, match="upgrade"):
        engine.load('{"danshari": 99}')


def test_usage_calibrates_in_both_spellings() -> None:
    engine = Compactor("balanced", model="claude-opus-4-5")
    plain = engine.compact(CHAT).after
    engine.observe({"input_tokens": 5, "cache_read_input_tokens": 30_000, "cache_creation_input_tokens": 1000})
    assert engine.compact(CHAT).after == 31_005
    other = Compactor("balanced", model="gpt-5")
    other.compact(CHAT)
    other.observe({"prompt_tokens": 9000, "prompt_tokens_details": {"cached_tokens": 8000}})
    assert other.compact(CHAT).after == 9000 != plain
    other.observe(None)
    with pytest.raises(ArgumentError, match="usage must be"):
        other.observe("many")


def test_tools_and_system_count_against_the_window() -> None:
    engine = Compactor("balanced", model="gpt-5")
    small = engine.compact(CHAT).after
    large = engine.compact(CHAT, tools=[{"name": "f", "description": "word " * 900}], system="word " * 900).after
    assert large > small + 1500


def test_model_switch_in_mid_session() -> None:
    engine = Compactor("balanced", model="gpt-5")
    assert engine.compact(CHAT).after > 8000
    engine.set_model("gpt-5", window=8000)
    result = engine.compact(CHAT)
    assert result.after <= 8000
    engine.set_model("claude-opus-4-5")
    assert engine.compact(CHAT).ok


def test_failing_open() -> None:
    """An internal fault: the last good view is sent, the fault is said, and the next call works again."""

    faulty = False

    def sometimes_broken() -> float:
        if faulty:
            raise RuntimeError("boom")
        return 0.0

    calls: list[Compaction] = []
    engine = Compactor("literal", on_compaction=calls.append, clock=sometimes_broken)
    good = engine.compact(CHAT)
    faulty = True
    more = [*CHAT, {"role": "assistant", "content": "."}, {"role": "user", "content": "on"}]
    failed = engine.compact(more)
    assert failed.fault == "RuntimeError: boom"
    assert failed.messages[: len(CHAT)] == good.messages
    fresh = Compactor("literal", clock=sometimes_broken).compact(more)
    assert fresh.messages == more
    faulty = False
    assert engine.compact(more).ok
    assert [c.ok for c in calls] == [True, False, True]


def raises(*_: Any) -> Any:
    raise ValueError("boom")


def proposes_nowhere(*_: Any) -> Any:
    return [Proposal(at=10_000, freed=9.0, by="nowhere", why="", write=str)]


@pytest.mark.parametrize("own", [raises, proposes_nowhere, lambda *_: None, lambda *_: [7]], ids=lambda f: f.__name__)
@pytest.mark.parametrize("force", [False, True, "full"])
def test_a_pass_of_the_callers_own_that_fails_costs_only_itself(own: Any, force: Any) -> None:
    with_it = Compactor("balanced", window=12_000, passes=[Pass("mine", own)], clock=lambda: 0.0)
    without = Compactor("balanced", window=12_000, clock=lambda: 0.0)
    for at in range(3, len(CHAT) + 1, 2):
        result, expected = (c.compact(CHAT[:at], force=force) for c in (with_it, without))
        assert result.fault == ""
        assert result.messages == expected.messages
        assert [note for note in result.notes if "mine" not in note] == list(expected.notes)
    assert with_it.policy == without.policy  # what a caller adds is no part of the policy


@pytest.mark.parametrize("wrong", [5, dict, type(find_format("anthropic")), "openai"])
def test_a_wrong_format_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="unknown format"):
        Compactor("balanced", format=wrong)
    with pytest.raises(ArgumentError, match="unknown format"):
        compact(CHAT, format=wrong)


@pytest.mark.parametrize(
    "wrong", [5, None, "elide", [Pass("x", None)], [Pass(3, raises)], [7], [Pass("elide", raises)]]
)  # type: ignore[arg-type]
def test_wrong_passes_are_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ArgumentError, match="passes"):
        Compactor("balanced", passes=wrong)


def test_threads_share_one_compactor() -> None:
    engine = Compactor("literal")
    views: list[str] = []

    def work() -> None:
        for at in range(3, len(CHAT) + 1, 2):
            views.append(json.dumps(engine.compact(CHAT[:at]).messages[-1]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(views) == 4 * 14
    assert not [v for v in views if '"fault"' in v]


def test_same_bytes_in_any_process() -> None:
    code = (
        "import json, sys; from danshari import Compactor; from danshari.cli.report import bundled_sessions;"
        "from danshari.sessions import read; s = next(iter(read(bundled_sessions()[0])));"
        "e = Compactor('balanced', model='claude-opus-4-5', format=s.format, clock=lambda: 0.0);"
        "print(json.dumps([e.compact(s.messages[:n]).messages for n in range(1, len(s.messages), 2)][-1]))"
    )
    outs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outs) == 1


def test_a_real_loop_with_a_model_that_refuses_what_providers_refuse() -> None:
    """View mode in an agent loop: every request is accepted, the cache is hit, usage calibrates."""
    model = ScriptedModel("anthropic", TURNS)
    engine = Compactor("balanced", model="claude-opus-4-5")
    history = conversation("anthropic", "Fix it.", [])
    for turn in TURNS:
        request = engine.compact(history)
        assert model(request.messages) == turn
        engine.observe(model.usages[-1]["prompt_tokens"])
        built = conversation("anthropic", "x", [turn])[1:]
        for message in built:  # give the calls of this turn ids of their own
            for block in message["content"]:
                for key in ("id", "tool_use_id"):
                    if key in block:
                        block[key] = f"turn{len(history)}_{block[key]}"
        history = [*history, *built]
    assert sum(u["cached"] for u in model.usages) > 0.7 * sum(u["prompt_tokens"] for u in model.usages)


def test_policies_are_values() -> None:
    mine = Policy().with_fields(name="mine", elide_keep_rounds=1)
    assert Compactor(mine).policy is mine
    assert str(Compactor(mine).compact(CHAT)).startswith("mine · openai-chat")
    assert json.loads(json.dumps(Compactor(mine).compact(CHAT).to_dict()))["policy"] == "mine"
