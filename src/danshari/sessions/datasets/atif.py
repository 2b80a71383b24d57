"""Reader of ATIF trajectories (Agent Trajectory Interchange Format 1.0 to 1.7) by Harbor and OpenClaw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, RecordedSession, load_json_file
from danshari.sessions.script import ChatSessionWriter, content_text, object_or_empty


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    return isinstance(first, dict) and str(first.get("schema_version", "")).startswith("ATIF-") and "steps" in first


def read_atif_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per context. A step that replaces the context begins a new one. Raises SessionError."""
    data = load_json_file(path)
    steps = data.get("steps")
    if not isinstance(steps, list):
        raise SessionError(f"{path}: `steps` must be a list")
    agent = object_or_empty(data.get("agent"))
    name = path.name.removesuffix(".json").removesuffix(".trajectory")
    script, number = ChatSessionWriter(_new_session(name, agent)), 1
    for step in steps:
        if not isinstance(step, dict):
            script.session.malformed += 1
        elif _is_replacement(step):
            number += 1
            script.session.compacted = True
            yield script.finish()
            script = ChatSessionWriter(_new_session(f"{name}#{number}", agent))
            script.user("\n".join(content_text(r.get("content")) for r in _step_results(step)), step.get("timestamp"))
        else:
            _add_step(script, step)
    yield script.finish()


def _new_session(name: str, agent: dict[str, Any]) -> RecordedSession:
    return RecordedSession(id=name, source="atif", format="openai-chat", model=str(agent.get("model_name") or ""))


def _is_replacement(step: dict[str, Any]) -> bool:
    """Return whether a step replaces the context by its results."""
    extra = step.get("extra")
    managed = extra.get("context_management") if isinstance(extra, dict) else None
    return isinstance(managed, dict) and managed.get("boundary") == "replace" and bool(_step_results(step))


def _step_results(step: dict[str, Any]) -> list[dict[str, Any]]:
    observation = step.get("observation")
    found = observation.get("results") if isinstance(observation, dict) else None
    return [r for r in found or () if isinstance(r, dict)]


def _add_step(script: ChatSessionWriter, step: dict[str, Any]) -> None:
    """Write one step as messages. OpenClaw writes each result as a step of its own."""
    source, time, results = step.get("source"), step.get("timestamp"), _step_results(step)
    calls = [c for c in step.get("tool_calls") or () if isinstance(c, dict)]
    extra = object_or_empty(step.get("extra"))
    if source == "agent" and not calls and results:  # OpenClaw: one more step per result, whose message repeats it
        for result in results:
            known = result.get("source_call_id") or extra.get("tool_call_id")
            script.result(str(known or script.oldest_open_call()), content_text(result.get("content")), time)
        return
    message = content_text(step.get("message"))
    if source == "agent":
        made = [
            (str(c.get("tool_call_id") or script.make_call_id()), str(c.get("function_name", "")), _call_arguments(c))
            for c in calls
        ]
        thinking = str(step.get("reasoning_content") or "")
        script.assistant(message, thinking=thinking, calls=made, time=time, usage=_read_usage(step.get("metrics")))
        for place, result in enumerate(results):
            known = result.get("source_call_id") or (made[place][0] if place < len(made) else "")
            script.result(str(known), content_text(result.get("content")), time)
    elif source == "system":
        script.system(message, time)
    else:
        script.user(message, time)


def _call_arguments(made: dict[str, Any]) -> Any:
    arguments = made.get("arguments")
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


def _read_usage(metrics: Any) -> dict[str, Any]:
    """Read usage. Some writers exclude cached tokens from the prompt, although the format includes them."""
    if not isinstance(metrics, dict) or not isinstance(metrics.get("prompt_tokens"), int | float):
        return {}
    prompt, cached = float(metrics["prompt_tokens"]), float(metrics.get("cached_tokens") or 0)
    total = prompt + cached if cached > prompt else prompt
    return {"prompt_tokens": total, "prompt_tokens_details": {"cached_tokens": cached}}


READER = Reader(
    name="atif",
    about="ATIF trajectory (Harbor, OpenClaw; *.json)",
    suffixes=(".json",),
    matches=_matches,
    read=read_atif_file,
)
