"""OpenHands before its SDK (v0): `output.jsonl` of evaluations and resolver runs, saved trajectories, event pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, Recorded, lines, load
from danshari.sessions.script import Script, obj, text_of

_BOOKKEEPING = {"thought", "is_input", "blocking", "is_static", "cwd", "hidden", "confirmation_state", "security_risk",
                "timeout", "keep_prompt", "is_confirmed", "kernel_init_code", "wait_for_response",
                "image_urls"}  # fmt: skip
_SILENT = {"recall", "change_agent_state", "null", "pause", "resume", "condensation_request", "push", "send_pr"}
_UNSHOWN = {"null", "agent_state_changed", "recall", "condense"}
_FLAT = {"command", "code", "content", "outputs", "path", "url"}


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    if isinstance(first, list):
        return bool(first) and _is_event(first[0]) and ("args" in first[0] or "extras" in first[0])
    history = first.get("history") if isinstance(first, dict) and "instruction" in first else None
    return isinstance(history, list) and bool(history) and (isinstance(history[0], list) or _is_event(history[0]))


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and ("action" in value or "observation" in value) and "kind" not in value


def read(path: Path) -> Iterator[Recorded]:
    """Yield the runs of a file."""
    if path.suffix == ".json":
        yield from _run(path.stem, {"history": load(path)})
        return
    for number, record in enumerate(lines(path), 1):
        if record is None or not isinstance(record.get("history"), list):
            yield Recorded(id=f"{path.stem}#{number}", source="openhands", format="openai-chat", malformed=1)
            continue
        issue = obj(record.get("issue"))
        named = record.get("instance_id") or "__".join(str(issue.get(k, "")) for k in ("owner", "repo"))
        name = f"{named}-{issue['number']}" if issue.get("number") else str(named)
        yield from _run(name if name.strip("_") else f"{path.stem}#{number}", record)


def _run(name: str, record: dict[str, Any]) -> Iterator[Recorded]:
    """Yield one session per context of a run; a condensation begins a new one."""
    reader = _Run(name, record)
    for event in _events(record["history"]):
        if event.get("action") == "condensation":
            yield reader.condensed(event.get("args") or {})
        else:
            reader.take(event)
    yield reader.script.done()


def _events(history: list[Any]) -> Iterator[dict[str, Any]]:
    for entry in history:
        yield from (e for e in (entry if isinstance(entry, list) else [entry]) if isinstance(e, dict))


class _Run:
    def __init__(self, name: str, record: dict[str, Any]) -> None:
        self._name, self._record, self._number = name, record, 1
        self._taken: list[dict[str, Any]] = []
        self._begin(name)
        instruction = record.get("instruction")
        first = next(iter(_events(record["history"])), {})
        if isinstance(instruction, str) and first.get("action") not in ("message", "system"):
            self.script.user(instruction)

    def _begin(self, name: str) -> None:
        record = self._record
        config = obj(obj(record.get("metadata")).get("llm_config"))
        session = Recorded(id=name, source="openhands", format="openai-chat", outcome=_outcome(record))
        session.model, session.task = str(config.get("model") or ""), self._name
        self.script = Script(session)
        self._calls: dict[Any, str] = {}
        self._answers: set[Any] = set()
        self._users = 0

    def condensed(self, args: dict[str, Any]) -> Recorded:
        """End this context and begin the next with what was not forgotten and the summary."""
        before = self.script.done()
        before.compacted = True
        first, last = args.get("forgotten_events_start_id"), args.get("forgotten_events_end_id")
        gone = set(args.get("forgotten_event_ids") or (range(first, last + 1) if first is not None and last else ()))
        kept = [e for e in self._taken if e.get("id") not in gone]
        self._number += 1
        self._taken = []
        self._begin(f"{self._name}#{self._number}")
        offset = args.get("summary_offset") or 0
        for place, event in enumerate(kept):
            if place == offset and args.get("summary"):
                self.script.user(str(args["summary"]))
            self.take(event)
        return before

    def take(self, event: dict[str, Any]) -> None:
        """Write one event down."""
        self._taken.append(event)
        if isinstance(event.get("action"), str):
            self._action(event, event["action"])
        elif isinstance(event.get("observation"), str):
            self._observation(event, event["observation"])
        else:
            self.script.session.malformed += 1

    def _action(self, event: dict[str, Any], kind: str) -> None:
        args = obj(event.get("args")) or {k: event[k] for k in sorted(_FLAT & event.keys())}
        time = event.get("timestamp")
        if kind in _SILENT:
            return
        if kind == "system":
            self.script.system(text_of(args.get("content")), time)
        elif kind == "message":
            source = event.get("source") or ("user" if not self._users else "agent")
            self._users += 1
            said = self.script.user if source == "user" else self.script.assistant
            said(text_of(args.get("content")), time=time)
        else:
            self._call(event, kind, args, time)

    def _call(self, event: dict[str, Any], kind: str, args: dict[str, Any], time: Any) -> None:
        meta = obj(event.get("tool_call_metadata"))
        answer = obj(meta.get("model_response"))
        choice = (answer.get("choices") or [{}])[0].get("message") or {}
        made = {c.get("id"): c for c in choice.get("tool_calls") or () if isinstance(c, dict)}
        call_id = str(meta.get("tool_call_id") or self.script.fresh_id())
        known = made.get(meta.get("tool_call_id"))
        name = str(meta.get("function_name") or kind)
        given = known["function"].get("arguments") if known else _clean(args)
        self._calls[event.get("id")] = call_id
        if answer.get("id") in self._answers:
            self.script.join([(call_id, name, given)])
            return
        if answer.get("id"):
            self._answers.add(answer["id"])
        thought = text_of(choice.get("content")) or (
            "" if kind == "think" else str(args.get("thought") or event.get("thought") or "")
        )
        self.script.assistant(thought, calls=[(call_id, name, given)], time=time, usage=answer.get("usage"))

    def _observation(self, event: dict[str, Any], kind: str) -> None:
        if kind in _UNSHOWN:
            return
        meta = obj(event.get("tool_call_metadata"))
        call_id = meta.get("tool_call_id") or self._calls.get(event.get("cause")) or self.script.waiting()
        text, time = _shown(event, kind), event.get("timestamp")
        if call_id:
            self.script.result(str(call_id), text, time)
        else:
            self.script.user(text, time)


def _clean(args: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in args.items() if k not in _BOOKKEEPING}, ensure_ascii=False, default=str)


def _shown(event: dict[str, Any], kind: str) -> str:
    """Give a result as the model saw it: output, then where the shell stood and how the command ended."""
    text = text_of(event.get("content"))
    extras = obj(event.get("extras"))
    meta = obj(extras.get("metadata"))
    if kind != "run" or not meta:
        return text
    text = f"{meta.get('prefix') or ''}{text}{meta.get('suffix') or ''}"
    if meta.get("working_dir"):
        text += f"\n[Current working directory: {meta['working_dir']}]"
    code = meta.get("exit_code", -1)
    return text + (f"\n[Command finished with exit code {code}]" if code != -1 else "")


def _outcome(record: dict[str, Any]) -> float | None:
    result = obj(record.get("test_result"))
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
    read=read,
)
