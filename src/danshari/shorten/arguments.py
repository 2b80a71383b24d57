"""Write the short form of one old result or of one call's arguments."""

from __future__ import annotations

import json
from typing import Any

from danshari.analysis.facts import Facts
from danshari.analysis.lines import first_words
from danshari.core.items import Item
from danshari.core.placeholder import placeholder
from danshari.core.policy import Policy
from danshari.core.text import parse_arguments


def write_placeholder(facts: Facts, at: int, policy: Policy, *, gist: str = "") -> str:
    """Return the placeholder for the item at `at`."""
    item = facts.items[at]
    if policy.elide.placeholder == "seed":
        return placeholder(item, recall=False)
    return placeholder(item, gist=gist or describe_item(facts, at))


def describe_item(facts: Facts, at: int) -> str:
    """Return one line on an item: path and lines or the command, its length, and whether it failed."""
    item = facts.items[at]
    act = facts.act_at(at)
    if act is None:
        return ""
    parts = []
    if act.path:
        span = f" lines {act.start}-{act.end}" if act.end else (f" from line {act.start}" if act.start > 1 else "")
        parts.append(f"{act.kind} {act.path}{span}")
    elif act.command:
        parts.append(first_words(act.command, 100))
    if item.kind == "result":
        count = item.text.count("\n") + 1
        parts.append(f"{count} lines")
        if not facts.is_success(item):
            parts.append("failed")
    return ", ".join(parts)


def shorten_arguments(facts: Facts, at: int, policy: Policy, *, everything: bool = False) -> str | None:
    """Return a call's arguments with long values replaced, or None if nothing changes.

    Only values that are on disk by now are replaced; with `everything`, all long values.
    """
    item = facts.items[at]
    row = facts.tool_row_at(at)
    data = parse_arguments(item.text)
    if not data:
        return None
    short = {
        key: _shorten_argument(item, value, policy, key in row.body) if everything or key in row.body else value
        for key, value in data.items()
    }
    return None if short == data else json.dumps(short, ensure_ascii=False)


def _shorten_argument(item: Item, value: Any, policy: Policy, on_disk: bool) -> Any:
    """Return a placeholder in place of a long argument value, of the same JSON type."""
    if not isinstance(value, str | list | dict):
        return value
    size = len(value) if isinstance(value, str) else len(json.dumps(value, ensure_ascii=False))
    if size <= policy.elide.max_length:
        return value
    text = placeholder(item, gist=f"{size} characters{', written to disk by this call' if on_disk else ''}")
    if isinstance(value, str):
        return text
    return [json.loads(text)] if isinstance(value, list) else json.loads(text)
