"""Rules for which the OpenAI Responses endpoint rejects a request.

Sources: API reference, error messages and bug reports, 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.text import is_json_object, is_valid_text
from danshari.formats.base import Problem, as_plain_value, collect_strings

_CALL_TYPES = ("function_call", "custom_tool_call")
_OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output")


def check_responses(messages: Sequence[Any]) -> list[Problem]:
    """List the broken rules. Unanswered calls are allowed if only items of the agent follow."""
    if not messages:
        return [Problem(rule="not empty", where="input", text="at least one item is required")]
    problems: list[Problem] = []
    calls: dict[Any, int] = {}
    outputs: set[Any] = set()
    last_other = -1
    for at, message in enumerate(map(as_plain_value, messages)):
        where = f"input[{at}]"
        if not isinstance(message, Mapping):
            problems.append(Problem(rule="item", where=where, text=f"not an object: {type(message).__name__}"))
            continue
        kind = message.get("type") or "message"
        if kind in _CALL_TYPES:
            problems += _check_call(message, calls, where)
            calls.setdefault(message.get("call_id"), at)
        elif isinstance(kind, str) and kind.endswith("_call"):
            calls.setdefault(message.get("call_id") or message.get("id"), at)
            outputs.add(message.get("id"))
        elif kind in _OUTPUT_TYPES or (isinstance(kind, str) and kind.endswith("_call_output")):
            problems += _check_output(message, calls, outputs, where)
            outputs.add(message.get("call_id"))
        elif kind == "reasoning":
            problems += _check_reasoning(messages, at, where)
        elif kind == "message" and message.get("role") not in ("system", "developer", "user", "assistant"):
            problems.append(Problem(rule="role", where=where, text=f"unknown role {message.get('role')!r}"))
        if not (isinstance(kind, str) and (kind == "reasoning" or kind.endswith("_call"))):
            last_other = at
        if not all(is_valid_text(text) for text in collect_strings(message)):
            problems.append(Problem(rule="encoding", where=where, text="a lone surrogate cannot be sent"))
    made = {c for c, at in calls.items() if as_plain_value(messages[at]).get("type") in _CALL_TYPES}
    for call, at in calls.items():
        if call in made and call not in outputs and at < last_other:
            problems.append(Problem(rule="pairing", where=f"input[{at}]", text=f"call {call!r} has no output"))
    return problems


def _check_call(message: Mapping[str, Any], calls: Mapping[Any, int], where: str) -> list[Problem]:
    call = message.get("call_id")
    found = []
    if call in calls:
        found.append(Problem(rule="unique ids", where=where, text=f"a second call {call!r}"))
    if message.get("type") == "function_call" and not is_json_object(message.get("arguments") or ""):
        found.append(Problem(rule="arguments", where=where, text=f"arguments of {call!r} are not a JSON object"))
    return found


def _check_output(message: Mapping[str, Any], calls: Mapping[Any, int], outputs: set[Any], where: str) -> list[Problem]:
    call = message.get("call_id")
    found = []
    if call not in calls:
        found.append(Problem(rule="pairing", where=where, text=f"output {call!r} has no call before it"))
    if call in outputs:
        found.append(Problem(rule="unique ids", where=where, text=f"a second output for {call!r}"))
    if message.get("output") is None:
        found.append(Problem(rule="content", where=where, text="output is missing"))
    return found


def _check_reasoning(messages: Sequence[Any], at: int, where: str) -> list[Problem]:
    after = as_plain_value(messages[at + 1]) if at + 1 < len(messages) else None
    if after is None:
        return [Problem(rule="reasoning", where=where, text="reasoning must be followed by the item it led to")]
    if isinstance(after, Mapping) and (after.get("type") in _OUTPUT_TYPES or after.get("role") == "user"):
        return [Problem(rule="reasoning", where=where, text="reasoning lost the item it led to")]
    return []
