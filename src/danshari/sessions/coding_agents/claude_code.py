"""Reader of Claude Code's JSONL sessions.

Parts of a turn are merged by message id, sidechains are skipped, and a compaction begins a new context.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, RecordedSession, parse_timestamp, read_json_lines


def _matches(records: list[Any]) -> bool:
    return any(
        isinstance(r, dict) and ("parentUuid" in r or "isSidechain" in r or r.get("type") == "file-history-snapshot")
        for r in records
    )


def read_claude_code_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per context; a compaction boundary ends one and begins the next."""
    current = _ContextBuilder(path, 1)
    number = 1
    for record in read_json_lines(path):
        if record is None:
            current.session.malformed += 1
        elif record.get("type") == "system" and record.get("subtype") == "compact_boundary":
            if current.session.messages:
                current.session.compacted = True
                yield current.finish()
                number += 1
            current = _ContextBuilder(path, number)
        elif record.get("type") in ("user", "assistant") and not record.get("isSidechain"):
            current.add_record(record)
    if current.session.messages or current.session.malformed:
        yield current.finish()


class _ContextBuilder:
    """Builds one context from the lines of a file."""

    def __init__(self, path: Path, number: int) -> None:
        name = path.stem if number == 1 else f"{path.stem}#{number}"
        self.session = RecordedSession(id=name, source="claude-code", format="anthropic")
        self._turns: dict[str, int] = {}
        self._asked: dict[str, int] = {}
        self._seen: set[str] = set()

    def add_record(self, record: dict[str, Any]) -> None:
        """Add one line of the file."""
        message = record.get("message")
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            self.session.malformed += 1
            return
        uuid = str(record.get("uuid", ""))
        if uuid and uuid in self._seen:
            return
        self._seen.add(uuid)
        self.session.cwd = self.session.cwd or str(record.get("cwd", ""))
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
        blocks = [
            b for b in blocks if not (isinstance(b, dict) and b.get("type") == "text" and not b.get("text", "").strip())
        ]
        if message["role"] == "assistant":
            self._add_assistant(message, blocks, record)
        else:
            self._add_user(blocks, record)

    def _add_assistant(self, message: dict[str, Any], blocks: list[Any], record: dict[str, Any]) -> None:
        """Add assistant blocks. Records with the same message id belong to one message."""
        if message.get("model") == "<synthetic>":
            return
        self.session.model = str(message.get("model") or self.session.model)
        turn = self._turns.get(str(message.get("id")))
        if turn is None:
            turn = self._append_message("assistant", record)
            self._turns[str(message.get("id"))] = turn
        self.session.messages[turn]["content"] += blocks
        if isinstance(message.get("usage"), dict):
            self.session.usages.setdefault(turn, message["usage"])
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "tool_use":
                self._asked[str(block.get("id"))] = turn

    def _add_user(self, blocks: list[Any], record: dict[str, Any]) -> None:
        """Add user blocks.

        A tool result goes into the user message right after its call, and one without a call is skipped with a
        note.
        """
        for block in blocks:
            turn = None
            if isinstance(block, dict) and block.get("type") == "tool_result":
                turn = self._asked.get(str(block.get("tool_use_id")))
                if turn is None:
                    self.session.notes.append(f"result {block.get('tool_use_id')} without a call was left out")
                    continue
            messages = self.session.messages
            if turn is not None and turn + 1 < len(messages):
                target = messages[turn + 1]["content"]
                place = sum(isinstance(b, dict) and b.get("type") == "tool_result" for b in target)
                target.insert(place, block)
            else:
                if not messages or messages[-1]["role"] != "user":
                    self._append_message("user", record)
                self.session.messages[-1]["content"].append(block)

    def _append_message(self, role: str, record: dict[str, Any]) -> int:
        at = len(self.session.messages)
        self.session.messages.append({"role": role, "content": []})
        if (time := parse_timestamp(record.get("timestamp"))) is not None:
            self.session.times[at] = time
        return at

    def finish(self) -> RecordedSession:
        """Return the session: interrupted calls answered, messages without sendable content removed."""
        session = self.session
        for at, message in enumerate(session.messages[:-1]):
            if message["role"] == "assistant":
                self._answer_interrupted(message["content"], session.messages[at + 1]["content"])
        kept = [at for at, message in enumerate(session.messages) if _is_sendable(message)]
        if len(kept) < len(session.messages):
            session.notes.append(f"{len(session.messages) - len(kept)} empty messages were left out")
            place = {old: new for new, old in enumerate(kept)}
            session.messages = [session.messages[at] for at in kept]
            session.times = {place[at]: time for at, time in session.times.items() if at in place}
            session.usages = {place[at]: usage for at, usage in session.usages.items() if at in place}
        return session

    def _answer_interrupted(self, asked: list[Any], following: list[Any]) -> None:
        """Answer calls that have no result in the message after them."""
        got = {b.get("tool_use_id") for b in following if isinstance(b, dict)}
        calls = [b["id"] for b in asked if isinstance(b, dict) and b.get("type") == "tool_use"]
        for call in (c for c in calls if c not in got):
            following.insert(0, {"type": "tool_result", "tool_use_id": call, "content": "(interrupted)"})
            self.session.notes.append(f"call {call} was never answered")


def _is_sendable(message: dict[str, Any]) -> bool:
    """Return whether a provider would accept the message: not empty, and not thinking alone."""
    kinds = {b.get("type") for b in message["content"] if isinstance(b, dict)}
    return bool(kinds - {"thinking", "redacted_thinking"}) or (bool(kinds) and message["role"] == "user")


READER = Reader(
    name="claude-code",
    about="Claude Code session (~/.claude/projects/*/*.jsonl)",
    suffixes=(".jsonl",),
    matches=_matches,
    read=read_claude_code_file,
)
