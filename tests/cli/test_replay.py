"""Replaying and explaining on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from danshari.cli.shared.common import make_table, out
from danshari.testing import Call, Turn, conversation
from tests.support.command_line import SESSION, run_danshari
from tests.support.material.recordings import write_records


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


@pytest.mark.parametrize(
    "more",
    [(), ("--window", "30000"), ("--model", "gpt-3.5-turbo"), ("--model", "gpt-3.5-turbo", "--idle")],
    ids=" ".join,
)
def test_explain_tells_of_the_run_that_replay_reports(more: tuple[str, ...], tmp_path: Path) -> None:
    """A window wider than the model's, idle times: whatever the replay did, the explanation is of that."""
    reported = json.loads(run_danshari("replay", SESSION, *more, "--json", DANSHARI_HOME=tmp_path).stdout)
    rounds = reported["sessions"][1]["by_round"]
    busiest = max(rounds, key=lambda r: r["edits"])["round"]
    for number in {1, busiest, len(rounds)}:
        told = json.loads(
            run_danshari("replay", SESSION, *more, "--explain", number, "--json", DANSHARI_HOME=tmp_path).stdout
        )
        assert len(told["edits"]) == rounds[number - 1]["edits"], number


@given(st.text(st.sampled_from("[]/:a b#=@é(smile)\\\"'"), min_size=1, max_size=30))
@example("app/[slug]/page.tsx")
@example("grep '[/a]'")
@example(":smile: [bold]x[/bold]")
def test_any_text_in_a_table_is_printed_as_it_is(text: str) -> None:
    shown = make_table("what", "tokens", title=text)
    shown.add_row(text, text)
    with out.capture() as printed:
        out.print(shown)
        out.print(text, highlight=False)
    assert printed.get().count(text.strip()) >= 4


def test_paths_and_commands_in_brackets_are_explained(tmp_path: Path) -> None:
    page = "export const page = (slug) => render(slug);\n" * 200
    calls = [Call(name="Read", arguments={"file_path": "app/[slug]/page.tsx"}, result=page)] * 3
    calls += [Call(name="Bash", arguments={"command": f"grep '[/a]' {n}"}, result="found it\n" * 900) for n in range(9)]
    file = write_records(tmp_path / "s.json", conversation("openai-chat", "go", [Turn(calls=(c,)) for c in calls]))
    more = ("--prices", ".10", "--window", "20000", "--explain", "12")
    done = run_danshari("replay", file, *more, DANSHARI_HOME=tmp_path)
    assert done.returncode == 0, done.stderr[-300:]
    edits, held = done.stdout.split("held back: these do not pay yet")
    assert "Bash grep '[/a]' 7" in edits
    assert "Read app/[slug]/page.tsx" in held


@pytest.mark.parametrize(("number", "name"), [(5, "hand-over"), (14, "rounds dropped")])
def test_edits_of_several_rounds_are_told_with_their_rounds(number: int, name: str, tmp_path: Path) -> None:
    more = ("--window", "6000", "--explain", number)
    told = run_danshari("replay", SESSION, *more, DANSHARI_HOME=tmp_path).stdout
    rows = [line for line in told.split("\n") if line.strip().startswith(name)]
    assert rows != []
    assert all(re.search(r" \d+(–\d+)? *$", row) for row in rows), rows
