"""Sessions of public data sets and plain lists of messages."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from danshari.formats import FORMATS
from danshari.sessions import read
from tests.support.material.recordings import tell_session, write_lines, write_records
from tests.support.strategies import sessions


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
    rows = write_lines(tmp_path / "chat.jsonl", *chat, "nonsense")
    (session,) = read(rows)
    assert (len(session.messages), session.malformed) == (2, 1)


def atif(agent_step: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    steps = [{"step_id": 1, "source": "user", "message": "Fix it.", "timestamp": "2026-03-14T10:00:00Z"}, agent_step]
    return {"schema_version": "ATIF-v1.6", "agent": {"name": "x", "model_name": "m"}, "steps": [*steps, *more]}


@given(sessions(), st.booleans(), st.booleans())
def test_messages_of_every_provider_are_read(session: tuple[str, list[Any]], whole: bool, lines: bool) -> None:
    """A list, a whole request, or one of these per line: all messages arrive, in the format they were made in."""
    name, messages = session
    value = {FORMATS[name].key: messages} if whole else messages
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("session.jsonl" if lines else "session.json")
        path.write_text(json.dumps(value), "utf-8")
        (made,) = read(path)
    assert made.malformed == 0
    texts = [piece.text for message in messages for piece in FORMATS[name].split(message)]
    assert [piece.text for message in made.messages for piece in FORMATS[name].split(message)] == texts


def test_atif_by_the_book_and_as_openclaw_writes_it(tmp_path: Path) -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    step = {"step_id": 2, "source": "agent", "message": "Looking.", "reasoning_content": "hm", "tool_calls": [call]}
    usage = {"prompt_tokens": 10, "cached_tokens": 90}
    book = atif({**step, "observation": {"results": [{"source_call_id": "c1", "content": "a.py"}]}, "metrics": usage})
    claw = atif(step, {"step_id": 3, "source": "agent", "message": "a.py", "extra": {"tool_call_id": "c1"},
                       "observation": {"results": [{"content": "a.py"}]}})  # fmt: skip
    sessions = {}
    for name, value in (("book", book), ("claw", claw)):
        sessions[name] = session = next(read(write_records(tmp_path / f"{name}.json", value)))
        assert session.source == "atif"
        assert tell_session(session) == ["user Fix it.", 'assistant Looking. bash({"command": "ls"})', "tool a.py"]
        assert session.messages[1]["reasoning_content"] == "hm"
    assert sessions["book"].usages[1]["prompt_tokens"] == 100
    replaced = {"step_id": 4, "source": "system", "message": "", "extra": {"context_management": {"boundary": "replace"}},
                "observation": {"results": [{"content": "So far: looked."}]}}  # fmt: skip
    both = list(read(write_records(tmp_path / "r.json", {**book, "steps": [*book["steps"], replaced]})))
    assert [s.compacted for s in both] == [True, False]
    assert tell_session(both[1]) == ["user So far: looked."]


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
    session = next(read(write_records(tmp_path / "t.json", value)))
    assert tell_session(session) == ["system Be kind.", "assistant Hi!", "user It is off.", 'assistant check({"line": 7})',
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
    session = next(read(write_records(tmp_path / "w.json", value)))
    assert tell_session(session) == ["user How far?", 'assistant Ask the web. WebSurfer({"instruction": "Look it up."})',
                             "tool 384,400 km", "assistant Done."]  # fmt: skip
    assert (session.task, session.outcome) == ("q", 0.0)


def test_nebius_rows(tmp_path: Path) -> None:
    steps = [{"role": "system", "system_prompt": "Be brief.", "text": None, "mask": False},
             {"role": "user", "text": "Fix it."}, {"role": "ai", "text": "Looking.\n```\nopen a.py\n```"},
             {"role": "user", "text": "[File: a.py]\n(Open file: /w/a.py)"}]  # fmt: skip
    row = {"instance_id": "o__r-7_2", "model_name": "m", "target": True, "trajectory": steps}
    session = next(read(write_records(tmp_path / "rows.json", [row])))
    assert tell_session(session)[2] == 'assistant Looking. open({"command": "open a.py", "path": "a.py"})'
    assert (session.task, session.outcome) == ("o__r-7", 1.0)
