"""The present state: open todo items and plans, what runs, loaded skills."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from danshari.analysis.facts import Facts
from danshari.analysis.markers import Markers
from danshari.analysis.records import (
    PlanEntry,
    entry_id,
    entry_text,
    find_ids,
    fresh_ids,
    is_short_result,
    read_boxes,
    read_checklist,
    read_plain_list,
    read_told_list,
    state_name,
)
from danshari.core.handover import Point
from danshari.core.handover_markdown import Phrases
from danshari.core.text import cut_at_space, lazy_pattern, parse_arguments

_STEP = lazy_pattern(r"^\s*(?:\d+[.)]|[-*]|#{1,6})\s+\S")
_MAX_DESCRIPTION = 160
"""Characters of what is said beside a running thing's id."""
_MAX_DETAILS = 400
"""Characters of the details of an open task beside its title."""
_PROBE = 4_000
"""Characters of a result that are searched for what it started or ended."""
_NEAR = 200
"""Characters around what says that something runs, where its id stands in a long result."""
_MOST_ALIVE = 400
"""Things alive that are followed at once; beyond that the oldest are given up."""
_SINGLE, _BOXES = "\0one by one", "\0boxes"
"""Where entries are kept that were written one per call, and lists of check boxes in other texts."""


@dataclass(slots=True, kw_only=True)
class _Plans:
    """The lists so far: list → entry key → entry, with where each list was written last."""

    facts: Facts
    lists: dict[str, dict[str, PlanEntry]] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)
    text: list[Point] = field(default_factory=list)
    """A plan in prose."""

    def read_call(self, at: int) -> None:
        """Take over what a call wrote."""
        item, act = self.facts.items[at], self.facts.acts[at]
        given = parse_arguments(item.text)
        if act.kind != "plan":
            name = f"{_BOXES}{act.path}" if act.kind in ("edit", "write") else _BOXES
            for value in given.values():
                if isinstance(value, str) and (found := read_boxes(value)) and _is_mostly(found, value, act.kind):
                    self._replace(at, name, found)
            return
        told = read_checklist(given, self.facts.tools.states)
        if told and told.whole:
            self._add_list(at, item.name, list(told.entries))
        elif isinstance(given.get("plan"), str):
            self.text = [Point(text=given["plan"], label="plan", turn=item.turn, source=(item.id,))]
        elif any(isinstance(value, list) for value in given.values()):
            self._replace(at, item.name, read_plain_list(given))
        else:
            self._update(at, given)

    def read_result(self, at: int) -> None:
        """Take over the list that a plan's result shows: states of known entries, and entries it adds."""
        call = self.facts.call_of[at]
        name = self.facts.items[call].name
        shown = read_told_list(self.facts.items[at].text, self.facts.tools.states)
        for entry in shown:
            if not self._change(entry):
                rows = self.lists.setdefault(name, {})
                rows[f"\0{len(rows)}"] = entry
                self.latest[name] = at

    def read_text(self, at: int) -> None:
        """Take over a list of check boxes in what the assistant said."""
        text = self.facts.items[at].text
        if found := read_boxes(text):
            self._replace(at, _BOXES, found)

    def _replace(self, at: int, name: str, entries: list[PlanEntry]) -> None:
        self.lists[name] = {f"\0{n}": entry for n, entry in enumerate(entries)}
        self.latest[name] = at

    def _add_list(self, at: int, name: str, entries: list[PlanEntry]) -> None:
        """Take over a list: it replaces the tool's last one, unless an unknown tool names none of its entries."""
        known = list(self.lists.get(name, {}).values())
        listed = self.facts.tools.find_row(name).kind == "plan"
        if not listed and not {row.text for row in known} & {entry.text for entry in entries}:
            entries = [*known, *entries]
        self._replace(at, name, entries)

    def _update(self, at: int, given: Mapping[str, Any]) -> None:
        """Take over one entry that a call created or changed."""
        states = self.facts.tools.states
        named = next((k for k, v in given.items() if isinstance(v, str) and state_name(v, states)), "")
        rest = {k: v for k, v in given.items() if k != named}
        text, ident = entry_text(rest), entry_id(rest)
        state = str(given[named]) if named else ""
        if self._change(PlanEntry(state, text, ident)):
            return
        if not text:
            return
        ident = self._result_id(at) or ident or str(len(self.lists.get(_SINGLE, {})) + 1)
        details = max((v for v in rest.values() if isinstance(v, str) and v != text), key=len, default="")
        details = cut_at_space(" ".join(details.split()), _MAX_DETAILS) if " " in details.strip() else ""
        whole = f"{text}\n{details}" if details and state_group(state, self.facts) != "done" else text
        self.lists.setdefault(_SINGLE, {})[ident] = PlanEntry(state or "pending", whole, ident)
        self.latest[_SINGLE] = at

    def _result_id(self, at: int) -> str:
        """Return the id that the result of a call gave to what it created."""
        result = self.facts.result_of.get(at)
        if result is None:
            return ""
        found = fresh_ids(self.facts.items[result].text[:_PROBE], self.facts.items[at].text)
        return found[0] if found else ""

    def _change(self, entry: PlanEntry) -> bool:
        """Change the state of an entry that is known by its id or its text; return whether it is known."""
        for rows in self.lists.values():
            for key, row in rows.items():
                if (entry.ident and entry.ident in (row.ident, key)) or (
                    entry.text and entry.text == row.text.split("\n", 1)[0]
                ):
                    rows[key] = row._replace(state=entry.state or row.state)
                    return True
        return False

    def points(self) -> Iterator[Point]:
        """Yield the prose plan, and one point per list and state."""
        yield from self.text
        for name, rows in self.lists.items():
            yield from _group_by_state(rows.values(), self.facts, self.latest[name], name)


