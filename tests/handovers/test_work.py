"""What a hand-over says of work: tests, files, todo lists, what still runs."""

from __future__ import annotations

import pytest

from danshari import handover
from danshari.handovers.work import edit_line_range
from danshari.testing import Call, Turn, conversation
from tests.support.material.documents import PYTEST, document_of, field_texts
from tests.support.material.ledger import bash

GO = """\
--- FAIL: TestParse (0.00s)
    parser_test.go:31: got 15, want 1.5
FAIL
FAIL	example.com/parser	0.003s
FAIL"""


CARGO = """\
test parse::commas ... FAILED
---- parse::commas stdout ----
thread 'parse::commas' panicked at src/lib.rs:10:5:
  left: 15
 right: 1.5
test result: FAILED. 2 passed; 1 failed; 0 ignored"""


JEST = """\
FAIL src/parser.test.ts
  ● parse › commas
    Expected: 1.5
    Received: 15
Tests:       1 failed, 2 passed, 3 total"""


MAVEN = """\
[ERROR] Tests run: 3, Failures: 1, Errors: 0
[ERROR] ParserTest.commas:31 expected:<1.5> but was:<15>
[INFO] BUILD FAILURE"""


@pytest.mark.parametrize(
    ("command", "output", "named"),
    [
        ("pytest -q tests", PYTEST, ["test_commas", "E       AssertionError: assert 15 == 1.5", "1 failed, 2 passed"]),
        ("go test ./...", GO, ["--- FAIL: TestParse", "parser_test.go:31: got 15, want 1.5"]),
        ("cargo test", CARGO, ["parse::commas", "panicked at src/lib.rs:10:5", "test result: FAILED"]),
        ("npm test -- --run", JEST, ["src/parser.test.ts", "Expected: 1.5", "1 failed, 2 passed"]),
        ("mvn -q test", MAVEN, ["Tests run: 3, Failures: 1", "ParserTest.commas:31"]),
        ("make check", "lint ok\nmake: *** [check] Error 2", ["Error 2"]),
    ],
)
def test_the_failing_test_is_named_with_its_message(command: str, output: str, named: list[str]) -> None:
    document = document_of(Turn(calls=(bash(command, output, failed=True),)), Turn(text="I see."))
    found = "\n".join(field_texts(document, "tests"))
    assert command in found
    assert all(name in found for name in named)
    assert document["tests"][0].label == "failed"


def test_a_later_pass_clears_the_failure_and_says_so() -> None:
    document = document_of(
        Turn(calls=(bash("pytest", PYTEST, failed=True),)),
        Turn(calls=(bash("pytest", "3 passed in 0.10s"),)),
    )
    assert [p.label for p in document["tests"]] == ["passed"]
    assert "3 passed" in field_texts(document, "tests")[0]
    assert document["ruled_out"][0].label == "solved later"


def test_files_with_their_last_lines_and_what_was_deleted() -> None:
    snippet = "The file src/a.py has been updated.\n  41\tdef a():\n  42\t    return 1\n  43\t"
    arguments = {"file_path": "src/a.py", "old_string": "x", "new_string": "y"}
    edited = Turn(calls=(Call(name="Edit", arguments=arguments, result=snippet),))
    document = document_of(
        edited,
        edited,
        Turn(calls=(Call(name="Write", arguments={"file_path": "src/b.py", "content": "b"}, result="ok"),)),
        Turn(calls=(bash("rm -f src/old.py && mv src/c.py src/d.py", "done"),)),
    )
    assert field_texts(document, "files") == [
        "src/a.py · edited ×2 · lines 41-43", "src/b.py · created", "src/old.py · deleted", "src/c.py · deleted",
    ]  # fmt: skip
    assert edit_line_range("@@ -1,2 +10,4 @@\n x\n@@ -9 +30 @@") == (10, 30)


