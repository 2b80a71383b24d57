"""Wrong use: exit codes, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import SESSION, run_danshari


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
        (("compact", SESSION, "--major", "--summarizer", "http://[x/v1", "--summary-model", "m"), 1, "IPv6"),
        (("handover", SESSION, "--size", "-3"), 1, "size = -3"),
        (("handover", SESSION, "--language", "tlh"), 2, "'tlh' is not one of"),
        (("handover", "nowhere.json"), 1, "nowhere.json"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_wrong_use_says_what_and_what_to_do(words: tuple[str, ...], code: int, text: str) -> None:
    done = run_danshari(*words)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_of_another_distribution_that_cannot_be_loaded_says_so(tmp_path: Path) -> None:
    """The other commands and the help still work."""
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[danshari.commands]\nbroken = no_such_module:command\n", "utf-8")
    listed = run_danshari("--help", PYTHONPATH=str(tmp_path))
    assert listed.returncode == 0
    assert "broken" in listed.stdout
    told = run_danshari("broken", "--some", "words", PYTHONPATH=str(tmp_path))
    assert told.returncode == 1
    assert "no_such_module" in told.stderr
    assert "Traceback" not in told.stderr
