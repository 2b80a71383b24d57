"""The present state: open todo items and plans, running jobs, loaded skills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from danshari.analysis.facts import Facts
from danshari.analysis.markers import Markers
from danshari.core.handover import Point
from danshari.core.handover_markdown import Phrases
from danshari.core.text import lazy_pattern, parse_arguments

_NUMBER = lazy_pattern(r"#?(\d+)")
_STEP = lazy_pattern(r"^\s*(?:\d+[.)]|[-*]|#{1,6})\s+\S")
_TEXTS = ("content", "step", "subject", "text", "title", "description", "task")
_MAX_DESCRIPTION = 160
"""Characters of what is said beside a running thing's id."""


def todo_points(facts: Facts, places: Iterable[int], markers: Markers) -> list[Point]:
    """Return the newest state of todo lists and plans, one point per status."""
    lists: dict[str, dict[str, tuple[str, str]]] = {}
    """Tool family → item id → (status, text)."""
    latest: dict[str, int] = {}
    plans: list[Point] = []
    for at in places:
        item = facts.items[at]
        if item.kind != "call" or facts.acts[at].kind != "plan":
            continue
        given = parse_arguments(item.text)
        whole = list(_todo_items(given))
        if isinstance(given.get("plan"), str):
            plans = [Point(text=given["plan"], label="plan", turn=item.turn, source=(item.id,))]
        elif whole or any(value == [] for value in given.values()):
            lists[item.name] = {str(n): row for n, row in enumerate(whole)}
            latest[item.name] = at
        else:
            _update_todo_item(facts, at, given, lists.setdefault("task", {}))
            latest["task"] = at
    found = list(plans)
    for name, rows in lists.items():
        found += _group_by_status(rows, facts, latest[name], markers)
    return found


def _todo_items(value: Any) -> Iterator[tuple[str, str]]:
    """Yield (status, text) of the items in a whole todo list."""
    if isinstance(value, list):
        for inner in value:
            if isinstance(inner, Mapping):
                text = next((inner[k] for k in _TEXTS if isinstance(inner.get(k), str)), None)
                if text and "status" in inner:
                    yield str(inner["status"]), text
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _todo_items(inner)


def _update_todo_item(facts: Facts, at: int, given: Mapping[str, Any], rows: dict[str, tuple[str, str]]) -> None:
    """Update a todo list from a tool that creates or changes one item per call."""
    ident = next((str(given[k]) for k in ("taskId", "task_id", "id") if given.get(k) is not None), "")
    text = next((given[k] for k in _TEXTS if isinstance(given.get(k), str)), "")
    if not ident and text:
        result = facts.result_of.get(at)
        named = _NUMBER.search(facts.items[result].text) if result is not None else None
        ident = named.group(1) if named else str(len(rows) + 1)
    if not ident:
        return
    status, known = rows.get(ident, ("pending", ""))
    rows[ident] = (str(given.get("status", status)), known or text)


def _group_by_status(rows: Mapping[str, tuple[str, str]], facts: Facts, at: int, markers: Markers) -> Iterator[Point]:
    """Yield one point per status, with the texts of its items; finished items come last."""
    groups: dict[str, list[str]] = {}
    for status, text in rows.values():
        if text:
            groups.setdefault(status, []).append(text)
    order = sorted(groups, key=lambda s: (s in markers.done, s != "in_progress"))
    for status in order:
        item = facts.items[at]
        yield Point(
            text="\n".join(groups[status]),
            label=status,
            turn=item.turn,
            source=(item.id,),
            key=f"todo:{item.name}:{status}",
        )


def running_handles(facts: Facts, places: Iterable[int], markers: Markers, phrases: Phrases) -> list[Point]:
    """Return what was started and not seen to end: background jobs, agents, processes, open calls."""
    alive: dict[str, Point] = {}
    for at in places:
        item = facts.items[at]
        if item.kind not in ("result", "text") or item.role == "assistant":
            continue
        probe = item.text[:4000]
        for name in [n for n in alive if _mentions(probe, n)]:
            if markers.ended.search(probe) and not markers.running.search(probe):
                del alive[name]
        started = markers.running.search(probe) if item.kind == "result" else None
        if started is None:
            continue
        near = probe[max(started.start() - 200, 0) : started.end() + 200]
        for name in dict.fromkeys(markers.handle.findall(near)):
            alive[name] = Point(
                text=f"{name} · {phrases.texts['running']} · {_describe_start(facts, at)}",
                turn=item.turn, source=(item.id,), key=name,
            )  # fmt: skip
    inside = set(places)
    for call in facts.pending:
        if call not in inside:
            continue
        item = facts.items[call]
        alive[item.call] = Point(
            text=f"{item.name} · {phrases.texts['running']} · {' '.join(item.text.split())[:_MAX_DESCRIPTION]}",
            turn=item.turn, source=(item.id,), key=item.call,
        )  # fmt: skip
    return list(alive.values())


def _mentions(text: str, name: str) -> bool:
    """Return whether a name occurs in a text as a whole word."""
    return name in text and bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def _describe_start(facts: Facts, at: int) -> str:
    """Return a short description of what the call behind the result at `at` started."""
    call = facts.call_of.get(at)
    said = facts.items[call].text if call is not None else facts.items[at].text
    given = parse_arguments(said)
    words = next((str(given[k]) for k in ("description", "command", "cmd", "prompt") if given.get(k)), said)
    return " ".join(words.split())[:_MAX_DESCRIPTION]


def skill_rules(facts: Facts, places: Iterable[int], markers: Markers) -> list[Point]:
    """Quote the steps and rules of the skills that were loaded; of each skill the newest load."""
    found: dict[str, Point] = {}
    for at in places:
        act, item = facts.act_at(at), facts.items[at]
        if item.kind != "result" or act is None or act.kind != "skill":
            continue
        given = parse_arguments(facts.items[facts.call_of[at]].text)
        name = next((str(v) for v in given.values() if isinstance(v, str)), item.name)
        lines = [x for x in item.text.split("\n") if _STEP.match(x) or markers.imperative.search(x)]
        if lines:
            found[name] = Point(text="\n".join(lines), label=name, turn=item.turn, source=(item.id,), key=name)
    return list(found.values())
