"""The report and the policies on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import SESSION, run_danshari


def test_report_without_paths_offers_the_bundled_sessions(tmp_path: Path) -> None:
    done = run_danshari("report", "--policy", "literal", HOME=tmp_path)
    assert done.returncode == 0
    assert "no sessions of yours found" in done.stderr
    assert "Where the tokens went" in done.stdout
    assert "\x1b[" not in done.stdout


def test_report_finds_own_sessions(tmp_path: Path) -> None:
    own = tmp_path / ".claude/projects/p/s.jsonl"
    own.parent.mkdir(parents=True)
    own.write_text(
        json.dumps({"parentUuid": None, "type": "user", "uuid": "1", "message": {"role": "user", "content": "hi"}})
        + "\n"
    )
    done = run_danshari("report", "--policy", "off", HOME=tmp_path)
    assert done.returncode == 0
    assert "found 1 of your own sessions" in done.stderr


def test_report_json() -> None:
    data = json.loads(run_danshari("report", SESSION, "--policy", "balanced", "--json").stdout)
    assert data["anatomy"]["rounds"] >= 60
    assert [row["policy"] for row in data["policies"]] == ["off", "balanced"]
    assert data["policies"][1]["ratio"] < 1


def test_policies() -> None:
    assert "literal" in run_danshari("policy", "list").stdout
    assert "keep_rounds = 4" in run_danshari("policy", "show", "literal").stdout
    assert "elide.keep_rounds *" in run_danshari("policy", "explain", "literal").stdout
    assert json.loads(run_danshari("policy", "explain", "--json").stdout)["commit"]["mode"] == "gain"
