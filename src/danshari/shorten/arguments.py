"""How one old result or one call's arguments are written short; shared by the passes."""

from __future__ import annotations

import json
from typing import Any

from danshari.analysis.facts import Facts
from danshari.analysis.lines import beginning
from danshari.core.items import Item
from danshari.core.placeholder import placeholder
from danshari.core.policy import Policy
from danshari.core.text import parse_arguments


def stand_in(facts: Facts, at: int, policy: Policy, *, gist: str = "") -> str:
    """Write the placeholder for the item at `at`."""
    item = facts.items[at]
    if policy.placeholder == "seed":
        return placeholder(item, recall=False)
    return placeholder(item, gist=gist or describe(facts, at))


def describe(facts: Facts, at: int) -> str:
    """Say in one line what a result was: path and lines, or the command, and whether it failed."""
    item = facts.items[at]
    act = facts.act_at(at)
    if act is None:
        return ""
    parts = []
    if act.path:
        span = f" lines {act.start}-{act.end}" if act.end else (f" from line {act.start}" if act.start > 1 else "")
        parts.append(f"{act.kind} {act.path}{span}")
    elif act.command:
        parts.append(beginning(act.command, 100))
    if item.kind == "result":
        count = item.text.count("\n") + 1
        parts.append(f"{count} lines")
        if not facts.succeeded(item):
            parts.append("failed")
    return ", ".join(parts)


def short_arguments(facts: Facts, at: int, policy: Policy, *, everything: bool = False) -> str | None:
    """Write arguments without the text that is on disk (or, for `everything`, without any long value)."""
    item = facts.items[at]
    row = facts.row_at(at)
    data = parse_arguments(item.text)
    if not data:
        return None
    short = {
        key: _body(item, value, policy, key in row.body) if everything or key in row.body else value
        for key, value in data.items()
    }
    return None if short == data else json.dumps(short, ensure_ascii=False)


def _body(item: Item, value: Any, policy: Policy, on_disk: bool) -> Any:
    if not isinstance(value, str | list | dict):
        return value
    size = len(value) if isinstance(value, str) else len(json.dumps(value, ensure_ascii=False))
    if size <= policy.max_length:
        return value
    text = placeholder(item, gist=f"{size} characters{', written to disk by this call' if on_disk else ''}")
    if isinstance(value, str):
        return text
    return [json.loads(text)] if isinstance(value, list) else json.loads(text)
