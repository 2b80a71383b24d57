"""Readers of recorded sessions: split turns, sidechains, compaction boundaries, malformed lines, what is no session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danshari import SessionError
from danshari.formats import find_format
from danshari.sessions import find_reader, own_sessions, read, session_files


def lines(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(r if isinstance(r, str) else json.dumps(r) for r in records) + "\n", encoding="utf-8")
    return path


def said(role: str, content: Any, uuid: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more.pop("message", {})}
    return {"type": role, "parentUuid": None, "isSidechain": False, "uuid": uuid, "cwd": "/repo",
            "timestamp": "2026-03-14T10:00:00Z", "message": message, **more}  # fmt: skip


def test_claude_code(tmp_path: Path) -> None:
    call_a = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    call_b = {"type": "tool_use", "id": "b", "name": "Read", "input": {}}
    path = lines(
        tmp_path / "s.jsonl",
        {"type": "file-history-snapshot", "messageId": "x"},
        said("user", "Fix it.", "1"),
        said(
            "assistant",
            [{"type": "text", "text": "Reading."}, call_a],
            "2",
            message={"id": "m1", "model": "claude-opus-4-5"},
        ),
        said("user", [{"type": "tool_result", "tool_use_id": "a", "content": "A"}], "3"),
        said("assistant", [call_b], "4", message={"id": "m1", "model": "claude-opus-4-5"}),
        said("user", [{"type": "tool_result", "tool_use_id": "b", "content": "B"}], "5"),
        said("user", "in a side chain", "6", isSidechain=True),
        "{broken json",
        {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 9}},
        said("user", "This session is being continued.", "7", isCompactSummary=True),
        said(
            "assistant",
            [{"type": "text", "text": "Going on."}],
            "8",
            message={"id": "m2", "usage": {"input_tokens": 7}},
        ),
    )
    first, second = read(path)
    assert (first.source, first.format, first.model, first.cwd) == (
        "claude-code",
        "anthropic",
        "claude-opus-4-5",
        "/repo",
    )
    assert [m["role"] for m in first.messages] == ["user", "assistant", "user"]
    assert [b["type"] for b in first.messages[1]["content"]] == ["text", "tool_use", "tool_use"]
    assert [b["content"] for b in first.messages[2]["content"]] == ["A", "B"]
    assert (first.malformed, first.compacted, second.compacted) == (1, True, False)
    assert find_format("anthropic").check(first.messages) == []
    assert second.usages == {1: {"input_tokens": 7}}


def test_an_interrupted_call_is_answered(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "s.jsonl",
        said("user", "go", "1"),
        said("assistant", [{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}], "2", message={"id": "m"}),
        said("user", "stop", "3"),
    )
    (session,) = read(path)
    assert find_format("anthropic").check(session.messages) == []
    assert "never answered" in session.notes[0]


def test_codex(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "rollout-1.jsonl",
        {"timestamp": "2026-03-14T10:00:00Z", "type": "session_meta", "payload": {"id": "x", "cwd": "/repo"}},
        {"type": "turn_context", "payload": {"model": "gpt-5.4"}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        },
        {
            "type": "response_item",
            "payload": {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "xx"},
        },
        {
            "type": "response_item",
            "payload": {"type": "function_call", "name": "exec_command", "arguments": "{}", "call_id": "c"},
        },
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"last_token_usage": {"input_tokens": 50}}}},
        {
            "type": "response_item",
            "payload": {"type": "function_call_output", "call_id": "c", "output": {"content": "done"}},
        },
        {"type": "response_item", "payload": "odd"},
    )
    (session,) = read(path)
    assert (session.format, session.model, session.malformed) == ("openai-responses", "gpt-5.4", 1)
    assert [m["type"] for m in session.messages] == ["message", "reasoning", "function_call", "function_call_output"]
    assert session.messages[-1]["output"] == "done"
    assert session.usages == {2: {"input_tokens": 50}}


def test_pi(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "pi.jsonl",
        {"type": "session", "version": 3, "id": "x", "cwd": "/repo"},
        {"type": "model_change", "modelId": "glm-5"},
        {"type": "message", "id": "1", "message": {"role": "user", "content": [{"type": "text", "text": "go"}]}},
        {"type": "message", "id": "2", "message": {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"}, {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "a"}}]}},
        {"type": "message", "id": "3", "message": {"role": "toolResult", "toolCallId": "c", "toolName": "read", "content": "A"}},
        {"type": "compaction", "summary": "so far", "tokensBefore": 9},
        {"type": "message", "id": "4", "message": {"role": "user", "content": "on"}},
    )  # fmt: skip
    first, second = read(path)
    assert (first.format, first.model) == ("openai-chat", "glm-5")
    assert first.messages[1]["reasoning_content"] == "hm"
    assert first.messages[2] == {"role": "tool", "tool_call_id": "c", "name": "read", "content": "A"}
    assert [m["content"] for m in second.messages] == ["so far", "on"]


def test_swe_agent(tmp_path: Path) -> None:
    path = tmp_path / "x.traj"
    path.write_text(json.dumps({
        "history": [{"role": "system", "content": "S"}, {"role": "user", "content": "issue"}],
        "trajectory": [
            {"action": "open src/a.py 12\n", "observation": "12: x", "response": "I open it.", "state": '{"open_file": "n/a"}'},
            {"action": "edit 1:2\nx\nend_of_edit", "observation": "ok", "response": "", "state": '{"open_file": "/r/src/a.py"}'},
            {"action": "python t.py", "observation": "", "response": "run", "state": "broken"},
            {"observation": "no action"},
        ],
        "info": {},
    }), encoding="utf-8")  # fmt: skip
    (session,) = read(path)
    calls = [m["tool_calls"][0]["function"] for m in session.messages if m["role"] == "assistant"]
    assert [c["name"] for c in calls] == ["open", "edit", "bash"]
    assert json.loads(calls[0]["arguments"])["path"] == "src/a.py"
    assert json.loads(calls[1]["arguments"])["path"] == "/r/src/a.py"
    assert session.malformed == 1
    assert find_format("openai-chat").check(session.messages) == []


def test_message_files(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "ok", "extra": {"big": 1}}]
    for name, value, count in (
        ("list.json", chat, 1),
        ("request.json", {"model": "gpt-5", "messages": chat}, 1),
        ("tau.json", [{"reward": 1, "traj": chat}, {"reward": 0, "traj": chat}], 2),
    ):
        path = tmp_path / name
        path.write_text(json.dumps(value), encoding="utf-8")
        sessions = list(read(path))
        assert len(sessions) == count
        assert sessions[0].messages[1] == {"role": "assistant", "content": "ok"}
    rows = lines(tmp_path / "chat.jsonl", *chat, "nonsense")
    (session,) = read(rows)
    assert (len(session.messages), session.malformed) == (2, 1)


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
    lines(tmp_path / "deep/er/a.jsonl", {"role": "user", "content": "x"})
    assert [p.name for p in session_files([tmp_path])] == ["a.jsonl"]


def test_own_sessions_are_found(tmp_path: Path) -> None:
    lines(tmp_path / ".claude/projects/p/s.jsonl", {})
    lines(tmp_path / ".codex/sessions/2026/03/rollout-x.jsonl", {})
    lines(tmp_path / ".pi/agent/sessions/p/s.jsonl", {})
    assert len(own_sessions(tmp_path)) == 3
    assert own_sessions(tmp_path / "nobody") == []
