"""Rules for which a chat completions endpoint rejects a request.

Sources: API reference and error messages, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.text import is_json_object, is_valid_text
from danshari.formats.base import Problem, collect_strings

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def check_chat(messages: Sequence[Any]) -> list[Problem]:
    """List the broken rules. An unanswered call is allowed in the very last assistant message only."""
    if not messages:
        return [Problem(rule="not empty", where="messages", text="at least one message is required")]
    problems: list[Problem] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        where = f"messages[{at}]"
        if not isinstance(message, Mapping) or message.get("role") not in _ROLES:
            role = message.get("role") if isinstance(message, Mapping) else message
            problems.append(Problem(rule="role", where=where, text=f"unknown role {role!r}"))
        elif message["role"] == "assistant":
            at = _check_turn(messages, at, problems)
            continue
        elif message["role"] == "tool":
            text = f"result {message.get('tool_call_id')!r} follows no assistant message that made the call"
            problems.append(Problem(rule="pairing", where=where, text=text))
        elif message.get("content") in (None, "", []):
            problems.append(Problem(rule="content", where=where, text=f"empty {message['role']} message"))
        at += 1
    return problems + _check_encoding(messages)


def _check_turn(messages: Sequence[Any], at: int, problems: list[Problem]) -> int:
    """Check an assistant message and the tool messages after it.

    Adds what is broken to `problems` and returns the index of the next message.
    """
    message = messages[at]
    where = f"messages[{at}]"
    calls = [c for c in message.get("tool_calls") or () if isinstance(c, Mapping)]
    if not message.get("content") and not calls and not message.get("refusal") and not message.get("function_call"):
        problems.append(Problem(rule="content", where=where, text="assistant message with neither content nor calls"))
    ids = [c.get("id") for c in calls]
    for call in calls:
        function = call.get("function")
        if isinstance(function, Mapping) and not is_json_object(function.get("arguments") or ""):
            text = f"arguments of {call.get('id')!r} are not a JSON object"
            problems.append(Problem(rule="arguments", where=where, text=text))
    if len(set(map(str, ids))) != len(ids):
        problems.append(Problem(rule="unique ids", where=where, text="two calls share an id"))
    seen: list[Any] = []
    after = at + 1
    while after < len(messages) and isinstance(messages[after], Mapping) and messages[after].get("role") == "tool":
        result = messages[after]
        call_id = result.get("tool_call_id")
        if call_id not in ids or call_id in seen:
            text = f"result {call_id!r} does not belong to the assistant message before it"
            problems.append(Problem(rule="pairing", where=f"messages[{after}]", text=text))
        if result.get("content") in (None, []):
            problems.append(Problem(rule="content", where=f"messages[{after}]", text="result without content"))
        seen.append(call_id)
        after += 1
    missing = [i for i in ids if i not in seen]
    if missing and after < len(messages):
        problems.append(Problem(rule="pairing", where=where, text=f"calls without a result: {missing}"))
    return after


def _check_encoding(messages: Sequence[Any]) -> list[Problem]:
    found = []
    for at, message in enumerate(messages):
        if not all(is_valid_text(text) for text in collect_strings(message)):
            found.append(Problem(rule="encoding", where=f"messages[{at}]", text="a lone surrogate cannot be sent"))
    return found
