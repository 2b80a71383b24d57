"""What was done: changed files with line ranges, commands with outcomes, failed attempts, tests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from danshari.analysis.facts import Facts
from danshari.analysis.lines import select_telling_lines
from danshari.analysis.markers import Markers, Runner
from danshari.analysis.shell import find_deleted_paths
from danshari.core.handover import Point
from danshari.core.handover_markdown import Phrases
from danshari.core.items import ItemId
from danshari.core.text import lazy_pattern

_NUMBER_PREFIX = lazy_pattern(r"^[^\S\n]*(\d+)(?:→|\t|\| ?)", re.MULTILINE)
_HUNK = lazy_pattern(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_LONGEST = 300
"""Characters of a quoted command or output line."""
_LAST_LINES = 4
"""Last lines of an output that may say in words that it failed."""
_PROBE_LINES = 400
"""Last lines of an output that are searched for what it tells."""


@dataclass(slots=True, kw_only=True)
class WorkLog:
    """Everything that calls did, in order of time."""

    files: dict[str, Point] = field(default_factory=dict)
    attempts: dict[str, Point] = field(default_factory=dict)
    commands: dict[str, Point] = field(default_factory=dict)
    tests: list[Point] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _failing: dict[str, Point] = field(default_factory=dict)
    _holders: dict[str, dict[str, None]] = field(default_factory=dict)
    """Word → the failing commands that hold it."""

    def fail(self, key: str, point: Point) -> None:
        """Record that the test run `key` fails now."""
        self._failing[key] = point
        for word in set(key.split()):
            self._holders.setdefault(word, {})[key] = None

    def forget(self, key: str) -> None:
        """Record that the test run `key` does not fail any more."""
        if self._failing.pop(key, None) is not None:
            for word in set(key.split()):
                del self._holders[word][key]

    def covered_by(self, passed: str) -> list[str]:
        """Return the failing commands that one which passed is as wide as: it has no argument beyond theirs."""
        words = [w for w in passed.split() if not w.startswith("-")]
        some = min((self._holders.get(word, {}) for word in words), key=len, default=self._failing)
        return [key for key in some if set(words) <= set(key.split())]


def collect_work(facts: Facts, places: Iterable[int], markers: Markers, phrases: Phrases) -> WorkLog:
    """Collect the work from the results at `places`, in one pass."""
    made = WorkLog()
    for at in places:
        call = facts.call_of.get(at)
        if call is None or facts.items[at].kind != "result":
            continue
        act = facts.acts[call]
        good = facts.is_success(facts.items[at])
        if act.kind in ("edit", "write"):
            if good:
                _record_change(made, facts, at, call, phrases)
            else:
                _record_failure(made, facts, at, call, solved=phrases.texts["solved"])
        elif act.kind == "run" and act.command:
            _record_run(made, facts, at, call, markers, phrases, good=good)
    made.tests = [*made._failing.values(), *made.tests]
    return made


def _record_change(made: WorkLog, facts: Facts, at: int, call: int, phrases: Phrases) -> None:
    """Record a file that was created or edited: how often, and the lines of the last edit."""
    act, item = facts.acts[call], facts.items[at]
    path = act.path or next((p for p, place in facts.changed.items() if place == at), "").partition(":")[2]
    if not path:
        return
    count = made._counts[path] = made._counts.get(path, 0) + 1
    known = made.files.pop(path, None)
    views = facts.views.get(path)
    created = act.kind == "write" and known is None and not (views and views[0] < call)
    verb = "created" if created or (known is not None and known.key.startswith("created")) else "edited"
    parts = [path, phrases.texts[verb] + (f" ×{count}" if count > 1 else "")]
    if span := edit_line_range(item.text):
        parts.append(f"{phrases.texts['lines']} {span[0]}-{span[1]}")
    made.files[path] = Point(text=" · ".join(parts), turn=item.turn, source=(item.id,), key=f"{verb}:{path}")


def edit_line_range(result: str) -> tuple[int, int] | None:
    """Return the (first, last) lines that an edit's result shows, from diff hunks or line numbers."""
    hunks = [(int(a), int(a) + int(n or 1) - 1) for a, n in _HUNK.findall(result)]
    if hunks:
        return min(a for a, _ in hunks), max(b for _, b in hunks)
    numbers = [int(n) for n in _NUMBER_PREFIX.findall(result)]
    return (numbers[0], numbers[-1]) if len(numbers) > 1 and numbers[0] <= numbers[-1] else None


