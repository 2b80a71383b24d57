"""Reader of OpenHands before its SDK (v0).

Reads `output.jsonl` of evaluations and resolver runs, saved trajectories, and pairs of events.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, RecordedSession, load_json_file, read_json_lines
from danshari.sessions.script import ChatSessionWriter, content_text, object_or_empty

_BOOKKEEPING_FIELDS = {
    "thought",
    "is_input",
    "blocking",
    "is_static",
    "cwd",
    "hidden",
    "confirmation_state",
    "security_risk",
    "timeout",
    "keep_prompt",
    "is_confirmed",
    "kernel_init_code",
    "wait_for_response",
    "image_urls",
}
_SKIPPED_ACTIONS = {
    "recall",
    "change_agent_state",
    "null",
    "pause",
    "resume",
    "condensation_request",
    "push",
    "send_pr",
}
_SKIPPED_OBSERVATIONS = {"null", "agent_state_changed", "recall", "condense"}
_FLAT_FIELDS = {"command", "code", "content", "outputs", "path", "url"}


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    if isinstance(first, list):
        return bool(first) and _is_event(first[0]) and ("args" in first[0] or "extras" in first[0])
    history = first.get("history") if isinstance(first, dict) and "instruction" in first else None
    return isinstance(history, list) and bool(history) and (isinstance(history[0], list) or _is_event(history[0]))


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and ("action" in value or "observation" in value) and "kind" not in value


def read_openhands_file(path: Path) -> Iterator[RecordedSession]:
    """Yield the runs of a file."""
    if path.suffix == ".json":
        yield from _read_run(path.stem, {"history": load_json_file(path)})
        return
    for number, record in enumerate(read_json_lines(path), 1):
        if record is None or not isinstance(record.get("history"), list):
            yield RecordedSession(id=f"{path.stem}#{number}", source="openhands", format="openai-chat", malformed=1)
            continue
        issue = object_or_empty(record.get("issue"))
        named = record.get("instance_id") or "__".join(str(issue.get(k, "")) for k in ("owner", "repo"))
        name = f"{named}-{issue['number']}" if issue.get("number") else str(named)
        yield from _read_run(name if name.strip("_") else f"{path.stem}#{number}", record)


def _read_run(name: str, record: dict[str, Any]) -> Iterator[RecordedSession]:
    """Yield one session per context of a run. A condensation begins a new one."""
    reader = _RunReader(name, record)
    for event in _iterate_events(record["history"]):
        if event.get("action") == "condensation":
            yield reader.start_next_context(event.get("args") or {})
        else:
            reader.add_event(event)
    yield reader.script.finish()


def _iterate_events(history: list[Any]) -> Iterator[dict[str, Any]]:
    for entry in history:
        yield from (e for e in (entry if isinstance(entry, list) else [entry]) if isinstance(e, dict))


class _RunReader:
    """Builds the contexts of one run from its events."""

    def __init__(self, name: str, record: dict[str, Any]) -> None:
        self._name, self._record, self._number = name, record, 1
        self._taken: list[dict[str, Any]] = []
        self._begin_context(name)
        instruction = record.get("instruction")
        first = next(iter(_iterate_events(record["history"])), {})
        if isinstance(instruction, str) and first.get("action") not in ("message", "system"):
            self.script.user(instruction)

    def _begin_context(self, name: str) -> None:
        record = self._record
        config = object_or_empty(object_or_empty(record.get("metadata")).get("llm_config"))
        session = RecordedSession(id=name, source="openhands", format="openai-chat", outcome=_read_outcome(record))
        session.model, session.task = str(config.get("model") or ""), self._name
        self.script = ChatSessionWriter(session)
        self._calls: dict[Any, str] = {}
        self._answers: set[Any] = set()
        self._users = 0

    def start_next_context(self, args: dict[str, Any]) -> RecordedSession:
        """End this context and begin the next with the events not forgotten and the summary. Return the ended one."""
        before = self.script.finish()
        before.compacted = True
        first, last = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
        gone = set(args.get("forgotten_event_ids") or (range(first, last + 1) if first is not None and last else ()))
        kept = [e for e in self._taken if e.get("id") not in gone]
        self._number += 1
        self._taken = []
        self._begin_context(f"{self._name}#{self._number}")
        offset = args.get("summary_offset") or 0
        for place, event in enumerate(kept):
            if place == offset and args.get("summary"):
                self.script.user(str(args["summary"]))
            self.add_event(event)
        return before

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one event."""
        self._taken.append(event)
        if isinstance(event.get("action"), str):
            self._add_action(event, event["action"])
        elif isinstance(event.get("observation"), str):
            self._add_observation(event, event["observation"])
        else:
            self.script.session.malformed += 1

    def _add_action(self, event: dict[str, Any], kind: str) -> None:
        """Add an action: a system prompt, a message, or a tool call."""
        args = object_or_empty(event.get("args")) or {k: event[k] for k in sorted(_FLAT_FIELDS & event.keys())}
        time = event.get("timestamp")
        if kind in _SKIPPED_ACTIONS:
            return
        if kind == "system":
            self.script.system(content_text(args.get("content")), time)
        elif kind == "message":
            source = event.get("source") or ("user" if not self._users else "agent")
            self._users += 1
            said = self.script.user if source == "user" else self.script.assistant
            said(content_text(args.get("content")), time=time)
        else:
            self._add_call(event, kind, args, time)

    def _add_call(self, event: dict[str, Any], kind: str, args: dict[str, Any], time: Any) -> None:
        """Add a tool call. Calls of one model answer become parallel calls of one message."""
        meta = object_or_empty(event.get("tool_call_metadata"))
        answer = object_or_empty(meta.get("model_response"))
        choice = (answer.get("choices") or [{}])[0].get("message") or {}
        made = {c.get("id"): c for c in choice.get("tool_calls") or () if isinstance(c, dict)}
        call_id = str(meta.get("tool_call_id") or self.script.make_call_id())
        known = made.get(meta.get("tool_call_id"))
        name = str(meta.get("function_name") or kind)
        given = known["function"].get("arguments") if known else _clean_arguments(args)
        self._calls[event.get("id")] = call_id
        if answer.get("id") in self._answers:
            self.script.join_calls([(call_id, name, given)])
            return
        if answer.get("id"):
            self._answers.add(answer["id"])
        thought = content_text(choice.get("content")) or (
            "" if kind == "think" else str(args.get("thought") or event.get("thought") or "")
        )
        self.script.assistant(thought, calls=[(call_id, name, given)], time=time, usage=answer.get("usage"))

    def _add_observation(self, event: dict[str, Any], kind: str) -> None:
        if kind in _SKIPPED_OBSERVATIONS:
            return
        meta = object_or_empty(event.get("tool_call_metadata"))
        call_id = meta.get("tool_call_id") or self._calls.get(event.get("cause")) or self.script.oldest_open_call()
        text, time = _visible_result(event, kind), event.get("timestamp")
        if call_id:
            self.script.result(str(call_id), text, time)
        else:
            self.script.user(text, time)