def test_todo_lists_in_every_shape() -> None:
    todos = [{"content": "read", "status": "completed"}, {"content": "mend it", "status": "in_progress"}]
    whole = document_of(Turn(calls=(Call(name="TodoWrite", arguments={"todos": todos}, result="ok"),)))
    assert [(p.label, p.text) for p in whole["todo"]] == [("in_progress", "mend it"), ("completed", "read")]
    plan = document_of(
        Turn(calls=(Call(name="update_plan", arguments={"plan": [{"step": "one", "status": "pending"}]}, result="ok"),))
    )
    assert [(p.label, p.text) for p in plan["todo"]] == [("pending", "one")]
    single = document_of(
        Turn(calls=(Call(name="TaskCreate", arguments={"subject": "mend it"}, result="Task #1 created"),)),
        Turn(calls=(Call(name="TaskCreate", arguments={"subject": "test it"}, result="Task #2 created"),)),
        Turn(calls=(Call(name="TaskUpdate", arguments={"taskId": "1", "status": "completed"}, result="ok"),)),
    )
    assert [(p.label, p.text) for p in single["todo"]] == [("pending", "test it"), ("completed", "mend it")]
    mode = document_of(
        Turn(calls=(Call(name="ExitPlanMode", arguments={"plan": "1. read\n2. mend"}, result="approved"),))
    )
    assert [(p.label, p.text) for p in mode["todo"]] == [("plan", "1. read\n2. mend")]


def test_what_runs_stays_until_it_is_seen_to_end() -> None:
    started = Turn(calls=(bash("npm run dev", "Command running in background with ID: bash_12"),))
    document = document_of(started, Turn(text="ok"))
    assert field_texts(document, "handles")[0].startswith("bash_12 · running · npm run dev")
    ended = Turn(
        calls=(Call(name="BashOutput", arguments={"id": "bash_12"}, result="bash_12 completed with exit code 0"),)
    )
    assert document_of(started, ended)["handles"] == ()


def test_only_a_test_is_a_test_and_only_the_same_or_a_wider_one_clears_a_failure() -> None:
    def told(*commands: tuple[str, bool]) -> list[tuple[str, str]]:
        turns = [
            Turn(
                calls=(
                    Call(
                        name="Bash",
                        arguments={"command": c},
                        result="ok" if good else "Exit code 1\n1 failed",
                        failed=not good,
                    ),
                )
            )
            for c, good in commands
        ]
        found = handover(conversation("openai-chat", "go", turns))["tests"]
        return [(p.label, p.text.split("\n")[0]) for p in found]

    assert told(("pytest tests/b.py", False), ('git commit -m "just fix typo"', True), ("mkdir mix", True)) == [
        ("failed", "pytest tests/b.py")
    ]
    assert ("failed", "pytest tests/b.py") in told(("pytest tests/b.py", False), ("pytest tests/a.py", True))
    assert told(("pytest tests/b.py", False), ("pytest -q", True)) == [("passed", "pytest -q")]


def test_lists_emptied_and_handles_told_apart() -> None:
    todos = [{"content": "old task", "status": "pending"}]
    turns = [Turn(calls=(Call(name="TodoWrite", arguments={"todos": t}, result="ok"),)) for t in (todos, [])]
    assert handover(conversation("openai-chat", "go", turns))["todo"] == ()
    jobs = [
        Turn(calls=(Call(name="Bash", arguments={"command": "dev"}, result="running in background with ID: bash_1"),)),
        Turn(calls=(Call(name="BashOutput", arguments={"id": "bash_12"}, result="bash_12 has completed"),)),
    ]
    assert len(handover(conversation("openai-chat", "go", jobs))["handles"]) == 1
    said = [
        Turn(text="Confirmed: the handler in `api.py` is broken."),
        Turn(text="Confirmed: the handler in `db.py` is broken."),
    ]
    assert len(handover(conversation("openai-chat", "go", said))["conclusions"]) == 2
