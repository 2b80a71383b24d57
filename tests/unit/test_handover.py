"""What the extractor finds, field by field; English and Chinese."""

from __future__ import annotations

import json
from typing import Any

import pytest

from danshari import data, handover, handover_text
from danshari.analysis.identifiers import find_names
from danshari.core.handover import Handover
from danshari.errors import ArgumentError
from danshari.handovers.claims import claim_key as without_values
from danshari.handovers.language import detect_language
from danshari.handovers.work import edit_line_range
from danshari.pipeline.masking import mask_secrets
from danshari.testing import Call, Turn, conversation


def bash(command: str, result: str, **more: Any) -> Call:
    return Call(name="Bash", arguments={"command": command}, result=result, **more)


def of(*turns: Turn, request: str = "Fix the parser.", **options: Any) -> Handover:
    return handover(conversation("anthropic", request, turns), format="anthropic", **options)


def texts(document: Handover, name: str) -> list[str]:
    return [p.text for p in document[name]]


PYTEST = """\
============================= test session starts ==============================
collected 3 items
tests/test_parser.py .F.                                                [100%]
=================================== FAILURES ===================================
__________________________________ test_commas _________________________________
>       assert parse("1,5") == 1.5
E       AssertionError: assert 15 == 1.5
tests/test_parser.py:12: AssertionError
=========================== short test summary info ============================
FAILED tests/test_parser.py::test_commas - AssertionError: assert 15 == 1.5
========================= 1 failed, 2 passed in 0.12s =========================="""
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
    document = of(Turn(calls=(bash(command, output, failed=True),)), Turn(text="I see."))
    found = "\n".join(texts(document, "tests"))
    assert command in found
    assert all(name in found for name in named)
    assert document["tests"][0].label == "failed"


def test_a_later_pass_clears_the_failure_and_says_so() -> None:
    document = of(
        Turn(calls=(bash("pytest", PYTEST, failed=True),)),
        Turn(calls=(bash("pytest", "3 passed in 0.10s"),)),
    )
    assert [p.label for p in document["tests"]] == ["passed"]
    assert "3 passed" in texts(document, "tests")[0]
    assert document["ruled_out"][0].label == "solved later"


def test_files_with_their_last_lines_and_what_was_deleted() -> None:
    snippet = "The file src/a.py has been updated.\n  41\tdef a():\n  42\t    return 1\n  43\t"
    arguments = {"file_path": "src/a.py", "old_string": "x", "new_string": "y"}
    edited = Turn(calls=(Call(name="Edit", arguments=arguments, result=snippet),))
    document = of(
        edited,
        edited,
        Turn(calls=(Call(name="Write", arguments={"file_path": "src/b.py", "content": "b"}, result="ok"),)),
        Turn(calls=(bash("rm -f src/old.py && mv src/c.py src/d.py", "done"),)),
    )
    assert texts(document, "files") == [
        "src/a.py · edited ×2 · lines 41-43", "src/b.py · created", "src/old.py · deleted", "src/c.py · deleted",
    ]  # fmt: skip
    assert edit_line_range("@@ -1,2 +10,4 @@\n x\n@@ -9 +30 @@") == (10, 30)


def test_todo_lists_in_every_shape() -> None:
    todos = [{"content": "read", "status": "completed"}, {"content": "mend it", "status": "in_progress"}]
    whole = of(Turn(calls=(Call(name="TodoWrite", arguments={"todos": todos}, result="ok"),)))
    assert [(p.label, p.text) for p in whole["todo"]] == [("in_progress", "mend it"), ("completed", "read")]
    plan = of(
        Turn(calls=(Call(name="update_plan", arguments={"plan": [{"step": "one", "status": "pending"}]}, result="ok"),))
    )
    assert [(p.label, p.text) for p in plan["todo"]] == [("pending", "one")]
    single = of(
        Turn(calls=(Call(name="TaskCreate", arguments={"subject": "mend it"}, result="Task #1 created"),)),
        Turn(calls=(Call(name="TaskCreate", arguments={"subject": "test it"}, result="Task #2 created"),)),
        Turn(calls=(Call(name="TaskUpdate", arguments={"taskId": "1", "status": "completed"}, result="ok"),)),
    )
    assert [(p.label, p.text) for p in single["todo"]] == [("pending", "test it"), ("completed", "mend it")]
    mode = of(Turn(calls=(Call(name="ExitPlanMode", arguments={"plan": "1. read\n2. mend"}, result="approved"),)))
    assert [(p.label, p.text) for p in mode["todo"]] == [("plan", "1. read\n2. mend")]


def test_what_runs_stays_until_it_is_seen_to_end() -> None:
    started = Turn(calls=(bash("npm run dev", "Command running in background with ID: bash_12"),))
    document = of(started, Turn(text="ok"))
    assert texts(document, "handles")[0].startswith("bash_12 · running · npm run dev")
    ended = Turn(
        calls=(Call(name="BashOutput", arguments={"id": "bash_12"}, result="bash_12 completed with exit code 0"),)
    )
    assert of(started, ended)["handles"] == ()


def test_machine_made_user_text_is_no_user_word() -> None:
    reminder = "<system-reminder>\nNever push to main.\nToday is Monday.\n</system-reminder>"
    document = of(Turn(text="ok", user=reminder), Turn(text="ok", user=f"{reminder}\nAnd keep it short."))
    assert texts(document, "words") == ["Fix the parser.", "And keep it short."]
    assert texts(document, "rules") == ["Never push to main."]


