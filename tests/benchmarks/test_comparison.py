"""The comparison: the same bytes twice, what is stored, what is wrong with a contender."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from danshari_bench.comparison.run import compare_contenders
from danshari_bench.report.page import write_report

from danshari.cli.report import bundled_sessions
from danshari.errors import SessionError
from danshari.sessions import RecordedSession
from danshari.testing import Turn, conversation
from tests.support.comparisons import first_rounds, one_by_one, recorded_session


def test_the_same_bytes_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [first_rounds(path, 30) for path in bundled_sessions()[:2]]
    found = []
    for turn in range(2):
        monkeypatch.setenv("DANSHARI_CACHE", str(tmp_path / f"cache{turn}"))
        made = compare_contenders(
            sessions, ["balanced", "keep-last"], vectors=(".10", ".02"), budgets=(0.5,), each=one_by_one
        )
        made.pop("timing")
        found.append(json.dumps(made))
    assert found[0] == found[1]
    rows = {(r["contender"], r["vector"], r["budget"]): r for r in json.loads(found[0])["rows"]}
    off, mine, plain = rows["off", ".10", None], rows["balanced", ".10", None], rows["keep-last", ".10", None]
    assert off["dollars"]["value"] == off["tokens"] == off["sar"]["value"] == 1.0
    assert mine["dollars"]["value"] < 1 < plain["dollars"]["value"]
    assert mine["invalid_requests"] == mine["faulty_sessions"] == 0
    assert mine["files_f1"] > 0.9
    assert rows["keep-last", ".10", 0.5]["tokens"] < 1


def test_an_interrupted_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells that were finished are read back: a second run plays nothing."""
    import danshari_bench.comparison.plan as study

    compare_contenders([recorded_session()], ["balanced"], vectors=(".10",), each=one_by_one)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("played again")

    monkeypatch.setattr(study, "play_session", never)
    found = compare_contenders([recorded_session()], ["balanced"], vectors=(".10",), each=one_by_one)
    assert {r["contender"] for r in found["rows"]} == {"off", "balanced"}


def test_sessions_with_nothing_to_measure_are_said_and_kept() -> None:
    """No request at all is noted; no action and no reference give empty shares, not errors."""
    silent = RecordedSession(
        id="silent", source="t", format="openai-chat", messages=[{"role": "user", "content": "Hi"}]
    )
    talk = conversation("openai-chat", "Hi.", [Turn(text="Hello.", user="Bye."), Turn(text="Bye.")])
    chat = RecordedSession(id="chat", source="t", format="openai-chat", messages=talk, model="gpt-5")
    found = compare_contenders(
        [silent.set_collection("a"), chat.set_collection("a")], ["balanced"], vectors=(".10",), each=one_by_one
    )
    assert "silent: no request in it (no assistant message); left out" in found["notes"]
    row = next(r for r in found["rows"] if r["contender"] == "balanced")
    assert (row["sessions"], row["sar"]["value"], row["sar"]["n"]) == (1, None, 0)
    assert "No action referred" in write_report(found)


def test_an_invalid_contender_is_a_row_that_says_so(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text("def orphans(messages):\n    return [m for m in messages if m['role'] != 'assistant']\n"
                   "def fails(messages):\n    raise KeyError('x')\n"
                   "def nothing(messages):\n    return None\n", encoding="utf-8")  # fmt: skip
    names = [f"{own}:{n}" for n in ("orphans", "fails", "nothing")]
    found = compare_contenders([recorded_session()], names, vectors=(".10",), each=one_by_one)
    rows = {r["contender"]: r for r in found["rows"] if r["group"] == "all"}
    assert rows[names[0]]["invalid_sessions"] == 1
    assert rows[names[0]]["void"]
    assert "follows no assistant message" in rows[names[0]]["problem"]
    assert rows[names[1]]["fault"] == "KeyError: 'x'"
    assert "NoneType" in rows[names[2]]["fault"]
    assert all(rows[name]["sessions"] == 1 for name in names)
    page = write_report(found)
    assert "follows no assistant message" in page


def test_a_contender_that_writes_into_its_input_harms_nobody(tmp_path: Path) -> None:
    own = tmp_path / "mine.py"
    own.write_text("from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\nclass Spoils:\n    n: int = 0\n"
                   "    def __call__(self, messages):\n        for m in messages:\n            m['content'] = 'gone'\n"
                   "        return messages\n", encoding="utf-8")  # fmt: skip
    found = compare_contenders(
        [recorded_session(rounds=24)], [f"{own}:Spoils", "literal"], vectors=(".10",), each=one_by_one
    )
    spoilt, literal = (next(r for r in found["rows"] if r["contender"] == n) for n in (f"{own}:Spoils", "literal"))
    assert spoilt["tokens"] < 0.9
    alone = compare_contenders([recorded_session(rounds=24)], ["literal"], vectors=(".10",), each=one_by_one)
    assert literal["dollars"] == next(r for r in alone["rows"] if r["contender"] == "literal")["dollars"]


def test_a_changed_policy_file_is_another_contender(tmp_path: Path) -> None:
    """Stored cells are keyed by what a policy says, not by the name of its file."""
    file = tmp_path / "mine.toml"
    tokens = []
    for keep in (1, 9):
        file.write_text(f'extends = "literal"\nkeep_rounds = {keep}\nmax_length = 50\n', encoding="utf-8")
        found = compare_contenders([recorded_session(rounds=24)], [str(file)], vectors=(".10",), each=one_by_one)
        tokens.append(next(r for r in found["rows"] if r["contender"] == str(file))["tokens"])
    assert tokens[0] < tokens[1]


def test_nothing_to_compare_is_said() -> None:
    silent = RecordedSession(
        id="silent", source="t", format="openai-chat", messages=[{"role": "user", "content": "Hi"}]
    )
    with pytest.raises(SessionError, match="no session with a request"):
        compare_contenders([silent.set_collection("a")], ["balanced"], vectors=(".10",), each=one_by_one)
