"""Sessions of OpenHands, old and new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from danshari.sessions import read
from tests.support.material.recordings import tell_session, write_records


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
    session = next(read(write_records(tmp_path / "n.jsonl", [nested])))
    shown = "tool a.py\n[Current working directory: /w]\n[Command finished with exit code 0]"
    assert tell_session(session) == ["system Be brief.", "user Fix it.", call, shown]
    assert (session.outcome, session.task) == (1.0, "o__r-1")
    for name, value in (("f", flat), ("p", pairs)):
        assert tell_session(next(read(write_records(tmp_path / f"{name}.jsonl", [value])))) == [
            "user Fix it.",
            call,
            "tool a.py",
        ]


def test_openhands_condensation_begins_a_new_context(tmp_path: Path) -> None:
    events = [{"id": n, "action": "message", "args": {"content": f"say {n}"}, "source": s}
              for n, s in enumerate(["user", "agent", "user", "agent"])]  # fmt: skip
    condensed = {"id": 4, "action": "condensation", "args": {"forgotten_event_ids": [1, 2], "summary": "Said two.",
                                                             "summary_offset": 1}}  # fmt: skip
    last = {"id": 5, "action": "message", "args": {"content": "go on"}, "source": "user"}
    first, second = read(write_records(tmp_path / "c.jsonl", [v0(*events, condensed, last)]))
    assert first.compacted
    assert tell_session(second) == ["user say 0", "user Said two.", "assistant say 3", "user go on"]


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
    session = next(read(write_records(tmp_path / "e.jsonl", events)))
    assert session.source == "openhands-sdk"
    call = 'terminal({"command": "ls"})'
    assert tell_session(session) == [
        "user Fix it.",
        f"assistant Looking. {call} {call}",
        "tool a.py",
        "tool no such file",
    ]
    forget = sdk(
        "Condensation", id="k", forgotten_event_ids=["a", "b", "oa", "ob"], summary="Looked.", summary_offset=1
    )
    first, second = read(write_records(tmp_path / "k.jsonl", [*events, forget]))
    assert first.compacted
    assert tell_session(second) == ["user Fix it.", "user Looked."]
    folder = tmp_path / "conversation"
    state = {"agent": {"llm": {"model": "m"}}, "execution_status": "idle", "workspace": {"working_dir": "/w"}}
    for number, event in enumerate(events):
        write_records(folder / "events" / f"event-{number:05d}-{'0' * 12}.json", event)
    stored = next(read(write_records(folder / "base_state.json", state)))
    assert (stored.model, stored.cwd, len(stored.messages)) == ("m", "/w", 4)