def test_an_outsized_paste_is_data_inside_its_frame() -> None:
    log = "\n".join(f"line {n} of the log" for n in range(2_000))
    document = of(Turn(text="ok"), request=f"Why does this fail?\n{log}\nAnswer briefly.")
    words = texts(document, "words")[0]
    assert words.startswith("Why does this fail?")
    assert words.endswith("Answer briefly.")
    assert "characters left out" in words
    assert len(words) < 3_000


def test_statements_by_kind_and_the_newer_wins() -> None:
    document = of(
        Turn(text="The root cause is the comma in src/parse.py line 12. I decided to use Decimal instead of float."),
        Turn(text="Raising the limit to 40 did not help. Confirmed: the cache holds 12 entries."),
        Turn(text="Confirmed: the cache holds 15 entries."),
    )
    assert texts(document, "conclusions") == [
        "The root cause is the comma in src/parse.py line 12.",
        "Confirmed: the cache holds 15 entries.",
    ]
    assert texts(document, "decisions") == ["I decided to use Decimal instead of float."]
    assert "Raising the limit to 40 did not help." in texts(document, "ruled_out")
    assert without_values("Port 8080 is open.") == without_values("Port 9090 is open.")


def test_what_was_cancelled_is_gone() -> None:
    document = of(
        Turn(text="Decided: sessions go into Redis, because it is fast."),
        Turn(text="Cancelled: sessions no longer go into Redis although it is fast; Postgres takes them."),
    )
    assert [t for t in texts(document, "decisions") if t.startswith("Decided")] == []


def test_chinese_conversations_get_a_chinese_document() -> None:
    todos = [{"content": "修复解析器", "status": "in_progress"}]
    turns = (
        Turn(
            text="根本原因是 src/parse.py 第 12 行的逗号。决定改用 Decimal。",
            calls=(bash("pytest", PYTEST, failed=True),),
        ),
        Turn(
            text="把上限调到 40 没有效果。",
            calls=(Call(name="TodoWrite", arguments={"todos": todos}, result="ok"),),
            user="不要改动公共接口。",
        ),
    )
    document = of(*turns, request="请修复解析器的错误。")
    text = handover_text(document)
    assert document.language == "zh"
    assert "## 用户原话" in text
    assert "不要改动公共接口。" in text
    assert texts(document, "conclusions") == ["根本原因是 src/parse.py 第 12 行的逗号。"]
    assert texts(document, "decisions") == ["决定改用 Decimal。"]
    assert "把上限调到 40 没有效果。" in texts(document, "ruled_out")
    assert "## Goal" not in text


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Não altere o banco de dados.", "pt"), ("Continue com a correção.", "pt"), ("Corrige el archivo y no toques los datos.", "es"),
        ("Bitte ändere die Datei nicht und lass alle Tests laufen.", "de"), ("Corrige le fichier et ne touche pas aux données.", "fr"),
        ("テストを直してください。", "ja"), ("테스트를 고쳐 주세요.", "ko"), ("Исправь парсер в src/parse.py.", "ru"),
        ("Correggi il file e non toccare i dati.", "it"), ("请修复 src/parse.py", "zh"), ("Fix src/no_die_las.py and run `der die das`.", "en"),
        ("", "en"), ("go", "en"),
    ],
)  # fmt: skip
def test_the_language_of_the_user(text: str, language: str) -> None:
    assert detect_language([text], data.load_phrases().values()) == language


def test_every_language_has_every_word() -> None:
    english = data.load_phrases()["en"]
    for row in data.load_phrases().values():
        assert set(row.headings) == set(english.headings)
        assert len(set(row.headings.values())) == len(row.headings)
        assert set(row.texts) == set(english.texts)
        assert row.script or row.common
        assert "]" not in row.opening


def test_secrets_are_masked_and_ordinary_code_is_not() -> None:
    secrets = {
        "api key": "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2", "github token": "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
        "aws key id": "AKIA" + "ABCDEFGH23456789", "slack token": "xoxb-" + "123456789012-abcdefGHIJ",
    }  # fmt: skip
    for kind, secret in secrets.items():
        assert mask_secrets(f"KEY={secret} rest") == f"KEY=[masked: {kind}] rest" or secret not in mask_secrets(
            f"KEY={secret} rest"
        )
        assert "rest" in mask_secrets(f"KEY={secret} rest")
    assert mask_secrets("postgres://app:hunter22@db/app") == "postgres://app:[masked: password in url]@db/app"
    assert "I6aUkNDiVKmc" not in mask_secrets(
        "aws_secret_access_key = I6aUkNDiVKmc/VCdW5qtxRIb4ijsxPZ+1Oe0XxsiF5iGRsxtV5hPOYhobgQHj"
    )
    for plain in (
        "token = tokens[0]",
        "password = getpass()",
        "sha256:" + "9f31" * 16,
        "api_key: str = field()",
        "https://example.com/a:b@c",
    ):
        assert mask_secrets(plain) == plain


def test_names_are_exact_words() -> None:
    assert set(find_names("see src/handleRequest.ts and foo_bar, v2.1 at 12345, not words")) >= {
        "handleRequest.ts",
        "handleRequest",
        "foo_bar",
        "12345",
    }
    assert find_names("the quick brown fox jumps over 12 dogs") == ()


def test_wrong_arguments_say_what_would_be_right() -> None:
    with pytest.raises(ArgumentError, match="size"):
        handover([], size=-1)
    with pytest.raises(ArgumentError, match="language 'xx'; known"):
        handover([{"role": "user", "content": "hi"}], language="xx")
    assert json.loads(json.dumps(handover([{"role": "user", "content": "hi"}]).to_dict()))["language"] == "en"