def todo_points(facts: Facts, places: Iterable[int]) -> list[Point]:
    """Return the newest state of todo lists and plans, one point per state."""
    plans = _Plans(facts=facts)
    for at in places:
        item = facts.items[at]
        if item.kind == "call":
            plans.read_call(at)
        elif item.kind == "result" and (act := facts.act_at(at)) is not None and act.kind == "plan":
            plans.read_result(at)
        elif item.kind == "text" and item.role == "assistant":
            plans.read_text(at)
    return list(plans.points())


def _is_mostly(found: list[PlanEntry], text: str, kind: str) -> bool:
    """Return whether a text is a list and not a file that holds one somewhere."""
    return kind not in ("edit", "write", "run") or 2 * len(found) > sum(bool(x.strip()) for x in text.split("\n"))


def state_group(state: str, facts: Facts) -> str:
    """Return open, active or done for a state in words; open for words that are not known."""
    return facts.tools.states.get(" ".join(state.lower().replace("_", " ").replace("-", " ").split()), "open")


def _group_by_state(rows: Iterable[PlanEntry], facts: Facts, at: int, name: str) -> Iterator[Point]:
    """Yield one point per state, with the texts of its entries; finished ones come last."""
    groups: dict[str, list[str]] = {}
    for entry in rows:
        if entry.text:
            groups.setdefault(entry.state, []).append(entry.text)
    rank = ("active", "open", "done")
    item = facts.items[at]
    for state in sorted(groups, key=lambda s: rank.index(state_group(s, facts))):
        yield Point(
            text="\n".join(groups[state]), label=state, turn=item.turn, source=(item.id,), key=f"todo:{name}:{state}"
        )


def running_handles(facts: Facts, places: Iterable[int], markers: Markers, phrases: Phrases) -> list[Point]:
    """Return what was started and not seen to end: jobs, agents, processes, approvals, calls without a result."""
    alive: dict[str, Point] = {}
    for at in places:
        item = facts.items[at]
        if item.kind not in ("result", "text") or item.role == "assistant":
            continue
        probe = item.text[:_PROBE]
        call = facts.items[facts.call_of[at]].text if at in facts.call_of else ""
        act = facts.act_at(at)
        says = markers.running_command if act is not None and act.kind == "run" else markers.running
        ended, started = markers.ended.search(probe), says.search(probe)
        if ended and not started:
            for name in [n for n in alive if _mentions(probe, n) or _mentions(call, n)]:
                del alive[name]
        if started is None or item.kind != "result" or _is_entry(facts, at):
            continue
        for name in _started_ids(probe, started, call, markers):
            alive[name] = Point(
                text=f"{name} · {phrases.texts['running']} · {_describe_start(facts, at)}",
                turn=item.turn, source=(item.id,), key=name,
            )  # fmt: skip
        for name in list(alive)[:-_MOST_ALIVE]:
            del alive[name]
    inside = set(places)
    for at in (*facts.unanswered, *facts.pending):
        if at not in inside:
            continue
        item, state = facts.items[at], phrases.texts["running" if at in facts.pending else "unanswered"]
        alive[item.call] = Point(
            text=f"{item.name} · {state} · {cut_at_space(' '.join(item.text.split()), _MAX_DESCRIPTION)}",
            turn=item.turn, source=(item.id,), key=item.call,
        )  # fmt: skip
    return list(alive.values())


def _is_entry(facts: Facts, at: int) -> bool:
    """Return whether a result belongs to a plan or shows something rather than starting it."""
    act = facts.act_at(at)
    return act is not None and act.kind in ("plan", "read", "search", "list", "edit", "write", "skill")


def _started_ids(probe: str, started: re.Match[str], call: str, markers: Markers) -> list[str]:
    """Return the ids of what a result says to run: of a short result those the call did not name itself."""
    near = probe[max(started.start() - _NEAR, 0) : started.end() + _NEAR]
    found = list(dict.fromkeys(markers.handle.findall(near)))
    if not is_short_result(probe):
        return found
    ids = [name for name in find_ids(probe) if name not in call]
    return [n for n in (ids or found) if not any(n != other and n in other for other in ids)]


def _mentions(text: str, name: str) -> bool:
    """Return whether a name occurs in a text as a whole word."""
    return name in text and bool(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text))


def _describe_start(facts: Facts, at: int) -> str:
    """Return a short description of what the call behind the result at `at` started."""
    call = facts.call_of.get(at)
    said = facts.items[call].text if call is not None else facts.items[at].text
    given = parse_arguments(said)
    words = next((str(given[k]) for k in ("description", "command", "cmd", "prompt") if given.get(k)), "")
    return cut_at_space(" ".join((words or entry_text(given) or said).split()), _MAX_DESCRIPTION)


def skill_rules(facts: Facts, places: Iterable[int], markers: Markers) -> list[Point]:
    """Quote the steps and rules of the skills that were loaded; of each skill the newest load."""
    found: dict[str, Point] = {}
    for at in places:
        act, item = facts.act_at(at), facts.items[at]
        if item.kind != "result" or act is None or act.kind != "skill":
            continue
        given = parse_arguments(facts.items[facts.call_of[at]].text)
        name = act.path or next((str(v) for v in given.values() if isinstance(v, str)), item.name)
        lines = [x for x in item.text.split("\n") if _STEP.match(x) or markers.imperative.search(x)]
        if lines:
            found.pop(name, None)
            found[name] = Point(text="\n".join(lines), label=name, turn=item.turn, source=(item.id,), key=name)
    return list(found.values())
