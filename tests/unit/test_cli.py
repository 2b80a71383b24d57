"""The command line as a user meets it: output, JSON, exit codes, wrong use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from danshari.cli.report import bundled_sessions

SESSION = str(bundled_sessions()[0])


def danshari(*words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    import os

    env = {**os.environ, **({"HOME": str(home)} if home else {}), "COLUMNS": "120"}
    return subprocess.run([sys.executable, "-m", "danshari", *words], capture_output=True, text=True, env=env)


def test_report_without_paths_offers_the_bundled_sessions(tmp_path: Path) -> None:
    done = danshari("report", "--policy", "literal", home=tmp_path)
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
    done = danshari("report", "--policy", "off", home=tmp_path)
    assert done.returncode == 0
    assert "found 1 of your own sessions" in done.stderr


def test_report_json() -> None:
    data = json.loads(danshari("report", SESSION, "--policy", "balanced", "--json").stdout)
    assert data["anatomy"]["rounds"] >= 60
    assert [row["policy"] for row in data["policies"]] == ["off", "balanced"]
    assert data["policies"][1]["ratio"] < 1


def test_compact_writes_messages(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = danshari("compact", SESSION, "--policy", "literal", "--out", str(out))
    assert done.returncode == 0
    assert "literal · anthropic" in done.stderr
    assert len(json.loads(out.read_text(encoding="utf-8"))) > 100
    piped = danshari("compact", SESSION, "--policy", "literal")
    assert json.loads(piped.stdout) == json.loads(out.read_text(encoding="utf-8"))
    whole = json.loads(danshari("compact", SESSION, "--json").stdout)
    assert whole["edits"]
    assert whole["messages"]


def test_handover_prints_the_document(tmp_path: Path) -> None:
    done = danshari("handover", SESSION, "--size", "3000")
    assert done.returncode == 0
    assert done.stdout.startswith("[danshari hand-over 1 en 1:")
    assert done.stdout.rstrip().endswith("[danshari hand-over ends]")
    assert "characters for" in done.stderr
    data = json.loads(danshari("handover", SESSION, "--json", "--language", "zh").stdout)
    assert (data["danshari_handover"], data["language"]) == (1, "zh")
    assert data["fields"]["words"][0]["source"]
    out = tmp_path / "h.md"
    danshari("handover", SESSION, "--out", str(out), "--hard", "--size", "2000")
    assert len(out.read_text(encoding="utf-8")) <= 2_001


def test_compact_major_shows_document_diff_and_prompt(tmp_path: Path) -> None:
    document = danshari("compact", SESSION, "--major", "--show", "document", "--focus", "ledger")
    assert document.returncode == 0
    assert "## Files" in document.stdout
    assert "1 hand-over" in document.stderr
    assert "in sight:" in document.stderr
    diff = danshari("compact", SESSION, "--major", "--show", "diff").stdout.splitlines()
    assert {line[0] for line in diff} == {"=", "-", "+"}
    prompt = danshari("compact", SESSION, "--major", "--show", "prompt").stdout
    assert "Answer with one JSON object" in prompt
    assert "<transcript" in prompt
    out = tmp_path / "m.json"
    done = danshari("compact", SESSION, "--major", "--until", "40", "--out", str(out), "--json")
    assert json.loads(done.stdout)["handover"]["fields"]
    assert json.loads(out.read_text(encoding="utf-8"))[-1]
    unreachable = danshari(
        "compact",
        SESSION,
        "--major",
        "--summarizer",
        "http://127.0.0.1:9/v1",
        "--summary-model",
        "m",
        "--show",
        "document",
    )
    assert unreachable.returncode == 0
    assert "summary flat: no" in unreachable.stderr


def test_replay_round_by_round_and_json() -> None:
    done = danshari("replay", SESSION, "--policy", "balanced", "--prices", ".05")
    assert done.returncode == 0
    assert "hits: cached share of input" in done.stdout.replace("\n", " ")
    data = json.loads(danshari("replay", SESSION, "--json").stdout)
    assert [s["policy"] for s in data["sessions"]] == ["off", "balanced"]
    assert data["sessions"][1]["invalid"] == 0
    assert len(data["sessions"][1]["by_round"]) == data["sessions"][1]["rounds"]


def test_policies() -> None:
    assert "literal" in danshari("policy", "list").stdout
    assert "keep_rounds = 4" in danshari("policy", "show", "literal").stdout
    assert "keep_rounds *" in danshari("policy", "explain", "literal").stdout
    assert json.loads(danshari("policy", "explain", "--json").stdout)["commit"] == "gain"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("report", "/nonexistent/x.jsonl"), 1, "no such file"),
        (("compact", "/nonexistent/x.json"), 1, "no such file"),
        (("compact", __file__), 1, "not a recorded session"),
        (("compact", SESSION, "--policy", "nonsense"), 1, "known: architecture"),
        (("compact", SESSION, "--session", "9"), 1, "holds 1 session"),
        (("compact", SESSION, "--window", "-5"), 1, "positive number"),
        (("compact", SESSION, "--format", "xml"), 2, "openai-chat"),
        (("replay", SESSION, "--prices", "cheap"), 1, "READ,WRITE"),
        (("replay", SESSION, "--prices", "9,1"), 1, "cannot cost more"),
        (("replay",), 2, "Missing argument"),
        (("policy", "show", "nonsense"), 1, "unknown policy"),
        (("compact", SESSION, "--focus", "x"), 1, "--focus needs --major"),
        (("compact", SESSION, "--major", "--until", "0"), 1, "until = 0"),
        (("compact", SESSION, "--major", "--summarizer", "mistral"), 1, "must be provider:model, or a URL"),
        (("compact", SESSION, "--major", "--summarizer", "http://x/v1"), 1, "--summary-model"),
        (("handover", SESSION, "--size", "-3"), 1, "size = -3"),
        (("handover", SESSION, "--language", "tlh"), 2, "'tlh' is not one of"),
        (("handover", "nowhere.json"), 1, "nowhere.json"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_wrong_use_says_what_and_what_to_do(words: tuple[str, ...], code: int, text: str) -> None:
    done = danshari(*words)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr
