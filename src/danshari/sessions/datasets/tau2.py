"""Reader of tau2-bench results: one session per simulation, without the user simulator's own tool calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, RecordedSession, load_json_file
from danshari.sessions.script import ChatSessionWriter, content_text, object_or_empty


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    return isinstance(first, dict) and isinstance(first.get("simulations"), list) and {"info", "tasks"} <= first.keys()


def read_tau2_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per simulation."""
    data = load_json_file(path)
    info = object_or_empty(data.get("info"))
    environment = object_or_empty(info.get("environment_info"))
    agent = object_or_empty(info.get("agent_info"))
    if not data["simulations"]:
        raise SessionError(f"{path}: no simulation inside")
    for number, simulation in enumerate(data["simulations"], 1):
        if not isinstance(simulation, dict) or not isinstance(simulation.get("messages"), list):
            yield RecordedSession(id=f"{path.stem}#{number}", source="tau2", format="openai-chat", malformed=1)
            continue
        session = RecordedSession(
            id=f"{path.stem}#{number}", source="tau2", format="openai-chat", model=str(agent.get("llm") or "")
        )
        domain = str(environment.get("domain_name") or path.stem)
        session.task, session.repository = f"{domain}:{simulation.get('task_id')}", domain
        reward = simulation.get("reward_info")
        if isinstance(reward, dict) and isinstance(reward.get("reward"), int | float):
            session.outcome = float(reward["reward"])
        script = ChatSessionWriter(session)
        script.system(str(environment.get("policy") or ""))
        for message in simulation["messages"]:
            _add_message(script, message)
        yield script.finish()


def _add_message(script: ChatSessionWriter, message: Any) -> None:
    """Add one message. Results of the user simulator's tools are skipped."""
    if not isinstance(message, dict):
        script.session.malformed += 1
        return
    role, time, text = message.get("role"), message.get("timestamp"), content_text(message.get("content"))
    if role == "tool":
        for answer in message.get("tool_messages") or [message]:
            if answer.get("requestor", "assistant") == "assistant":
                script.result(str(answer.get("id", "")), content_text(answer.get("content")), time)
    elif role == "assistant":
        calls = [
            (str(c.get("id")), str(c.get("name")), c.get("arguments") or {}) for c in message.get("tool_calls") or ()
        ]
        script.assistant(text, calls=calls, time=time, usage=message.get("usage"))
    elif role == "user":
        script.user(text, time)
    elif role == "system":
        script.system(text, time)


READER = Reader(
    name="tau2", about="tau2-bench results (*.json)", suffixes=(".json",), matches=_matches, read=read_tau2_file
)
