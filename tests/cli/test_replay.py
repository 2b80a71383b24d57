"""Replaying and explaining on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import SESSION, run_danshari


def test_replay_round_by_round_and_json() -> None:
    done = run_danshari("replay", SESSION, "--policy", "balanced", "--prices", ".05")
    assert done.returncode == 0
    assert "hits: cached share of input" in done.stdout.replace("\n", " ")
    data = json.loads(run_danshari("replay", SESSION, "--json").stdout)
    assert [s["policy"] for s in data["sessions"]] == ["off", "balanced"]
    assert data["sessions"][1]["invalid"] == 0
    assert len(data["sessions"][1]["by_round"]) == data["sessions"][1]["rounds"]


def test_foreign_weights_are_left_aside_and_plain_rules_go_on(tmp_path: Path) -> None:
    (tmp_path / "scorer.json").write_text('{"format": 99}')
    done = run_danshari("replay", SESSION, "--no-rounds", DANSHARI_HOME=tmp_path)
    assert done.returncode == 0
    assert "the line scorer is not used" in done.stderr


def test_explain_says_what_was_decided_before_one_request(tmp_path: Path) -> None:
    done = run_danshari("replay", SESSION, "--explain", "12", DANSHARI_HOME=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "request 12 of" in done.stdout
    assert "signals: phase" in done.stdout
    assert json.loads(run_danshari("replay", SESSION, "--explain", "12", "--json", DANSHARI_HOME=tmp_path).stdout)[
        "signals"
    ]["phase"]
    assert "has requests 1 to" in run_danshari("replay", SESSION, "--explain", "999", DANSHARI_HOME=tmp_path).stderr
    assert "one session" in run_danshari("replay", SESSION.parent, "--explain", "1", DANSHARI_HOME=tmp_path).stderr
