"""The commands of the benchmarks, and their wrong use."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from danshari.cli.report import bundled_sessions
from danshari.testing import Call, Turn, conversation
from tests.support.command_line import run_danshari
from tests.support.comparisons import first_rounds, run_bench


@pytest.mark.parametrize("text", ["def broken(:\n", "raise SystemExit(3)\n", "x = 1\n"])
def test_files_that_cannot_be_loaded_are_said(tmp_path: Path, text: str) -> None:
    own = tmp_path / "mine.py"
    own.write_text(text, encoding="utf-8")
    result = run_bench("sessions", str(bundled_sessions()[0]), "--policy", f"{own}:f")
    assert result.exit_code == 1
    assert str(own) in result.output


class Balanced(HTMLParser):
    """Checks that tags close in order."""

    VOID = frozenset({"meta", "br", "line", "rect", "circle", "polyline", "hr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.crossed: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID and self.open.pop() != tag:
            self.crossed.append(tag)


def test_sessions_command_writes_json_and_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (tmp_path / "part.json").write_text(json.dumps(first_rounds(bundled_sessions()[0], 30).messages), encoding="utf-8")
    result = run_bench("sessions", str(tmp_path / "part.json"), "--policy", "balanced", "--policy", "literal", "--peer", "ends",
                 "--budgets", "0.3", "--prices", ".10", "--json", str(folder), "--html", str(folder))  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "balanced" in result.output
    (written,) = folder.glob("sessions-*.json")
    found = json.loads(written.read_text(encoding="utf-8"))
    assert {r["contender"] for r in found["rows"]} == {"off", "balanced", "literal", "ends"}
    (page,) = folder.glob("sessions-*.html")
    parser = Balanced()
    parser.feed(page.read_text(encoding="utf-8"))
    assert (parser.open, parser.crossed) == ([], [])
    assert "prefers-color-scheme:dark" in page.read_text(encoding="utf-8")
    assert "<script" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("sessions", "nowhere.json"), "no such file"),
        (("sessions", "{session}", "--policy", "nobody"), "unknown contender 'nobody'"),
        (("sessions", "{session}", "--peer", "langchain-trim"), "danshari bench peers install langchain-trim"),
        (("sessions", "{session}", "--budgets", "3"), "give shares between 0 and 1"),
        (("compactions", "{session}"), "a compaction record needs `before`"),
        (("compactions", "{record}", "--method", "x.py:f"), "unknown method"),
        (("cases", "{folder}"), "needs check_case.py"),
        (("kits", "run", "nobody"), "unknown kit"),
        (("kits", "run", "conformance"), "danshari bench kits install conformance"),
        (("kits", "run", "ctxdrift"), "needs --cases"),
        (("peers", "install", "nobody"), "unknown peer"),
    ],
)
def test_wrong_use_is_said_plainly(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"before": [], "summary": "s", "after": []}), encoding="utf-8")
    places = {"session": str(bundled_sessions()[0]), "record": str(record), "folder": str(tmp_path)}
    result = run_bench(*(a.format(**places) for a in arguments))
    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output


def test_compactions_command_and_own_methods(tmp_path: Path) -> None:
    read_call = Call(name="Read", arguments={"file_path": "src/ledger.py"}, result="def ledger_total(entries):\n")
    later = Call(name="Grep", arguments={"pattern": "ledger_total"}, result="src/ledger.py:1")
    messages = conversation("anthropic", "Mend it.", [Turn(calls=(read_call,)), Turn(calls=(later,))])
    record = {"id": "r", "before": messages[:3], "summary": "The fault is in `ledger_total(entries)`, I think.",
              "after": messages[3:]}  # fmt: skip
    (tmp_path / "r.json").write_text(json.dumps(record), encoding="utf-8")
    own = tmp_path / "own.py"
    own.write_text("def short(before, max_chars):\n    return 'x' * 9000\ndef broken(before, max_chars):\n    return 1 / 0\n",
                   encoding="utf-8")  # fmt: skip
    result = run_bench("compactions", str(tmp_path / "r.json"), "--method", "danshari", "--method", f"{own}:short",
                 "--method", f"{own}:broken", "--share", "1", "--json", "-")  # fmt: skip
    assert result.exit_code == 0, result.output
    rows = {r["method"]: r for r in json.loads(result.output)["rows"]}
    assert rows["danshari"]["locators"]["value"] == 1.0
    assert "allowed; cut" in rows[f"{own}:short"]["fault"]
    assert "ZeroDivisionError" in rows[f"{own}:broken"]["fault"]


def test_lists_of_peers_and_kits() -> None:
    for group in ("peers", "kits"):
        rows = json.loads(run_bench(group, "list", "--json").output)
        assert rows
        assert not any(row["installed"] for row in rows)
        assert run_bench(group, "list").exit_code == 0


def test_the_handover_bench_counts_what_survives() -> None:
    """On the bundled sessions: words whole, nothing invented, and five in a row keep or recall everything put in."""
    result = run_bench(
        "handover", *map(str, bundled_sessions()[:1]), "--longest", "1", "--documents", "1", "--json", "-"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["measures"]["rules"]["kept"] == found["measures"]["rules"]["n"] > 0
    assert found["measures"]["invented"]["kept"] == 0
    assert (found["lost"], found["invalid"], found["faults"]) == (0, 0, [])
    kept = next(row for row in found["generations"] if row["way"] == "kept")
    assert kept["standing"][0] + kept["recalled"] == kept["standing"][1] > 10
    assert kept["gone"][0] == kept["gone"][1] > 0
    shown = run_bench("handover", str(bundled_sessions()[0]), "--longest", "1")
    assert "five in a row" in shown.output


def test_searches_by_kind_find_what_was_archived(tmp_path: Path) -> None:
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make part_{n}"},
                         result="\n".join(f"line {k} of step_{n}_{k}: 账目核对第{n}批 {n * 1000 + k}77" for k in range(160))),))
        for n in range(24)
    ]  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps(conversation("openai-chat", "Go.", [*turns, Turn(text="Done.")])))
    found = json.loads(run_bench("queries", str(tmp_path / "s.json"), "--json").output)
    assert found["originals"] > 10
    assert set(found["kinds"]) >= {"identifier", "command", "number", "chinese"}
    for kind in ("identifier", "command", "number"):
        assert found["kinds"][kind]["three"] > 0.9 > 3 * found["kinds"][kind]["chance"], kind
    assert "by chance" in run_bench("queries", str(tmp_path / "s.json")).output


def test_bench_archive_prints_what_it_measured(tmp_path: Path) -> None:
    done = run_danshari(
        "bench", "archive", "--entries", "300", "--kills", "2", "--processes", "2", "--json", DANSHARI_DATA=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["load"]["exact_found"] == [50, 50]
    assert (found["kills"]["missing"], found["kills"]["problems"]) == (0, [])
