"""Reader of the OpenHands SDK (v1).

Reads events as JSONL, lines with a history, or a conversation folder by its base_state.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from danshari.core.text import BlockPattern
from danshari.sessions.base import Reader, RecordedSession, load_json_file, read_json_lines
from danshari.sessions.script import ChatSessionWriter, content_text, object_or_empty

_THOUGHT = BlockPattern([r"<think>.*?</think>\s*"], re.DOTALL)
_FILE = re.compile(r"event-(\d+)-[0-9a-fA-F-]+\.json")
_MODEL_EVENTS = {"SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "UserRejectObservation",
          "AgentErrorEvent"}  # fmt: skip
_SDK_ARGUMENTS = ("security_risk", "summary")
"""Arguments that the SDK adds to every tool."""


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    if not isinstance(first, dict):
        return False
    if isinstance(first.get("history"), list) and "instruction" in first:
        return not first["history"] or (isinstance(first["history"][0], dict) and "kind" in first["history"][0])
    if "execution_status" in first and "agent" in first:
        return True
    kind = str(first.get("kind", ""))
    return "source" in first and (kind.endswith("Event") or kind in ("Condensation", "UserRejectObservation"))


def read_openhands_sdk_file(path: Path) -> Iterator[RecordedSession]:
    """Yield the conversations of a file, one session per context."""
    if path.suffix == ".json":
        yield from _read_conversation(path)
        return
    plain: list[dict[str, Any]] = []
    malformed = 0
    for number, record in enumerate(read_json_lines(path), 1):
        if record is None:
            malformed += 1
        elif isinstance(record.get("history"), list):
            name = str(record.get("instance_id") or f"{path.stem}#{number}")
            yield from _read_run(
                name, record["history"], instruction=str(record.get("instruction") or ""), record=record
            )
        else:
            plain.append(record)
    if plain:
        for session in _read_run(path.stem, plain):
            session.malformed += malformed
            yield session


def _read_conversation(path: Path) -> Iterator[RecordedSession]:
    """Read a conversation folder: numbered event files beside base_state.json."""
    state = load_json_file(path)
    folder = path.parent / "events"
    found = [(int(m.group(1)), p) for p in folder.glob("event-*.json") if (m := _FILE.fullmatch(p.name))]
    events = [load_json_file(p) for _, p in sorted(found)] if path.name == "base_state.json" else [state]
    model = ((state.get("agent") or {}).get("llm") or {}).get("model") if isinstance(state.get("agent"), dict) else ""
    for session in _read_run(path.parent.name, events):
        session.model = session.model or str(model or "")
        session.cwd = str((state.get("workspace") or {}).get("working_dir") or "")
        yield session


def _read_run(
    name: str, events: Iterable[Any], *, instruction: str = "", record: Any = None
) -> Iterator[RecordedSession]:
    """Yield one session per context of a run. A condensation begins a new one."""
    events = [e for e in events if isinstance(e, dict)]
    metadata = (record or {}).get("metadata")
    llm = metadata.get("llm") if isinstance(metadata, dict) else None
    model = str(llm.get("model") or "") if isinstance(llm, dict) else ""
    number = 1
    view: list[dict[str, Any]] = []
    for event in events:
        if event.get("kind") == "Condensation":
            session = _write_session(f"{name}#{number}" if number > 1 else name, view, instruction, model)
            session.compacted = True
            yield session
            number += 1
            view = _apply_condensation(view, event)
        elif event.get("kind") in _MODEL_EVENTS:
            view.append(event)
    yield _write_session(f"{name}#{number}" if number > 1 else name, view, instruction, model)


def _apply_condensation(view: list[dict[str, Any]], event: dict[str, Any]) -> list[dict[str, Any]]:
    gone = set(event.get("forgotten_event_ids") or ())
    kept = [e for e in view if e.get("id") not in gone]
    if event.get("summary"):
        summary = {"kind": "MessageEvent", "source": "user", "id": f"{event.get('id')}-summary",
                   "timestamp": event.get("timestamp"),
                   "llm_message": {"role": "user", "content": str(event["summary"])}}  # fmt: skip
        kept.insert(event.get("summary_offset") or 0, summary)
    return kept


def _write_session(name: str, view: list[dict[str, Any]], instruction: str, model: str) -> RecordedSession:
    session = RecordedSession(
        id=name, source="openhands-sdk", format="openai-chat", model=model, task=name.split("#")[0]
    )
    script = ChatSessionWriter(session)
    if instruction and not any(e.get("kind") == "MessageEvent" and e.get("source") == "user" for e in view):
        script.user(instruction)
    answer: Any = None
    for event in view:
        answer = _add_event(script, event, answer)
    return script.finish()


def _add_event(script: ChatSessionWriter, event: dict[str, Any], answer: Any) -> Any:
    """Add one event. Returns the id of the model answer it belongs to, to detect parallel calls."""
    kind, time = event.get("kind"), event.get("timestamp")
    if kind == "ActionEvent":
        return _add_action(script, event, answer)
    call_id = str(event.get("tool_call_id") or "")
    if kind == "SystemPromptEvent":
        script.system(content_text(event.get("system_prompt")) + content_text(event.get("dynamic_context")), time)
    elif kind == "MessageEvent":
        message = object_or_empty(event.get("llm_message"))
        parts = [content_text(message.get("content")), content_text(event.get("extended_content"))]
        text = "\n".join(p for p in parts if p)
        if message.get("role") == "assistant":
            script.assistant(text, thinking=str(message.get("reasoning_content") or ""), time=time)
        else:
            script.user(text, time)
    elif kind == "ObservationEvent":
        script.result(call_id, _observation_text(event.get("observation")), time)
    elif kind == "UserRejectObservation":
        script.result(call_id, f"rejected by the user: {event.get('rejection_reason') or ''}", time)
    else:
        script.result(call_id, str(event.get("error") or "error"), time)
    return answer


def _add_action(script: ChatSessionWriter, event: dict[str, Any], answer: Any) -> Any:
    """Add a tool call and return the id of its model answer. Calls of one answer are parallel calls."""
    made = object_or_empty(event.get("tool_call"))
    given = made.get("arguments") or (made.get("function") or {}).get("arguments")
    if not isinstance(given, str):
        action = object_or_empty(event.get("action"))
        given = {k: v for k, v in action.items() if k not in ("kind", *_SDK_ARGUMENTS)}
    one = (str(event.get("tool_call_id") or script.make_call_id()), str(event.get("tool_name") or ""), given)
    mine = event.get("llm_response_id")
    if mine and mine == answer:
        script.join_calls([one])
        return answer
    thinking = str(event.get("reasoning_content") or "")
    thought = _THOUGHT.sub("", content_text(event.get("thought"))) if thinking else content_text(event.get("thought"))
    script.assistant(thought, thinking=thinking, calls=[one], time=event.get("timestamp"))
    return mine


def _observation_text(value: Any) -> str:
    if not isinstance(value, dict):
        return content_text(value)
    for key in ("content", "output", "message"):
        if text := content_text(value.get(key)):
            error = value.get("error")
            return f"{text}\n{error}" if isinstance(error, str) and error else text
    return ""


READER = Reader(
    name="openhands-sdk",
    about="OpenHands SDK events (*.jsonl, or a conversation's base_state.json)",
    suffixes=(".jsonl", ".json"),
    matches=_matches,
    read=read_openhands_sdk_file,
)
