"""A recorded session as the messages an agent sent, the base of its readers, and helpers to parse files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

_TASK_NAME = re.compile(r"(\w[\w.-]{0,200}?__[A-Za-z][\w.-]{0,200}?)(?:-\d+|_[0-9a-f]{4,})(?![0-9])")
"""How SWE-bench and its kin name a task: owner__repository-number, or with a commit."""


@dataclass(slots=True, kw_only=True)
class RecordedSession:
    """One context of a recorded session: from its first message to its end or to the agent's own compaction."""

    id: str
    source: str
    """Name of the reader."""
    format: str
    """Name of the wire format of `messages`."""
    messages: list[Any] = field(default_factory=list)
    model: str = ""
    cwd: str = ""
    times: dict[int, float] = field(default_factory=dict)
    """Message index → seconds since the epoch, where recorded."""
    usages: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Assistant message index → usage that the provider reported for the request it answers."""
    malformed: int = 0
    """Lines or records that could not be read."""
    compacted: bool = False
    """Whether the agent compacted this context itself at its end."""
    task: str = ""
    """What the session worked on; sessions of one task are no independent evidence. Empty: the id's first part."""
    repository: str = ""
    """Where it worked; empty: unknown."""
    outcome: float | None = None
    """Reward or success as the source labels it, 0 to 1."""
    collection: str = ""
    """The folder of recordings it was found in."""
    notes: list[str] = field(default_factory=list)

    def set_collection(self, collection: str) -> RecordedSession:
        """Set the collection, derive task and repository if they are unknown, and return the session."""
        self.collection = collection
        named = _TASK_NAME.match(self.task or self.id)
        self.task = self.task or (named.group() if named else self.id.split("#", 1)[0])
        if not self.repository:
            self.repository = named.group(1) if named else self.cwd.rstrip("/").rsplit("/", 1)[-1] or collection
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A row of the reader table: how to recognise a file by its first records, and how to read it."""

    name: str
    about: str
    suffixes: tuple[str, ...]
    matches: Callable[[Any], bool]
    """Given the first JSON records of the file (at most 40)."""
    read: Callable[[Path], Iterator[RecordedSession]]


def load_json_file(path: Path) -> Any:
    """Parse a JSON file, with orjson where it is installed."""
    data = path.read_bytes()
    try:
        import orjson
    except ImportError:
        return json.loads(data)
    try:
        return orjson.loads(data)
    except ValueError:
        return json.loads(data)


def read_json_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield the objects of a JSONL file, None for every line that is no JSON object."""
    for value in read_json_values(path):
        yield value if isinstance(value, dict) else None


def read_json_values(path: Path) -> Iterator[Any]:
    """Yield the value of every line of a JSONL file that is not blank, None where it is no JSON."""
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError:
                    yield None


def parse_timestamp(stamp: Any) -> float | None:
    """Return seconds since the epoch from an ISO time stamp or a number in seconds or milliseconds, else None."""
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        return stamp / 1000 if stamp > 1e11 else float(stamp)
    if isinstance(stamp, str):
        try:
            return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None
    return None


def chat_tool_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    """Return a tool call in the chat completions format."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
