"""aider's chat history: one Markdown file for all sessions of a repository; applied edits are the calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from danshari.sessions.base import Reader, Recorded
from danshari.sessions.script import Script

_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_MODEL = re.compile(r"(?:Main model|Models?): (\S+)")
_TOKENS = re.compile(r"Tokens: ([\d.,]+k?) sent")
_APPLIED = re.compile(r"Applied edit to (\S+)")
_FENCE = re.compile(r"^(?:```|<<<<<<< SEARCH|>>>>>>> REPLACE)")


def _matches(records: list[Any]) -> bool:
    return bool(records)


def read(path: Path) -> Iterator[Recorded]:
    """Yield one session per start mark that said anything."""
    number, start = 0, ""
    parts: list[str] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        mark = _START.match(line)
        if mark:
            number += 1
            if (session := _session(path, number, start, parts)) is not None:
                yield session
            parts, start = [], mark.group(1)
        else:
            parts.append(line)
    if (session := _session(path, number + 1, start, parts)) is not None:
        yield session


def _session(path: Path, number: int, start: str, text: list[str]) -> Recorded | None:
    session = Recorded(id=f"{path.stem.strip('.')}#{number}", source="aider", format="openai-chat")
    session.repository = path.resolve().parent.name
    session.task = session.id
    script = Script(session)
    when = datetime.fromisoformat(start).timestamp() if start else None
    for kind, block in _blocks(text):
        if kind == "user":
            script.user(block, when)
        elif kind == "assistant":
            script.assistant(block)
        else:
            _output(script, block)
    done = script.done()
    return done if any(m["role"] == "assistant" for m in done.messages) else None


def _blocks(text: list[str]) -> Iterator[tuple[str, str]]:
    """Split into what the user, the assistant and aider itself said; inside a fence everything is the assistant's."""
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


def _output(script: Script, block: str) -> None:
    """Take model and applied edits out of aider's own lines; the rest the model never saw."""
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
            (script.fresh_id(), "edit", {"path": path, "edit": reply if n == 0 else ""})
            for n, path in enumerate(edited)
        ]
        session.messages[-1]["content"] = None
        script.join(made)
        for call_id, _, arguments in made:
            script.result(call_id, f"Applied edit to {arguments['path']}")


READER = Reader(
    name="aider", about="aider chat history (.aider.chat.history.md)", suffixes=(".md",), matches=_matches, read=read
)
