"""Files and folders of sessions, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from danshari import SessionError
from danshari.sessions import READERS, find_reader, own_sessions, read, session_files
from tests.support.material.recordings import write_lines, write_records


@pytest.mark.parametrize("text", ["", "hello", "{}", "[1, 2]", '{"a": [{"b": 1}]}', "\x00\x01"])
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".txt", ".traj"])
def test_what_is_no_session_says_so(tmp_path: Path, text: str, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SessionError, match=r"not a recorded session|holds no message|no list of messages"):
        list(read(path))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="no such file"):
        find_reader(tmp_path / "nothing.json")
    write_lines(tmp_path / "deep/er/a.jsonl", {"role": "user", "content": "x"})
    assert [p.name for p in session_files([tmp_path])] == ["a.jsonl"]


def test_own_sessions_are_found(tmp_path: Path) -> None:
    write_lines(tmp_path / ".claude/projects/p/s.jsonl", {})
    write_lines(tmp_path / ".codex/sessions/2026/03/rollout-x.jsonl", {})
    write_lines(tmp_path / ".pi/agent/sessions/p/s.jsonl", {})
    assert len(own_sessions(tmp_path)) == 3
    assert own_sessions(tmp_path / "nobody") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("t.json", {"info": {}, "tasks": [], "simulations": []}),
        ("a.json", {"schema_version": "ATIF-v1.6", "steps": "none"}),
        ("w.json", {"history": 3, "mistake_step": "1", "mistake_agent": "x"}),
        ("e.jsonl", [{"kind": "PauseEvent", "id": "p", "source": "user"}]),
        ("n.md", "# A note, not a chat\n"),
    ],
)
def test_what_holds_nothing_is_said(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(SessionError) as error:
        list(read(write_records(tmp_path / name, value)))
    assert name in str(error.value)


def test_every_reader_is_tried_and_named(tmp_path: Path) -> None:
    """The error for a foreign file names every format; the more particular readers come before plain messages."""
    with pytest.raises(SessionError) as error:
        find_reader(write_records(tmp_path / "x.json", {"hello": 1}))
    assert all(reader.about in str(error.value) for reader in READERS)
    assert READERS[-1].name == "messages"
    assert len({reader.name for reader in READERS}) == len(READERS)
