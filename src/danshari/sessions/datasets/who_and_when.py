"""Who&When: multi-agent histories of failed runs; what the lead asks other agents to do are the calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, Recorded, load
from danshari.sessions.script import Script

_TO = re.compile(r"Orchestrator \(-> (.+)\)$")
_CODE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    return isinstance(first, dict) and {"history", "mistake_step", "mistake_agent"} <= first.keys()


def read(path: Path) -> Iterator[Recorded]:
    """Yield the one session of a file."""
    data = load(path)
    if not isinstance(data["history"], list):
        raise SessionError(f"{path}: `history` must be a list")
    session = Recorded(id=path.stem, source="who-and-when", format="openai-chat")
    session.task = str(data.get("question_ID") or path.stem)
    right = data.get("is_correct", data.get("is_corrected"))
    session.outcome = float(right) if isinstance(right, bool) else None
    team = _Team(Script(session))
    for entry in data["history"]:
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            team.take(entry["content"], str(entry.get("name") or entry.get("role") or ""))
        else:
            session.malformed += 1
    yield team.done()


class _Team:
    """The team's lead is the assistant, every other agent a tool it calls; its thoughts go with its next word."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._thought: list[str] = []

    def take(self, text: str, speaker: str) -> None:
        """Write one entry down."""
        script, sent = self.script, _TO.match(speaker)
        if sent:
            script.assistant(self._said(), calls=[(script.fresh_id(), sent.group(1), {"instruction": text})])
        elif speaker == "human" or not script.session.messages:
            script.user(text)
        elif speaker.startswith("Orchestrator"):
            self._thought.append(text)
        elif waiting := script.waiting(speaker):
            script.result(waiting, text)
        elif code := _CODE.search(text):
            script.assistant(text, calls=[(script.fresh_id(), "Computer_terminal", {"command": code.group(2)})])
        elif speaker == "Computer_terminal":
            script.user(text)
        else:
            script.assistant(text)

    def _said(self) -> str:
        text, self._thought = "\n".join(self._thought), []
        return text

    def done(self) -> Recorded:
        """Give the session."""
        self.script.assistant(self._said())
        return self.script.done()


READER = Reader(
    name="who-and-when", about="Who&When failure attribution (*.json)", suffixes=(".json",), matches=_matches, read=read
)
