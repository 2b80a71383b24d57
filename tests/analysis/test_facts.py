"""Facts about a conversation: what overtakes what, what failed, what still matters."""

from __future__ import annotations

from typing import Any

import pytest

from danshari import data
from danshari.analysis.facts import Facts, is_failure_output
from danshari.analysis.tiers import tier_of
from danshari.formats import FORMATS
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import LEDGER_LINES, bash


def facts_of_calls(*calls: Call) -> Facts:
    facts = Facts(data.load_tools(), data.load_estimator("o200k"))
    facts.extend(FORMATS["openai-chat"].read(conversation("openai-chat", "go", [Turn(calls=(c,)) for c in calls])))
    return facts


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
    assert facts_of_calls(bash("cat f", LEDGER_LINES + "\nand this"), second).overtaken == {}


def test_a_relative_path_after_a_cd_is_another_file() -> None:
    assert (
        facts_of_calls(
            bash("cat setup.py"), bash("cd /other", "ok"), bash("cat setup.py", LEDGER_LINES + "\n2")
        ).overtaken
        == {}
    )


@pytest.mark.parametrize("more", [{"pages": "6-10"}, {"tail": 5}, {"offset": 3000}])
def test_native_reads_cover_only_spans_that_are_understood(more: dict[str, Any]) -> None:
    first = Call(name="Read", arguments={"file_path": "a", **more}, result=LEDGER_LINES)
    second = Call(name="Read", arguments={"file_path": "a", **({"pages": "1-5"} if "pages" in more else more if "tail" in more else {})},
                  result=LEDGER_LINES + "\nx")  # fmt: skip
    assert facts_of_calls(first, second).overtaken == {}


def test_success_needs_evidence() -> None:
    bad = bash("make", LEDGER_LINES + "\nexit code 2")
    assert facts_of_calls(bad, bash("make", "=== 3 failed in 1s ===")).overtaken == {}
    assert facts_of_calls(bad, bash("make", "some text")).overtaken == {}
    assert 2 in facts_of_calls(bad, bash("make", "12 passed")).overtaken
    other = "x" * 250
    assert (
        facts_of_calls(bash(other + "1", LEDGER_LINES + "\nexit code 2"), bash(other + "2", "12 passed")).overtaken
        == {}
    )


def test_tiers_fall_as_the_task_moves_on() -> None:
    turns = [
        Turn(calls=(Call(name="Grep", arguments={"pattern": "x"}, result="a.py:1:x"),)),
        Turn(calls=(Call(name="Read", arguments={"file_path": "a.py"}, result="x" * 300),)),
        Turn(
            calls=(
                Call(name="Edit", arguments={"file_path": "a.py", "old_string": "x", "new_string": "y"}, result="ok"),
            )
        ),
        Turn(calls=(Call(name="Read", arguments={"file_path": "a.py"}, result="y" * 300),)),
    ]
    facts = Facts(data.load_tools(), data.load_estimator("o200k"))
    facts.extend(FORMATS["openai-chat"].read(conversation("openai-chat", "go", turns)))
    tiers = {(i.name, i.turn): tier_of(facts, at) for at, i in enumerate(facts.items) if i.kind == "result"}
    assert tiers == {
        ("Grep", 1): "transient",
        ("Read", 2): "process",
        ("Edit", 3): "evidence",
        ("Read", 4): "evidence",
    }


@pytest.mark.parametrize(
    "text",
    [
        "error: x", "Failed", "Traceback (most recent", "<tool_use_error>", "fatal: no", "Your proposed edit has introduced new",
        "No replacement was made", "could not open", "Invalid argument", "<returncode>2", "exited with code 1", "exit code: 3",
        "Process exited with code 9", "Exit code 2", "Permission denied", "EACCES", "ENOENT", "EROFS", "Read-only file system",
        "No such file or directory", "Is a directory", "3 failed", "2 failures", "1 error", "String to replace not found",
        "old_str `x` did not appear", "File has not been read yet",
    ],
)  # fmt: skip
def test_every_sign_of_failure_passes_the_quick_look(text: str) -> None:
    assert is_failure_output(text)
    assert is_failure_output("x\n" * 900 + text) or text.lower().startswith(
        ("error", "failed", "trace", "fatal", "your", "no repl", "could", "invalid", "<tool")
    )
