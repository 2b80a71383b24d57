"""One small session in every recorded format, as its source writes it: what is read, paired, skipped and noted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from danshari import SessionError
from danshari.formats import find_format
from danshari.sessions import READERS, RecordedSession, find_reader, read


def write(path: Path, value: Any) -> Path:
    """Write JSON, or a list of records as lines where the name ends in .jsonl."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, str):
        text = value
    elif path.suffix == ".jsonl":
        text = "".join(json.dumps(r) + "\n" for r in value)
    else:
        text = json.dumps(value)
    path.write_text(text, encoding="utf-8")
    return path


def told(session: RecordedSession) -> list[str]:
    """Tell a session in short: role, text or calls."""
    found = []
    for m in session.messages:
        calls = [f"{c['function']['name']}({c['function']['arguments']})" for c in m.get("tool_calls", ())]
        found.append(" ".join(part for part in [m["role"], m.get("content") or "", *calls] if part))
    assert find_format(session.format).check(session.messages) == []
    return found


def atif(agent_step: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    steps = [{"step_id": 1, "source": "user", "message": "Fix it.", "timestamp": "2026-03-14T10:00:00Z"}, agent_step]
    return {"schema_version": "ATIF-v1.6", "agent": {"name": "x", "model_name": "m"}, "steps": [*steps, *more]}


def test_atif_by_the_book_and_as_openclaw_writes_it(tmp_path: Path) -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    step = {"step_id": 2, "source": "agent", "message": "Looking.", "reasoning_content": "hm", "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "cached_tokens": 90}
    book = atif({**step, "observation": {"results": [{"source_call_id": "c1", "content": "a.py"}]}, "metrics": usage})
    claw = atif(step, {"step_id": 3, "source": "agent", "message": "a.py", "extra": {"tool_call_id": "c1"},
                       "observation": {"results": [{"content": "a.py"}]}})  # fmt: skip
    for name, value in (("book", book), ("claw", claw)):
        session = next(read(write(tmp_path / f"{name}.json", value)))
        assert session.source == "atif"
        assert told(session) == ["user Fix it.", 'assistant Looking. bash({"command": "ls"})', "tool a.py"]
        assert session.messages[1]["reasoning_content"] == "hm"
        if name == "book":
            assert session.usages[1]["prompt_tokens"] == 100
    replaced = {"step_id": 4, "source": "system", "message": "", "extra": {"context_management": {"boundary": "replace"}},
                "observation": {"results": [{"content": "So far: looked."}]}}  # fmt: skip
    both = list(read(write(tmp_path / "r.json", {**book, "steps": [*book["steps"], replaced]})))
    assert [s.compacted for s in both] == [True, False]
    assert told(both[1]) == ["user So far: looked."]


def v0(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"instance_id": "o__r-1", "instruction": "Fix it.", "history": list(events), **more}


def test_openhands_nested_flat_and_pairs(tmp_path: Path) -> None:
    nested = v0(
        {"id": 0, "action": "system", "args": {"content": "Be brief."}, "source": "agent"},
        {"id": 1, "action": "message", "args": {"content": "Fix it."}, "source": "user"},
        {"id": 2, "action": "recall", "args": {}, "source": "user"},
        {"id": 4, "action": "run", "args": {"command": "ls", "thought": "Looking.", "hidden": False}, "source": "agent"},
        {"id": 5, "observation": "run", "content": "a.py", "cause": 4,
         "extras": {"metadata": {"exit_code": 0, "working_dir": "/w"}}},
        {"id": 6, "observation": "agent_state_changed", "content": "", "extras": {}},
        test_result={"report": {"resolved": True}},
    )  # fmt: skip
    flat = {"instruction": "Fix it.", "success": True, "issue": {"owner": "o", "repo": "r", "number": 3}, "history": [
        {"action": "message", "content": "Fix it."}, {"action": "run", "command": "ls", "thought": "Looking."},
        {"observation": "run", "content": "a.py", "exit_code": 0}]}  # fmt: skip
    pairs = v0([{"action": "message", "args": {"content": "Fix it."}, "source": "user"}, {"observation": "null", "content": ""}],
               [{"action": "run", "args": {"command": "ls", "thought": "Looking."}, "source": "agent"},
                {"observation": "run", "content": "a.py", "extras": {}}])  # fmt: skip
    call = 'assistant Looking. run({"command": "ls"})'
    session = next(read(write(tmp_path / "n.jsonl", [nested])))
    shown = "tool a.py\n[Current working directory: /w]\n[Command finished with exit code 0]"
    assert told(session) == ["system Be brief.", "user Fix it.", call, shown]
    assert (session.outcome, session.task) == (1.0, "o__r-1")
    for name, value in (("f", flat), ("p", pairs)):
        assert told(next(read(write(tmp_path / f"{name}.jsonl", [value])))) == ["user Fix it.", call, "tool a.py"]


def test_openhands_condensation_begins_a_new_context(tmp_path: Path) -> None:
    events = [{"id": n, "action": "message", "args": {"content": f"say {n}"}, "source": s}
              for n, s in enumerate(["user", "agent", "user", "agent"])]  # fmt: skip
    condensed = {"id": 4, "action": "condensation", "args": {"forgotten_event_ids": [1, 2], "summary": "Said two.",
                                                             "summary_offset": 1}}  # fmt: skip
    last = {"id": 5, "action": "message", "args": {"content": "go on"}, "source": "user"}
    first, second = read(write(tmp_path / "c.jsonl", [v0(*events, condensed, last)]))
    assert first.compacted
    assert told(second) == ["user say 0", "user Said two.", "assistant say 3", "user go on"]


def sdk(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "id": more.pop("id", kind), "source": "agent", "timestamp": "2026-03-14T10:00:00", **more}


def test_openhands_sdk_parallel_calls_and_condensation(tmp_path: Path) -> None:
    text = [{"type": "text", "text": "Fix it."}]

    def action(call: str, thought: str = "") -> dict[str, Any]:
        return sdk("ActionEvent", id=call, tool_name="terminal", tool_call_id=call, llm_response_id="r",
                   thought=[{"type": "text", "text": thought}],
                   tool_call={"id": call, "name": "terminal", "arguments": '{"command": "ls"}'})  # fmt: skip

    seen = {"content": [{"type": "text", "text": "a.py"}]}
    events = [
        sdk("MessageEvent", id="u", source="user", llm_message={"role": "user", "content": text}),
        action("a", "Looking."),
        action("b"),
        sdk("ObservationEvent", id="oa", tool_call_id="a", observation=seen),
        sdk("AgentErrorEvent", id="ob", tool_call_id="b", error="no such file"),
        sdk("ConversationStateUpdateEvent", key="stats", value={}),
    ]
    session = next(read(write(tmp_path / "e.jsonl", events)))
    assert session.source == "openhands-sdk"
    call = 'terminal({"command": "ls"})'
    assert told(session) == ["user Fix it.", f"assistant Looking. {call} {call}", "tool a.py", "tool no such file"]
    forget = sdk(
        "Condensation", id="k", forgotten_event_ids=["a", "b", "oa", "ob"], summary="Looked.", summary_offset=1
    )
    first, second = read(write(tmp_path / "k.jsonl", [*events, forget]))
    assert first.compacted
    assert told(second) == ["user Fix it.", "user Looked."]
    folder = tmp_path / "conversation"
    state = {"agent": {"llm": {"model": "m"}}, "execution_status": "idle", "workspace": {"working_dir": "/w"}}
    for number, event in enumerate(events):
        write(folder / "events" / f"event-{number:05d}-{'0' * 12}.json", event)
    stored = next(read(write(folder / "base_state.json", state)))
    assert (stored.model, stored.cwd, len(stored.messages)) == ("m", "/w", 4)


def test_tau2_leaves_the_simulated_users_tools_out(tmp_path: Path) -> None:
    messages = [
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": None, "tool_calls": [{"id": "u1", "name": "reboot", "arguments": {}}]},
        {"role": "tool", "id": "u1", "content": "rebooted", "requestor": "user"},
        {"role": "user", "content": "It is off."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "check", "arguments": {"line": 7}}]},
        {"role": "tool", "id": "c1", "content": "ok", "requestor": "assistant"},
    ]
    value = {"info": {"environment_info": {"policy": "Be kind.", "domain_name": "telecom"}, "agent_info": {"llm": "m"}},
             "tasks": [], "simulations": [{"task_id": "9", "reward_info": {"reward": 1.0}, "messages": messages}]}  # fmt: skip
    session = next(read(write(tmp_path / "t.json", value)))
    assert told(session) == ["system Be kind.", "assistant Hi!", "user It is off.", 'assistant check({"line": 7})',
                             "tool ok"]  # fmt: skip
    assert (session.task, session.outcome, session.repository) == ("telecom:9", 1.0, "telecom")


