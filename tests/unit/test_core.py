"""Small parts of the core: shell lines, acts, telling lines, tokens, prices, planner, calibration, edits."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import ArgumentError, Compactor, Prices, data
from danshari.analysis.facts import Facts, is_failure_output
from danshari.analysis.lines import is_source, select_telling_lines, text_ends
from danshari.analysis.shell import ShellAction, parse_shell_line
from danshari.analysis.tiers import tier_of
from danshari.core.edits import Drop, Replace, Restore, find_stale_reasoning, view
from danshari.core.items import (
    ItemBuilder,
    Piece,
    canonical_arguments,
    canonical_json,
)
from danshari.core.session import Calibration, CostAccount
from danshari.core.tokens import TOKEN_FEATURES, count_features
from danshari.formats import FORMATS
from danshari.planning.planner import (
    Proposal,
    Situation,
    choose_batch,
    grade_pressure,
)
from danshari.testing import Call, Turn, conversation


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat src/a.py", ShellAction("read", "src/a.py")),
        ("cd /repo && cat src/a.py", ShellAction("read", "src/a.py", folder="/repo")),
        ("cat >> a.py <<EOF", ShellAction("edit", "a.py")),
        ("tail -5 a.txt", ShellAction("read", "a.txt", exact=False)),
        ("cat a.txt | wc -l", ShellAction("read", "a.txt", exact=False)),
        ("sed -n '1,20p;50,60p' a.py", ShellAction("read", "a.py", exact=False)),
        ("sed -n '10,40p' src/a.py", ShellAction("read", "src/a.py", 10, 40)),
        ("nl -ba src/a.py | sed -n '1,240p'", ShellAction("read", "src/a.py", 1, 240)),
        ("head -50 a.txt", ShellAction("read", "a.txt", 1, 50)),
        ("head -n 50 a.txt", ShellAction("read", "a.txt", 1, 50)),
        ("tail -n +20 a.txt", ShellAction("read", "a.txt", 20, 0)),
        ("cat a.py | grep foo", ShellAction("search")),
        ("grep -rn foo src", ShellAction("search")),
        ("git grep foo", ShellAction("search")),
        ("ls -la; ls src", ShellAction("list")),
        ("find . -name '*.py'", ShellAction("list")),
        ("cat > a.py <<'EOF'\nx = 1\nEOF", ShellAction("write", "a.py")),
        ("pytest -q", ShellAction("run")),
        ("cat a.py && pytest", ShellAction("run")),
        ("echo 'unclosed", ShellAction("run")),
        ("", ShellAction("run")),
        ("sed -i s/a/b/ x.py", ShellAction("run")),
    ],
)
def test_shell_lines(command: str, expected: ShellAction) -> None:
    assert parse_shell_line(command) == expected


@given(st.text(max_size=300))
def test_any_shell_line_is_understood_somehow(command: str) -> None:
    assert parse_shell_line(command).kind in ("read", "search", "list", "write", "run")


def test_tool_kinds_of_the_agents_people_use() -> None:
    tools = data.load_tools()
    kinds = {
        "Read": "read", "Grep": "search", "Glob": "list", "Edit": "edit", "Write": "write", "Bash": "run", "TodoWrite": "plan",
        "Skill": "skill", "Task": "agent", "exec_command": "run", "apply_patch": "edit", "open": "read", "find_file": "list",
        "search_dir": "search", "execute_bash": "run", "exec": "run", "read": "read", "web_search": "web", "process": "job",
        "mcp__files__read_file": "read", "frobnicate": "other",
    }  # fmt: skip
    assert {name: tools.find_row(name).kind for name in kinds} == kinds
    act = tools.parse_call("str_replace_editor", '{"command": "view", "path": "/a.py", "view_range": [5, 9]}')
    assert (act.kind, act.path, act.start, act.end) == ("read", "/a.py", 5, 9)
    assert tools.parse_call("str_replace_editor", '{"command": "str_replace", "path": "/a.py"}').kind == "edit"
    assert tools.parse_call("Read", '{"file_path": "/a.py", "offset": 10, "limit": 5}').end == 14


def test_telling_lines_keep_errors_totals_ends_and_shared_names() -> None:
    lines = [f"step {n} fine and dandy" for n in range(400)]
    lines[200] = "src/ledger.py:12: error: ledger_total is undefined"
    lines[250] = "checked handleRequest twice"
    lines[-1] = "3 failed, 397 passed"
    kept = select_telling_lines(lines, 900, {"handleRequest"})
    assert {0, 200, 250, 399} <= set(kept)
    assert sum(len(lines[n]) + 6 for n in kept) <= 900
    assert kept == sorted(kept)


@given(st.text(alphabet=st.characters(), max_size=4000), st.integers(1, 2000))
def test_ends_cut_no_text_apart(text: str, budget: int) -> None:
    first, last = text_ends(text, budget)
    assert text.startswith(first)
    assert text.endswith(last)
    assert len(first) + len(last) <= len(text) or text == first


def test_source_is_recognised() -> None:
    code = [f"def f{n}(x):\n    return x + {n}".split("\n")[n % 2] for n in range(60)]
    assert is_source(code)
    assert not is_source([f"2026-03-01 INFO worker {n} took {n}ms" for n in range(60)])


def test_features_are_counted_by_class() -> None:
    counts = dict(zip(TOKEN_FEATURES, count_features("aB1 \n.é".encode()), strict=True))
    assert (counts["a"], counts["A"], counts["0"], counts["s"], counts["n"], counts["p"], counts["L"], counts["h"]) == (
        1,
    ) * 8
    assert counts["aA"] == 1


@given(st.text(max_size=500), st.sampled_from(data.tokenizer_families()))
def test_estimates_are_never_negative(text: str, family: str) -> None:
    assert data.load_estimator(family)(text) >= 0
    assert data.load_estimator(family)("") == 0


def test_canonical_arguments_ignore_spelling() -> None:
    assert canonical_arguments('{"b": 1.0, "a": [2, {"d": 1, "c": null}]}') == canonical_json(
        {"a": [2.0, {"c": None, "d": 1}], "b": 1}
    )
    assert canonical_arguments("not json") == "not json"
    assert canonical_json({"x": 1, "cache_control": {"type": "ephemeral"}}) == canonical_json({"x": 1})


def test_ids_survive_what_must_not_matter() -> None:
    """Key order, moved cache marks, string or parts, stripped thinking and an edited neighbour keep ids."""
    turns = [
        Turn(thinking="hm", calls=(Call(name="Read", arguments={"a": 1, "b": 2}, result=f"r{n}"),)) for n in range(4)
    ]
    plain = conversation("anthropic", "go", turns)
    wire = FORMATS["anthropic"]
    ids = {i.text: i.id for i in wire.read(plain) if i.kind != "reasoning"}
    changed = conversation("anthropic", "go", [Turn(calls=t.calls) for t in turns])
    changed[0]["content"] = "go"
    changed[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    changed[1]["content"][-1]["input"] = {"b": 2.0, "a": 1}
    changed[2]["content"][0]["content"] = "cleared"
    again = {i.text: i.id for i in wire.read(changed)}
    same = [ids[text] == again[text] for text in ids if text in again]
    assert all(same)
    assert len(same) >= 5


def test_an_edit_is_void_where_its_target_or_witness_is_missing() -> None:
    chain = ItemBuilder()
    chain.extend(0, [Piece(kind="text", role="user", text="go")])
    chain.begin_turn()
    chain.extend(1, [Piece(kind="call", role="assistant", text="{}", name="read", call="c1")])
    chain.extend(2, [Piece(kind="result", role="tool", text="long", call="c1")])
    items = tuple(chain.items)
    edit = Replace(id=items[2].id, text="short", seen=items[2].id)
    assert [i.text for i in view(items, [edit]).conversation()][-1] == "short"
    assert [i.text for i in view(items, [edit, Restore(id=items[2].id)]).conversation()][-1] == "long"
    assert len(view(items[:2], [edit]).effects.void) == 1
    assert [i.kind for i in view(items, [Drop(first=items[1].id, last=items[2].id)]).conversation()] == ["text"]


def test_dead_thinking_after_edit_and_undo() -> None:
    """turn(target) < T <= turn(seen) is dead; after an undo, what was made under the edit is dead instead."""
    turns = [Turn(thinking=f"t{n}", calls=(Call(name="Read", arguments={"n": n}, result="x" * 900),)) for n in range(6)]
    items = FORMATS["anthropic"].read(conversation("anthropic", "go", turns))
    index = {item.id: at for at, item in enumerate(items)}
    target = next(i for i in items if i.kind == "result" and i.turn == 2)
    seen = next(i for i in items if i.kind == "result" and i.turn == 4)

    def dead(ledger: list[Replace | Restore]) -> list[int]:
        return [items[at].turn for at in find_stale_reasoning(ledger, view(items, ledger).effects, items, index)]

    edit = Replace(id=target.id, text="short", seen=seen.id)
    assert dead([edit]) == [3, 4]
    assert dead([edit, Restore(id=target.id, seen=items[-1].id)]) == [5, 6]


def test_prices_must_make_sense() -> None:
    with pytest.raises(ArgumentError, match="cannot cost more"):
        Prices(read=2.0)
    with pytest.raises(ArgumentError, match="read = -1"):
        Prices(read=-1)


def situation(facts: Facts, **changes: object) -> Situation:
    base = {
        "facts": facts, "sizes": facts.tokens, "sent": len(facts.items), "prices": Prices(), "cold": False,
        "rounds_seen": facts.turn, "rounds_left": 100.0, "purse": 1e9, "since_commit": 99,
    }  # fmt: skip
    return Situation(**{**base, **changes})  # type: ignore[arg-type]


def grown(rounds: int) -> Facts:
    facts = Facts(data.load_tools(), data.load_estimator("o200k"))
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": "make"}, result="word " * 800),)) for _ in range(rounds)
    ]
    facts.extend(FORMATS["openai-chat"].read(conversation("openai-chat", "go", turns)))
    return facts


def test_the_planner_holds_what_does_not_pay_and_commits_what_does() -> None:
    facts = grown(60)
    policy = data.load_policy("balanced")
    results = [at for at, item in enumerate(facts.items) if item.kind == "result"]

    def offer(at: int) -> Proposal:
        return Proposal(at=at, freed=facts.tokens[at] * 0.9, by="t", why="", write=lambda: "")

    assert not choose_batch([offer(results[0])], situation(facts), policy, "gain").batch
    whole = choose_batch([offer(at) for at in results[:50]], situation(facts), policy, "gain")
    assert len(whole.batch) >= 40
    assert whole.earn > policy.factor * whole.cost
    assert not choose_batch([offer(at) for at in results[:50]], situation(facts, purse=0.0), policy, "gain").batch
    assert choose_batch([offer(at) for at in results], situation(facts, cold=True), policy, "cold cache").cost == 0


def test_pressure_grades() -> None:
    policy = data.load_policy("balanced")
    grades = [grade_pressure(tokens, 128_000, 16_000, policy) for tokens in (10_000, 50_000, 57_000, 113_000)]
    assert grades == ["none", "warn", "soft", "hard"]


def test_the_account_bounds_what_may_be_risked() -> None:
    prices = Prices()
    account = CostAccount()
    for tokens in (1000.0, 2000.0, 3000.0):
        account = account.record_request(tokens, tokens, account.shown, prices, cold=False)
    assert account.spent == pytest.approx(account.untouched)
    assert account.risk_budget(0.05) == pytest.approx(0.05 * account.untouched)


def test_calibration_anchors_on_reports() -> None:
    calibration = Calibration().observe(12_000, 10_000)
    assert calibration.tokens(10_000) == 12_000
    assert calibration.tokens(11_000) == pytest.approx(13_000)
    learned = calibration.observe(13_500, 11_000)
    assert learned.ratio == pytest.approx(1.25)
    assert Calibration().observe(1e9, 1).observe(1, 1000).ratio >= 0.5


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


def test_long_output_is_squeezed_in_linear_time() -> None:
    """A ratio, not a limit in seconds: four times the text takes about four times as long."""

    def took(lines: int) -> float:
        text = [f"{n} worker {n * 7} handled the request of ledger_{n}" for n in range(lines)]
        started = time.perf_counter()
        select_telling_lines(text, 2000, {"ledger_7"})
        return time.perf_counter() - started

    small, large = min(took(2000) for _ in range(3)), min(took(8000) for _ in range(3))
    assert large < 16 * small


def test_models_and_windows() -> None:
    assert data.find_model("claude-opus-4-5-20251101").prices.read == 0.1
    assert data.find_model("anthropic/claude-opus-5-5").binding
    assert not data.find_model("nobody-knows-this").known
    notes = Compactor(model="nobody-knows-this").compact([{"role": "user", "content": "x"}]).notes
    assert any("unknown model" in note for note in notes)
    assert Compactor(window=1000).model.window == 1000


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
