"""tau2-bench results: one simulation is one session; what the user simulator's own tools did stays out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, Recorded, load
from danshari.sessions.script import Script, obj, text_of


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    return isinstance(first, dict) and isinstance(first.get("simulations"), list) and {"info", "tasks"} <= first.keys()


def read(path: Path) -> Iterator[Recorded]:
    """Yield one session per simulation."""
    data = load(path)
    info = obj(data.get("info"))
    environment = obj(info.get("environment_info"))
    agent = obj(info.get("agent_info"))
    if not data["simulations"]:
        raise SessionError(f"{path}: no simulation inside")
    for number, simulation in enumerate(data["simulations"], 1):
        if not isinstance(simulation, dict) or not isinstance(simulation.get("messages"), list):
            yield Recorded(id=f"{path.stem}#{number}", source="tau2", format="openai-chat", malformed=1)
            continue
        session = Recorded(
            id=f"{path.stem}#{number}", source="tau2", format="openai-chat", model=str(agent.get("llm") or "")
        )
        domain = str(environment.get("domain_name") or path.stem)
        session.task, session.repository = f"{domain}:{simulation.get('task_id')}", domain
        reward = simulation.get("reward_info")
        if isinstance(reward, dict) and isinstance(reward.get("reward"), int | float):
            session.outcome = float(reward["reward"])
        script = Script(session)
        script.system(str(environment.get("policy") or ""))
        for message in simulation["messages"]:
            _take(script, message)
        yield script.done()


def _take(script: Script, message: Any) -> None:
    if not isinstance(message, dict):
        script.session.malformed += 1
        return
    role, time, text = message.get("role"), message.get("timestamp"), text_of(message.get("content"))
    if role == "tool":
        for answer in message.get("tool_messages") or [message]:
            if answer.get("requestor", "assistant") == "assistant":
                script.result(str(answer.get("id", "")), text_of(answer.get("content")), time)
    elif role == "assistant":
        calls = [
            (str(c.get("id")), str(c.get("name")), c.get("arguments") or {}) for c in message.get("tool_calls") or ()
        ]
        script.assistant(text, calls=calls, time=time, usage=message.get("usage"))
    elif role == "user":
        script.user(text, time)
    elif role == "system":
        script.system(text, time)


READER = Reader(name="tau2", about="tau2-bench results (*.json)", suffixes=(".json",), matches=_matches, read=read)
