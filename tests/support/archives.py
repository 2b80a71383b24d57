"""Entries for archives, and conversations that are stored in one."""

from __future__ import annotations

from pathlib import Path

from danshari import Compactor, Entry
from danshari.archive.sqlite import SqliteArchive
from danshari.core.items import Digest, hash_strings
from danshari.testing import Call, Turn, conversation

LOG = "\n".join(f"2026-03-01 INFO worker-{n} took {n}ms" for n in range(200))


def entry(text: str, **fields: object) -> Entry:
    return Entry(digest=Digest(hash_strings(text)), text=text, **fields)  # type: ignore[arg-type]


def make_rounds(rounds: int) -> list[object]:
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make {n}"}, result=LOG + f"\n{n}"),))
        for n in range(rounds)
    ]
    return conversation("openai-chat", "go", turns)


def stored_compactor(path: Path, **options: object) -> Compactor:
    return Compactor("repair", model="gpt-5", archive=SqliteArchive(path), session="s", clock=lambda: 0.0, **options)  # type: ignore[arg-type]