def test_who_and_when_lead_and_team(tmp_path: Path) -> None:
    history = [
        {"role": "human", "content": "How far?"},
        {"role": "Orchestrator (thought)", "content": "Ask the web."},
        {"role": "Orchestrator (-> WebSurfer)", "content": "Look it up."},
        {"role": "WebSurfer", "content": "384,400 km"},
        {"role": "Orchestrator (termination condition)", "content": "Done."},
    ]
    value = {
        "question_ID": "q",
        "history": history,
        "mistake_agent": "WebSurfer",
        "mistake_step": "3",
        "is_corrected": False,
    }
    session = next(read(write(tmp_path / "w.json", value)))
    assert told(session) == ["user How far?", 'assistant Ask the web. WebSurfer({"instruction": "Look it up."})',
                             "tool 384,400 km", "assistant Done."]  # fmt: skip
    assert (session.task, session.outcome) == ("q", 0.0)


def test_opencode_export_stream_and_cleared_results(tmp_path: Path) -> None:
    tool = {"type": "tool", "tool": "bash", "callID": "c1", "messageID": "m2",
            "state": {"status": "completed", "input": {"command": "ls"}, "output": "a.py", "time": {"end": 2}}}  # fmt: skip
    export = {"info": {"id": "ses_1", "directory": "/w", "model": {"id": "m"}}, "messages": [
        {"info": {"role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "Fix it."},
                                                                     {"type": "text", "text": "no", "ignored": True}]},
        {"info": {"role": "assistant", "tokens": {"input": 5, "cache": {"read": 95, "write": 0}}},
         "parts": [{"type": "step-start"}, {"type": "text", "text": "Looking."}, tool]},
    ]}  # fmt: skip
    session = next(read(write(tmp_path / "o.json", export)))
    call = 'assistant Looking. bash({"command": "ls"})'
    assert told(session) == ["user Fix it.", call, "tool a.py"]
    assert session.usages[1]["prompt_tokens"] == 100
    tool["state"]["time"] = {"end": 2, "compacted": 3}  # type: ignore[index]
    assert told(next(read(write(tmp_path / "p.json", export))))[-1] == "tool [Old tool result content cleared]"
    stream = [{"type": t, "sessionID": "s", "timestamp": 1, "part": {**p, "messageID": "m2"}} for t, p in (
        ("step_start", {"type": "step-start"}), ("text", {"type": "text", "text": "Looking."}), ("tool_use", tool))]  # fmt: skip
    assert told(next(read(write(tmp_path / "s.jsonl", stream))))[1] == call


