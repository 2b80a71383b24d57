"""Sessions of coding agents: split turns, side chains, compaction boundaries, malformed lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from danshari.formats import find_format
from danshari.sessions import read
from tests.support.material.recordings import tell_session, write_lines, write_records


def said(role: str, content: Any, uuid: str, **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": content, **more.pop("message", {})}
    return {"type": role, "parentUuid": None, "isSidechain": False, "uuid": uuid, "cwd": "/repo",
            "timestamp": "2026-03-14T10:00:00Z", "message": message, **more}  # fmt: skip


def test_claude_code(tmp_path: Path) -> None:
    call_a = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    call_b = {"type": "tool_use", "id": "b", "name": "Read", "input": {}}
    path = write_lines(
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
    path = write_lines(
        tmp_path / "s.jsonl",
        said("user", "go", "1"),
        said("assistant", [{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}], "2", message={"id": "m"}),
        said("user", "stop", "3"),
    )
    (session,) = read(path)
    assert find_format("anthropic").check(session.messages) == []
    assert "never answered" in session.notes[0]


def test_codex(tmp_path: Path) -> None:
    path = write_lines(
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
    path = write_lines(
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


def test_opencode_export_stream_and_cleared_results(tmp_path: Path) -> None:
    tool = {"type": "tool", "tool": "bash", "callID": "c1", "messageID": "m2",
            "state": {"status": "completed", "input": {"command": "ls"}, "output": "a.py", "time": {"end": 2}}}  # fmt: skip
    export = {"info": {"id": "ses_1", "directory": "/w", "model": {"id": "m"}}, "messages": [
        {"info": {"role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "Fix it."},
                                                                     {"type": "text", "text": "no", "ignored": True}]},
        {"info": {"role": "assistant", "tokens": {"input": 5, "cache": {"read": 95, "write": 0}}},
         "parts": [{"type": "step-start"}, {"type": "text", "text": "Looking."}, tool]},
    ]}  # fmt: skip
    session = next(read(write_records(tmp_path / "o.json", export)))
    call = 'assistant Looking. bash({"command": "ls"})'
    assert tell_session(session) == ["user Fix it.", call, "tool a.py"]
    assert session.usages[1]["prompt_tokens"] == 100
    tool["state"]["time"] = {"end": 2, "compacted": 3}  # type: ignore[index]
    assert (
        tell_session(next(read(write_records(tmp_path / "p.json", export))))[-1]
        == "tool [Old tool result content cleared]"
    )
    stream = [{"type": t, "sessionID": "s", "timestamp": 1, "part": {**p, "messageID": "m2"}} for t, p in (
        ("step_start", {"type": "step-start"}), ("text", {"type": "text", "text": "Looking."}), ("tool_use", tool))]  # fmt: skip
    assert tell_session(next(read(write_records(tmp_path / "s.jsonl", stream))))[1] == call


def test_entire_results_inside_calls(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}, "result": {"output": "a.py"}}
    lines = [{"v": 1, "agent": "codex", "type": "user", "content": [{"text": "修复它"}], "ts": ""},
             {"v": 1, "agent": "codex", "type": "assistant", "content": [{"type": "text", "text": "看看"}, use]}]  # fmt: skip
    session = next(read(write_records(tmp_path / "transcript.jsonl", lines)))
    assert tell_session(session) == ["user 修复它", 'assistant 看看 Bash({"command": "ls"})', "tool a.py"]


def test_cline_new_and_classic(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "c", "name": "read_file", "input": {"path": "a.py"}}
    new = {"version": 1, "sessionId": "s", "system_prompt": "Be brief.", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}], "ts": 1},
        {"role": "assistant", "content": [use], "modelInfo": {"id": "m"}, "metrics": {"inputTokens": 9}},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c",
                                      "content": [{"query": "a.py", "result": "x = 1", "success": True}]}]}]}  # fmt: skip
    call = 'assistant read_file({"path": "a.py"})'
    session = next(read(write_records(tmp_path / "s.messages.json", new)))
    assert tell_session(session) == ["system Be brief.", "user Fix it.", call, "tool x = 1"]
    classic = [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}, {"type": "text",
         "text": "<environment_details>\nnow\n</environment_details>"}], "ts": 1},
        {"role": "assistant", "content": [use], "modelInfo": {"modelId": "m"}},
        {"role": "user", "content": [{"type": "text", "text": "[read_file for 'a.py'] Result:\nx = 1"}]},
    ]  # fmt: skip
    session = next(read(write_records(tmp_path / "1700" / "api_conversation_history.json", classic)))
    assert tell_session(session) == ["user Fix it.", call, "tool x = 1"]
    assert (session.id, session.model) == ("1700", "m")


def test_aider_sessions_edits_and_fences(tmp_path: Path) -> None:
    text = (
        "\n# aider chat started at 2026-03-14 10:00:00\n\n> Main model: m with diff edit format  \n\n#### Fix it.  \n\n"
        "a.py\n```python\n# not a heading\n> not output\n```\n\n> Tokens: 5.2k sent, 604 received.  \n> Applied edit to a.py  \n"
        "\n# aider chat started at 2026-03-14 11:00:00\n\n#### Hello  \n\nHello.\n"
    )
    first, second = read(write_records(tmp_path / ".aider.chat.history.md", text))
    assert tell_session(first)[0] == "user Fix it."
    assert "edit(" in tell_session(first)[1]
    assert "# not a heading" in tell_session(first)[1]
    assert tell_session(first)[2] == "tool Applied edit to a.py"
    assert (first.model, first.usages[1]["prompt_tokens"]) == ("m", 5200.0)
    assert tell_session(second) == ["user Hello", "assistant Hello."]
