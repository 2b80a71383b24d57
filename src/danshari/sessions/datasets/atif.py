"""ATIF trajectories (Agent Trajectory Interchange Format 1.0 to 1.7, Harbor), and OpenClaw's way of writing them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, Recorded, load
from danshari.sessions.script import Script, obj, text_of


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    return isinstance(first, dict) and str(first.get("schema_version", "")).startswith("ATIF-") and "steps" in first


def read(path: Path) -> Iterator[Recorded]:
    """Yield one session per context; a step that says the context was replaced begins a new one."""
    data = load(path)
    steps = data.get("steps")
    if not isinstance(steps, list):
        raise SessionError(f"{path}: `steps` must be a list")
    agent = obj(data.get("agent"))
    name = path.name.removesuffix(".json").removesuffix(".trajectory")
    script, number = Script(_session(name, agent)), 1
    for step in steps:
        if not isinstance(step, dict):
            script.session.malformed += 1
        elif _replaces(step):
            number += 1
            script.session.compacted = True
            yield script.done()
            script = Script(_session(f"{name}#{number}", agent))
            script.user("\n".join(text_of(r.get("content")) for r in _results(step)), step.get("timestamp"))
        else:
            _step(script, step)
    yield script.done()


def _session(name: str, agent: dict[str, Any]) -> Recorded:
    return Recorded(id=name, source="atif", format="openai-chat", model=str(agent.get("model_name") or ""))


def _replaces(step: dict[str, Any]) -> bool:
    extra = step.get("extra")
    managed = extra.get("context_management") if isinstance(extra, dict) else None
    return isinstance(managed, dict) and managed.get("boundary") == "replace" and bool(_results(step))


def _results(step: dict[str, Any]) -> list[dict[str, Any]]:
    observation = step.get("observation")
    found = observation.get("results") if isinstance(observation, dict) else None
    return [r for r in found or () if isinstance(r, dict)]


def _step(script: Script, step: dict[str, Any]) -> None:
    source, time, results = step.get("source"), step.get("timestamp"), _results(step)
    calls = [c for c in step.get("tool_calls") or () if isinstance(c, dict)]
    extra = obj(step.get("extra"))
    if source == "agent" and not calls and results:  # OpenClaw: one more step per result, whose message repeats it
        for result in results:
            known = result.get("source_call_id") or extra.get("tool_call_id")
            script.result(str(known or script.waiting()), text_of(result.get("content")), time)
        return
    message = text_of(step.get("message"))
    if source == "agent":
        made = [
            (str(c.get("tool_call_id") or script.fresh_id()), str(c.get("function_name", "")), _given(c)) for c in calls
        ]
        thinking = str(step.get("reasoning_content") or "")
        script.assistant(message, thinking=thinking, calls=made, time=time, usage=_usage(step.get("metrics")))
        for place, result in enumerate(results):
            known = result.get("source_call_id") or (made[place][0] if place < len(made) else "")
            script.result(str(known), text_of(result.get("content")), time)
    elif source == "system":
        script.system(message, time)
    else:
        script.user(message, time)


def _given(made: dict[str, Any]) -> Any:
    arguments = made.get("arguments")
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


def _usage(metrics: Any) -> dict[str, Any]:
    """Read usage; some writers leave cached tokens out of the prompt although the format says they are in."""
    if not isinstance(metrics, dict) or not isinstance(metrics.get("prompt_tokens"), int | float):
        return {}
    prompt, cached = float(metrics["prompt_tokens"]), float(metrics.get("cached_tokens") or 0)
    total = prompt + cached if cached > prompt else prompt
    return {"prompt_tokens": total, "prompt_tokens_details": {"cached_tokens": cached}}


READER = Reader(
    name="atif", about="ATIF trajectory (Harbor, OpenClaw; *.json)", suffixes=(".json",), matches=_matches, read=read
)
