"""Insert the COMPINT side constraints (package conpact) into sessions and check they stay verbatim."""

from __future__ import annotations

import copy
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.errors import SessionError
from danshari.formats import convert, find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari.sessions import read, session_files

SESSION_COUNT = 3
"""Sessions every constraint is placed in: the longest ones found."""
VIEW_BUDGET = 0.4
"""Share of the full context that each view must stay below."""


def load_constraints() -> list[str]:
    """Return the kit's 15 sentences without importing the package, which needs model clients."""
    path = importlib.metadata.distribution("conpact").locate_file("conpact/constraints.py")
    spec = importlib.util.spec_from_file_location("conpact_constraints", str(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [module.render_sc(c["sc"], False, True) for c in module.SCS]


def longest_sessions(folder: Path) -> list[list[Any]]:
    """Return the longest recorded sessions as chat messages."""
    found = []
    for path in session_files([folder]):
        try:
            found += [s for s in read(path) if len(s.messages) > 40]
        except SessionError:
            continue
    found.sort(key=lambda s: (-len(json.dumps(s.messages)), s.id))
    return [convert(s.messages, "openai-chat", source=s.format).payload for s in found[:SESSION_COUNT]]


def is_kept_verbatim(messages: list[Any], sentence: str, policy: str) -> bool:
    """Return whether a sentence, added to the second user message (or the first), stays in every later view."""
    placed = copy.deepcopy(messages)
    users = [n for n, m in enumerate(placed) if m["role"] == "user" and isinstance(m.get("content"), str)]
    at = users[1] if len(users) > 1 else users[0]
    placed[at]["content"] += "\n" + sentence
    engine = Compactor(policy, model="gpt-5", format="openai-chat", clock=lambda: 0.0)
    made = find_format("openai-chat")
    ends = [cut for cut in request_boundaries(_MessageList(placed), made) if cut > at]  # type: ignore[arg-type]
    whole = engine.preview(placed).before
    for cut in [*ends[:: max(1, len(ends) // 12)], ends[-1]]:
        result = engine.compact(placed[:cut])
        if result.after > VIEW_BUDGET * whole:
            result = engine.compact(placed[:cut], force=True)
        if not any(sentence in str(m.get("content")) for m in result.messages):
            return False
    return True


class _MessageList:
    """The messages of a session, for `request_boundaries`."""

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages


def main() -> None:
    """Count the constraints that every policy preset keeps and print the result as JSON."""
    folder = Path(sys.argv[1])
    placed, sentences = longest_sessions(folder), load_constraints()
    counts = {p: sum(is_kept_verbatim(m, s, p) for m in placed for s in sentences) for p in data.policy_names()}
    sys.stdout.write(json.dumps({"kit": "compint", "of": len(placed) * len(sentences), "kept": counts}) + "\n")


if __name__ == "__main__":
    main()
