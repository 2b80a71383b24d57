"""Literal conversations about a ledger, and what is shown of them."""

from __future__ import annotations

from typing import Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.compaction import Compaction
from danshari.formats import find_format
from danshari.testing import Call, Turn, conversation

LEDGER_BOOK = "\n".join(f"{n}: the ledger keeps entry {n} of the book" for n in range(120))


def ledger_talk(*calls: Call, more: int = 6) -> list[Any]:
    """A session of these calls and `more` small ones."""
    filler = [Call(name="Bash", arguments={"command": f"true {n}"}, result="ok") for n in range(more)]
    return conversation("openai-chat", "Fix ledger_total.", [Turn(calls=(c,)) for c in (*calls, *filler)])


def shown_results(result: Compaction, name: str) -> list[str]:
    """The results of one tool's calls, as they are sent."""
    calls = {c["id"] for m in result.messages for c in m.get("tool_calls", ()) if c["function"]["name"] == name}
    return [m["content"] for m in result.messages if m.get("tool_call_id") in calls]


LEDGER_LINES = "\n".join(f"line {n} of the ledger" for n in range(150))


def bash(command: str, result: str = LEDGER_LINES, *, failed: bool = False, **arguments: Any) -> Call:
    """A shell command and what it printed."""
    return Call(name="Bash", arguments={"command": command, **arguments}, result=result, failed=failed)


POLICY = data.load_policy("balanced")


def facts_of(messages: list[object], format_name: str = "openai-chat") -> Facts:
    """The facts of a conversation, with the scorer's weights."""
    facts = Facts(data.load_tools(), data.load_estimator("o200k"), data.line_weights())
    facts.extend(find_format(format_name).read(messages))
    return facts
