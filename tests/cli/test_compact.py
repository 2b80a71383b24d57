"""Compacting and hand-overs on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.command_line import SESSION, run_danshari


def test_compact_writes_messages(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run_danshari("compact", SESSION, "--policy", "literal", "--out", str(out))
    assert done.returncode == 0
    assert "literal · anthropic" in done.stderr
    assert len(json.loads(out.read_text(encoding="utf-8"))) > 100
    piped = run_danshari("compact", SESSION, "--policy", "literal")
    assert json.loads(piped.stdout) == json.loads(out.read_text(encoding="utf-8"))
    whole = json.loads(run_danshari("compact", SESSION, "--json").stdout)
    assert whole["edits"]
    assert whole["messages"]


def test_handover_prints_the_document(tmp_path: Path) -> None:
    done = run_danshari("handover", SESSION, "--size", "3000")
    assert done.returncode == 0
    assert done.stdout.startswith("[danshari hand-over 1 en 1:")
    assert done.stdout.rstrip().endswith("[danshari hand-over ends]")
    assert "characters for" in done.stderr
    data = json.loads(run_danshari("handover", SESSION, "--json", "--language", "zh").stdout)
    assert (data["danshari_handover"], data["language"]) == (1, "zh")
    assert data["fields"]["words"][0]["source"]
    out = tmp_path / "h.md"
    run_danshari("handover", SESSION, "--out", str(out), "--hard", "--size", "2000")
    assert len(out.read_text(encoding="utf-8")) <= 2_001


def test_compact_major_shows_document_diff_and_prompt(tmp_path: Path) -> None:
    document = run_danshari("compact", SESSION, "--major", "--show", "document", "--focus", "ledger")
    assert document.returncode == 0
    assert "## Files" in document.stdout
    assert "1 hand-over" in document.stderr
    assert "in sight:" in document.stderr
    diff = run_danshari("compact", SESSION, "--major", "--show", "diff").stdout.splitlines()
    assert {line[0] for line in diff} == {"=", "-", "+"}
    prompt = run_danshari("compact", SESSION, "--major", "--show", "prompt").stdout
    assert "Answer with one JSON object" in prompt
    assert "<transcript" in prompt
    out = tmp_path / "m.json"
    done = run_danshari("compact", SESSION, "--major", "--until", "40", "--out", str(out), "--json")
    assert json.loads(done.stdout)["handover"]["fields"]
    assert json.loads(out.read_text(encoding="utf-8"))[-1]
    unreachable = run_danshari(
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
