"""Rules for which the Anthropic Messages API rejects a request.

Sources: API reference, error messages and public bug reports, 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from danshari.core.text import is_valid_text, lazy_pattern
from danshari.formats.base import Problem, as_plain_value, collect_strings

_ID = lazy_pattern(r"[a-zA-Z0-9_-]+\Z")
_MAX_CACHE_MARKS = 4
"""Cache breakpoints a request may hold."""


def check_anthropic(messages: Sequence[Any]) -> list[Problem]:
    """List the broken rules. Unanswered calls are allowed in the very last message only."""
    if not messages:
        return [Problem(rule="not empty", where="messages", text="at least one message is required")]
    problems: list[Problem] = []
    plains = merge_neighbours([as_plain_value(m) for m in messages])
    first = next((m for m in plains if isinstance(m, Mapping) and m.get("role") != "system"), None)
    if first is None or first.get("role") != "user":
        problems.append(Problem(rule="first side", where="messages[0]", text="the first message must be the user's"))
    marks = 0
    for at, message in enumerate(plains):
        where = f"messages[{at}]"
        if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant", "system"):
            role = message.get("role") if isinstance(message, Mapping) else message
            problems.append(Problem(rule="role", where=where, text=f"unknown role {role!r}"))
            continue
        blocks = content_blocks(message)
        marks += sum("cache_control" in b for b in blocks)
        problems += _check_content(message, blocks, where)
        if message["role"] == "assistant":
            problems += _check_calls(plains, at, blocks, where)
        elif message["role"] == "user":
            problems += _check_results(plains, at, blocks, where)
        if not all(is_valid_text(text) for text in collect_strings(message)):
            problems.append(Problem(rule="encoding", where=where, text="a lone surrogate cannot be sent"))
    if marks > _MAX_CACHE_MARKS:
        problems.append(Problem(rule="cache marks", where="messages", text=f"{marks} cache_control blocks, at most 4"))
    return problems


def merge_neighbours(messages: Sequence[Any]) -> list[Any]:
    """Merge consecutive messages of one role, as the provider does. Problems count the merged messages."""
    out: list[Any] = []
    last = -1
    for message in messages:
        fits = isinstance(message, Mapping) and message.get("role") in ("user", "assistant")
        if fits and last >= 0 and out[last]["role"] == message["role"] and content_blocks(message):
            out[last] = {"role": message["role"], "content": [*content_blocks(out[last]), *content_blocks(message)]}
            continue
        out.append(message)
        last = len(out) - 1 if fits else -1
    return out


def content_blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the content as blocks; a string is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in map(as_plain_value, content or ()) if isinstance(b, Mapping)]


def _check_content(message: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]], where: str) -> list[Problem]:
    """Check the blocks of one message: empty text, arguments, signatures, thinking alone."""
    if not blocks:
        return [Problem(rule="content", where=where, text="empty content")]
    found = []
    for block in blocks:
        if block.get("type") == "text" and not str(block.get("text", "")).strip():
            found.append(Problem(rule="content", where=where, text="text blocks must not be empty"))
        if block.get("type") == "tool_use" and not isinstance(block.get("input"), Mapping):
            found.append(Problem(rule="arguments", where=where, text="tool_use.input must be an object"))
        if block.get("type") == "thinking" and not block.get("signature"):
            found.append(Problem(rule="thinking", where=where, text="thinking without a signature"))
    kinds = {block.get("type") for block in blocks}
    if message["role"] == "assistant" and kinds <= {"thinking", "redacted_thinking"}:
        found.append(Problem(rule="thinking", where=where, text="a turn cannot consist of thinking alone"))
    return found


def _check_calls(messages: Sequence[Any], at: int, blocks: Sequence[Mapping[str, Any]], where: str) -> list[Problem]:
    """Check an assistant message: unique and valid call ids, and a result for each right after."""
    ids = [b.get("id") for b in blocks if b.get("type") == "tool_use"]
    found = []
    if len(set(map(str, ids))) != len(ids):
        found.append(Problem(rule="unique ids", where=where, text="two calls share an id"))
    for call in ids:
        if not isinstance(call, str) or not _ID.match(call):
            found.append(
                Problem(rule="ids", where=where, text=f"call id {call!r} has other characters than a-zA-Z0-9_-")
            )
    after = at + 1
    while after < len(messages) and isinstance(messages[after], Mapping) and messages[after].get("role") == "system":
        after += 1
    following = messages[after] if after < len(messages) else None
    got = _result_ids(following) if isinstance(following, Mapping) and following.get("role") == "user" else []
    missing = [i for i in ids if i not in got]
    if missing and following is not None:
        found.append(Problem(rule="pairing", where=where, text=f"calls without a result right after: {missing}"))
    return found


def _result_ids(message: Mapping[str, Any]) -> list[Any]:
    return [b.get("tool_use_id") for b in content_blocks(message) if b.get("type") == "tool_result"]


def _check_results(messages: Sequence[Any], at: int, blocks: Sequence[Mapping[str, Any]], where: str) -> list[Problem]:
    """Check a user message: results belong to calls right before, one each, and come first."""
    got = [b.get("tool_use_id") for b in blocks if b.get("type") == "tool_result"]
    if not got:
        return []
    before = at - 1
    while before >= 0 and isinstance(messages[before], Mapping) and messages[before].get("role") == "system":
        before -= 1
    asked: list[Any] = []
    if before >= 0 and isinstance(messages[before], Mapping) and messages[before].get("role") == "assistant":
        asked = [b.get("id") for b in content_blocks(messages[before]) if b.get("type") == "tool_use"]
    found = [
        Problem(rule="pairing", where=where, text=f"result {g!r} has no call right before")
        for g in got
        if g not in asked
    ]
    if len(set(map(str, got))) != len(got):
        found.append(Problem(rule="unique ids", where=where, text="two results for one call"))
    places = [n for n, b in enumerate(blocks) if b.get("type") == "tool_result"]
    if places != list(range(len(places))):
        found.append(Problem(rule="order", where=where, text="tool_result blocks must come first"))
    return found