def test_entire_results_inside_calls(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}, "result": {"output": "a.py"}}
    lines = [{"v": 1, "agent": "codex", "type": "user", "content": [{"text": "修复它"}], "ts": ""},
             {"v": 1, "agent": "codex", "type": "assistant", "content": [{"type": "text", "text": "看看"}, use]}]  # fmt: skip
    session = next(read(write(tmp_path / "transcript.jsonl", lines)))
    assert told(session) == ["user 修复它", 'assistant 看看 Bash({"command": "ls"})', "tool a.py"]


def test_cline_new_and_classic(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "c", "name": "read_file", "input": {"path": "a.py"}}
    new = {"version": 1, "sessionId": "s", "system_prompt": "Be brief.", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}], "ts": 1},
        {"role": "assistant", "content": [use], "modelInfo": {"id": "m"}, "metrics": {"inputTokens": 9}},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c",
                                      "content": [{"query": "a.py", "result": "x = 1", "success": True}]}]}]}  # fmt: skip
    call = 'assistant read_file({"path": "a.py"})'
    session = next(read(write(tmp_path / "s.messages.json", new)))
    assert told(session) == ["system Be brief.", "user Fix it.", call, "tool x = 1"]
    classic = [
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}, {"type": "text",
         "text": "<environment_details>\nnow\n</environment_details>"}], "ts": 1},
        {"role": "assistant", "content": [use], "modelInfo": {"modelId": "m"}},
        {"role": "user", "content": [{"type": "text", "text": "[read_file for 'a.py'] Result:\nx = 1"}]},
    ]  # fmt: skip
    session = next(read(write(tmp_path / "1700" / "api_conversation_history.json", classic)))
    assert told(session) == ["user Fix it.", call, "tool x = 1"]
    assert (session.id, session.model) == ("1700", "m")


