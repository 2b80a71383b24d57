"""Reader of aider's chat history, one Markdown file for all sessions of a repository.

Edits that aider applied become tool calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, RecordedSession
from danshari.sessions.script import ChatSessionWriter

_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_MODEL = re.compile(r"(?:Main model|Models?): (\S+)")
_TOKENS = re.compile(r"Tokens: ([\d.,]+k?) sent")
_APPLIED = re.compile(r"Applied edit to (\S+)")
_FENCE = re.compile(r"^(?:```|<<<<<<< SEARCH|>>>>>>> REPLACE)")


def _matches(records: list[Any]) -> bool:
    return bool(records)


def read_aider_file(path: Path) -> Iterator[RecordedSession]:
    """Yield one session per start mark, if an assistant message follows it."""
    number, start = 0, ""
    parts: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        mark = _START.match(line)
        if mark:
            number += 1
            if (session := _build_session(path, number, start, parts)) is not None:
                yield session
            parts, start = [], mark.group(1)
        else:
            parts.append(line)
    if (session := _build_session(path, number + 1, start, parts)) is not None:
        yield session


def _build_session(path: Path, number: int, start: str, text: list[str]) -> RecordedSession | None:
    """Build the session of one start mark, or return None if the assistant said nothing."""
    session = RecordedSession(id=f"{path.stem.strip('.')}#{number}", source="aider", format="openai-chat")
    session.repository = path.resolve().parent.name
    session.task = session.id
    script = ChatSessionWriter(session)
    when = datetime.fromisoformat(start).timestamp() if start else None
    for kind, block in _split_blocks(text):
        if kind == "user":
            script.user(block, when)
        elif kind == "assistant":
            script.assistant(block)
        else:
            _read_output(script, block)
    done = script.finish()
    return done if any(m["role"] == "assistant" for m in done.messages) else None


def _split_blocks(text: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of user, assistant and aider's output.

    Inside a code fence all is the assistant's.
    """
    kind, fenced = "", False
    lines: list[str] = []
    for line in text:
        mine = "assistant"
        if not fenced:
            mine = "user" if line.startswith("#### ") else "output" if line.startswith(">") else "assistant"
        if mine == "assistant" and _FENCE.match(line.strip()):
            fenced = not fenced if line.strip().startswith("```") else fenced
        if mine != kind:
            if "\n".join(lines).strip():
                yield kind, "\n".join(lines).strip()
            kind, lines = mine, []
        lines.append(line[5:].rstrip() if mine == "user" else line[1:].strip() if mine == "output" else line)
    if "\n".join(lines).strip():
        yield kind, "\n".join(lines).strip()


def _read_output(script: ChatSessionWriter, block: str) -> None:
    """Take the model, token counts and applied edits from aider's own lines, which the model never saw."""
    session = script.session
    if (model := _MODEL.search(block)) and not session.model:
        session.model = model.group(1)
    spoke = session.messages and session.messages[-1]["role"] == "assistant"
    if spoke and (sent := _TOKENS.search(block)):
        number = sent.group(1).replace(",", "")
        tokens = float(number[:-1]) * 1000 if number.endswith("k") else float(number)
        session.usages[len(session.messages) - 1] = {"prompt_tokens": tokens}
    if spoke and (edited := _APPLIED.findall(block)):
        reply = session.messages[-1]["content"] or ""
        made = [
            (script.make_call_id(), "edit", {"path": path, "edit": reply if n == 0 else ""})
            for n, path in enumerate(edited)
        ]
        session.messages[-1]["content"] = None
        script.join_calls(made)
        for call_id, _, arguments in made:
            script.result(call_id, f"Applied edit to {arguments['path']}")


READER = Reader(
    name="aider",
    about="aider chat history (.aider.chat.history.md)",
    suffixes=(".md",),
    matches=_matches,
    read=read_aider_file,
)