def _clean_arguments(args: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in args.items() if k not in _BOOKKEEPING_FIELDS}, ensure_ascii=False, default=str)


def _visible_result(event: dict[str, Any], kind: str) -> str:
    """Return a result as the model saw it: output, then working directory and exit code of a command."""
    text = content_text(event.get("content"))
    extras = object_or_empty(event.get("extras"))
    meta = object_or_empty(extras.get("metadata"))
    if kind != "run" or not meta:
        return text
    text = f"{meta.get('prefix') or ''}{text}{meta.get('suffix') or ''}"
    if meta.get("working_dir"):
        text += f"\n[Current working directory: {meta['working_dir']}]"
    code = meta.get("exit_code", -1)
    return text + (f"\n[Command finished with exit code {code}]" if code != -1 else "")


def _read_outcome(record: dict[str, Any]) -> float | None:
    result = object_or_empty(record.get("test_result"))
    for report in (result.get("report"), record.get("report"), record):
        for key in ("resolved", "success"):
            if isinstance(report, dict) and isinstance(report.get(key), bool):
                return float(report[key])
    return None


READER = Reader(
    name="openhands",
    about="OpenHands before the SDK (output.jsonl, saved trajectories)",
    suffixes=(".jsonl", ".json"),
    matches=_matches,
    read=read_openhands_file,
)