def test_aider_sessions_edits_and_fences(tmp_path: Path) -> None:
    text = (
        "\n# aider chat started at 2026-03-14 10:00:00\n\n> Main model: m with diff edit format  \n\n#### Fix it.  \n\n"
        "a.py\n```python\n# not a heading\n> not output\n```\n\n> Tokens: 5.2k sent, 604 received.  \n> Applied edit to a.py  \n"
        "\n# aider chat started at 2026-03-14 11:00:00\n\n#### Hello  \n\nHello.\n"
    )
    first, second = read(write(tmp_path / ".aider.chat.history.md", text))
    assert told(first)[0] == "user Fix it."
    assert "edit(" in told(first)[1]
    assert "# not a heading" in told(first)[1]
    assert told(first)[2] == "tool Applied edit to a.py"
    assert (first.model, first.usages[1]["prompt_tokens"]) == ("m", 5200.0)
    assert told(second) == ["user Hello", "assistant Hello."]


def test_nebius_rows(tmp_path: Path) -> None:
    steps = [{"role": "system", "system_prompt": "Be brief.", "text": None, "mask": False},
             {"role": "user", "text": "Fix it."}, {"role": "ai", "text": "Looking.\n```\nopen a.py\n```"},
             {"role": "user", "text": "[File: a.py]\n(Open file: /w/a.py)"}]  # fmt: skip
    row = {"instance_id": "o__r-7_2", "model_name": "m", "target": True, "trajectory": steps}
    session = next(read(write(tmp_path / "rows.json", [row])))
    assert told(session)[2] == 'assistant Looking. open({"command": "open a.py", "path": "a.py"})'
    assert (session.task, session.outcome) == ("o__r-7", 1.0)


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
        list(read(write(tmp_path / name, value)))
    assert name in str(error.value)


def test_every_reader_is_tried_and_named(tmp_path: Path) -> None:
    """The error for a foreign file names every format; the more particular readers come before plain messages."""
    with pytest.raises(SessionError) as error:
        find_reader(write(tmp_path / "x.json", {"hello": 1}))
    assert all(reader.about in str(error.value) for reader in READERS)
    assert READERS[-1].name == "messages"
    assert len({reader.name for reader in READERS}) == len(READERS)
