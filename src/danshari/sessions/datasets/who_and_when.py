"""Reader of Who&When: multi-agent histories of failed runs.

What the orchestrator asks other agents to do becomes a tool call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.errors import SessionError
from danshari.sessions.base import Reader, RecordedSession, load_json_file
from danshari.sessions.script import ChatSessionWriter

_TO = re.compile(r"Orchestrator \(-> (.+)\)$")
_CODE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def _matches(records: list[Any]) -> bool:
    first = records[0] if records else None
    return isinstance(first, dict) and {"history", "mistake_step", "mistake_agent"} <= first.keys()


def read_who_and_when_file(path: Path) -> Iterator[RecordedSession]:
    """Yield the one session of a file."""
    data = load_json_file(path)
    if not isinstance(data["history"], list):
        raise SessionError(f"{path}: `history` must be a list")
    session = RecordedSession(id=path.stem, source="who-and-when", format="openai-chat")
    session.task = str(data.get("question_ID") or path.stem)
    right = data.get("is_correct", data.get("is_corrected"))
    session.outcome = float(right) if isinstance(right, bool) else None
    team = _TeamReader(ChatSessionWriter(session))
    for entry in data["history"]:
        if isinstance(entry, dict) and isinstance(entry.get("content"), str):
            team.add_entry(entry["content"], str(entry.get("name") or entry.get("role") or ""))
        else:
            session.malformed += 1
    yield team.finish()


class _TeamReader:
    """Writes a team's history: the orchestrator is the assistant, every other agent a tool it calls.

    The orchestrator's thoughts are put before its next instruction.
    """

    def __init__(self, script: ChatSessionWriter) -> None:
        self.script = script
        self._thought: list[str] = []

    def add_entry(self, text: str, speaker: str) -> None:
        """Add one entry."""
        script, sent = self.script, _TO.match(speaker)
        if sent:
            script.assistant(
                self._take_thoughts(), calls=[(script.make_call_id(), sent.group(1), {"instruction": text})]
            )
        elif speaker == "human" or not script.session.messages:
            script.user(text)
        elif speaker.startswith("Orchestrator"):
            self._thought.append(text)
        elif waiting := script.oldest_open_call(speaker):
            script.result(waiting, text)
        elif code := _CODE.search(text):
            script.assistant(text, calls=[(script.make_call_id(), "Computer_terminal", {"command": code.group(2)})])
        elif speaker == "Computer_terminal":
            script.user(text)
        else:
            script.assistant(text)

    def _take_thoughts(self) -> str:
        """Return the collected thoughts as text and clear them."""
        text, self._thought = "\n".join(self._thought), []
        return text

    def finish(self) -> RecordedSession:
        """Add the remaining thoughts and return the session."""
        self.script.assistant(self._take_thoughts())
        return self.script.finish()


READER = Reader(
    name="who-and-when",
    about="Who&When failure attribution (*.json)",
    suffixes=(".json",),
    matches=_matches,
    read=read_who_and_when_file,
)