def _record_run(
    made: WorkLog, facts: Facts, at: int, call: int, markers: Markers, phrases: Phrases, *, good: bool
) -> None:
    """Record a command: files it deleted, its test results, its failure, or its outcome."""
    act, item = facts.acts[call], facts.items[at]
    for path in find_deleted_paths(act.command) if good else ():
        made.files.pop(path, None)
        made.files[path] = Point(
            text=f"{path} · {phrases.texts['deleted']}", turn=item.turn, source=(item.id,), key=f"deleted:{path}"
        )
    key = " ".join(act.command.split())
    runner = markers.find_runner(act.command)
    if runner is not None:
        _record_test_run(made, facts, at, call, runner, phrases, key=key, good=good)
    told = "\n".join(item.text[-2_000:].split("\n")[-_LAST_LINES:])
    if not good or markers.cues["ruled_out"].search(told):
        _record_failure(made, facts, at, call, solved=phrases.texts["solved"])
    elif runner is None:
        made.commands.pop(key, None)
        made.commands[key] = Point(
            text="\n".join([_first_line(act.command), *_outcome_excerpt(facts.clean_text(at), 1)]),
            turn=item.turn,
            source=(item.id,),
        )


def _record_test_run(
    made: WorkLog, facts: Facts, at: int, call: int, runner: Runner, phrases: Phrases, *, key: str, good: bool
) -> None:
    """Record a test run.

    A run that passes clears the failures that it covers; a run that fails replaces the last one that
    passed.
    """
    item = facts.items[at]
    lines = outcome_lines(runner, facts.clean_text(at), good=good)
    verdict = phrases.texts["passed" if good else "failed"]
    point = Point(
        text="\n".join([_first_line(facts.acts[call].command), *lines]),
        label=verdict,
        turn=item.turn,
        source=(item.id,),
    )
    made.forget(key)
    if good:
        for failed in made.covered_by(key):
            made.forget(failed)
        made.tests = [point]
    else:
        made.fail(key, point)
        made.tests = []


def outcome_lines(runner: Runner, text: str, *, good: bool) -> list[str]:
    """Return the telling lines of a test runner's output: if `good` the totals, else also what failed and why.

    A hand-over quotes an outcome, not a log: if `good` at most 2 totals and 1 other telling line, else at
    most 6 failures, 4 messages, 1 total and 3 other telling lines.
    """
    lines = text.split("\n")[-_PROBE_LINES:]
    if good:
        totals = [line for line in lines if line.strip() and runner.status.match(line)]
        return list(dict.fromkeys([*(line.strip() for line in totals[-2:]), *_outcome_excerpt(text, 1)]))
    found: dict[str, None] = {}
    for pattern, most in ((runner.failed, 6), (runner.message, 4)):
        hits = [line.strip() for line in lines if line.strip() and pattern.match(line)]
        found.update(dict.fromkeys(h for h in hits[:most] if len(h) <= _LONGEST))
    totals = [line.strip() for line in lines if line.strip() and runner.status.match(line)]
    found.update(dict.fromkeys(s for s in totals[-1:] if len(s) <= _LONGEST))
    found.update(dict.fromkeys(_outcome_excerpt(text, 3)))
    return list(found)


def _record_failure(made: WorkLog, facts: Facts, at: int, call: int, *, solved: str) -> None:
    """Record a failed attempt: what was tried and the lines that say why."""
    act, item = facts.acts[call], facts.items[at]
    tried = _first_line(act.command) if act.command else act.path
    lines = _outcome_excerpt(item.text, 2)
    key = f"{tried}\0{lines[0] if lines else ''}"
    made.attempts.pop(key, None)
    label = solved if at in facts.overtaken else ""
    source: tuple[ItemId, ...] = (item.id,)
    made.attempts[key] = Point(
        text="\n".join([tried, *lines]) if tried else "\n".join(lines), label=label, turn=item.turn, source=source
    )


def _first_line(command: str) -> str:
    line = next((part.strip() for part in command.split("\n") if part.strip()), "")
    return line if len(line) <= _LONGEST else line[:_LONGEST].rpartition(" ")[0]


def _outcome_excerpt(text: str, most: int) -> list[str]:
    """Return at most `most` lines of an output that tell its outcome."""
    lines = text.split("\n")[-_PROBE_LINES:]
    kept = select_telling_lines(lines, 300, (), head=1, tail=2)
    kept = kept if len(kept) <= most else [*kept[: most - 1], kept[-1]]
    return [lines[n].strip() for n in kept]
