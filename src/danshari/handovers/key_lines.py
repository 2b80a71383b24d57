"""Key lines: the verbatim lines that hold most of the names an agent is likely to need again, per character.

A name weighs by what is known of it: 1, more if the agent used or wrote it in a call or the user wrote it, less the
longer it was not seen. A line's gain is the weight of those of its names that nothing kept holds yet; lines are taken
by gain per character until the room is full, and lines of little but names wait while the text would be soup.
Weights and factors were fitted on recorded sessions other than the compactions they are judged on
(docs/decisions/0016).
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from danshari.analysis.facts import Facts
from danshari.analysis.identifiers import names
from danshari.core.handover import Point
from danshari.core.items import Item
from danshari.core.placeholder import recall_id

WEIGHTS = {"used": 10.0, "written": 5.0, "user": 3.0, "focus": 10.0}
"""Added to a name's 1 once: it stood in a call's path, command, pattern or old text; in text the agent wrote; in the
user's words; in what the caller says matters next."""
FADE = 0.6
"""A name's weight is divided by (1 + rounds since last seen) to this power."""
OVERHEAD = 10
"""Characters added to a line's cost, so that few telling lines beat many short ones."""
BROKEN = 0.6
"""Factor for a line that breaks off in an opening bracket, a comma or an operator."""
PLAIN = 0.4
"""How much of its rate a line of nothing but names loses."""
SOUP = 0.5
"""Share of the text's letters inside names, from which only plainer lines are taken."""
HEAD_START = 200
"""Letters of plain text taken as given, so that the first lines are free."""
SHORT, LONG = 8, 300
"""Characters of a line that can be kept; a shorter call argument is shown with its key."""
_READ = 20_000
"""Characters of a line too long to keep that are read for names."""
_LABEL = 18
"""Characters of a group's label line beside the path: turn and recall id."""
_NUMBERED = re.compile(r"^\s*\d+(?:→|\t|\| ?|:(?!\d)|-(?!\d)\s?)")


@dataclass(slots=True)
class _Name:
    turn: int = 0
    """Turn it was last seen in."""
    roles: set[str] = field(default_factory=set)

    def weight(self, now: int) -> float:
        """Say how likely the name is needed again, on a scale of its own."""
        total = 1 + sum(WEIGHTS.get(role, 0.0) for role in self.roles)
        return float(total / (1 + max(now - self.turn, 0)) ** FADE)


@dataclass(slots=True)
class _Line:
    text: str
    names: tuple[str, ...]
    letters: int
    inside: int
    """Letters inside names."""
    at: int = 0
    """Where it stood last."""
    order: int = 0
    """Which line of that item it was."""
    group: str = ""

    @property
    def dense(self) -> float:
        return self.inside / max(self.letters, 1)


def key_lines(
    facts: Facts,
    places: Sequence[int],
    room: int,
    known: str,
    *,
    focus: str = "",
    stale: str = "",
    users: Sequence[str] = (),
    gone: Collection[str] = (),
) -> list[Point]:
    """Choose lines of the items at `places` within `room` characters, labels included, grouped by file.

    Names in `known` count as shown already. `stale` is said of a file that was changed after the lines were seen.
    `users` are texts whose names weigh more, but whose lines stand elsewhere in the document. A line that holds one of
    `gone` is left out.
    """
    lines, seen = _read(facts, places)
    for text, role in [(focus, "focus"), *((text, "user") for text in users)]:
        for name in names(text, quoted=True):
            if name in seen:
                seen[name].roles.add(role)
    now = facts.items[places[-1]].turn if places else 0
    fill = _Fill({name: found.weight(now) for name, found in seen.items()}, room)
    for text in known.split("\n"):
        fill.hold(_line(text.strip()))
    for line in lines.values():
        if gone and facts.items[line.at].role == "assistant" and any(text in line.text for text in gone):
            continue
        line.group = _group(facts, line.at, known, stale)
        fill.offer(line)
    fill.run()
    return _points(facts, fill.kept)


def _points(facts: Facts, kept: Sequence[_Line]) -> list[Point]:
    """Lay lines out: those of no file first, then each file's under its name and newest recall id."""
    groups: dict[str, list[_Line]] = {}
    for line in sorted(kept, key=lambda line: (line.at, line.order)):
        groups.setdefault(line.group, []).append(line)
    points = []
    for group in sorted(groups, key=bool):
        lines = groups[group]
        last = facts.items[lines[-1].at]
        label = f"{group} {recall_id(last)}" if group and last.kind == "result" else group
        sources = dict.fromkeys(facts.items[line.at].id for line in lines)
        points.append(Point(text="\n".join(x.text for x in lines), label=label, turn=last.turn, source=tuple(sources)))
    return points


def _group(facts: Facts, at: int, known: str, stale: str) -> str:
    """Name the file that a position shows or changes: by its last part where its path is known; else nothing."""
    act = facts.act_at(at)
    if not act or not act.path or act.kind not in ("read", "edit", "write"):
        return ""
    path = act.path.rsplit("/", 1)[-1] if act.path in known else act.path
    return f"{path} {stale}" if stale and facts.stale(at) else path


def _line(text: str, named: str | None = None) -> _Line:
    if len(text) > LONG:  # never kept whole: only its names count
        return _Line(text, names(text[:_READ], quoted=True), sum(map(str.isalnum, text[:_READ])), 0)
    found = names(text if named is None else named, quoted=True)
    outer = [n for n in found if not any(n != m and n in m for m in found)]
    inside = sum(sum(map(str.isalnum, n)) * text.count(n) for n in outer)
    return _Line(text, found, sum(map(str.isalnum, text)), inside)


def _read(facts: Facts, places: Sequence[int]) -> tuple[dict[str, _Line], dict[str, _Name]]:
    """Collect the distinct lines that name something, and what is known of each name."""
    lines: dict[str, _Line] = {}
    seen: dict[str, _Name] = {}
    for at in places:
        item = facts.items[at]
        if item.role == "system" or not item.text:
            continue
        for order, (text, named, role) in enumerate(dict.fromkeys(_texts(facts, item))):
            line = lines.get(text)
            if line is None:
                line = lines[text] = _line(text, named)
            line.at, line.order = at, order
            for name in line.names:
                found = seen.setdefault(name, _Name())
                found.turn = item.turn
                if role:
                    found.roles.add(role)
    return {text: line for text, line in lines.items() if line.names}, seen


def _texts(facts: Facts, item: Item) -> Iterator[tuple[str, str | None, str]]:
    """Give an item's lines, the part of each that names something (None: all), and who used its names."""
    if item.kind != "call":
        yield from ((line, None, "") for line in _split(item.text))
        return
    row = facts.tools.row(item.name)
    try:
        given = json.loads(item.text)
    except (ValueError, RecursionError):
        given = None
    for key, value in given.items() if isinstance(given, dict) else [("", item.text)]:
        written = key in row.body or key == "edits" or row.kind in ("plan", "agent", "ask")
        for line, named in _leaves(key, value):
            yield line, named, "written" if written else "used"


def _leaves(key: str, value: object) -> Iterator[tuple[str, str | None]]:
    """Give the lines of an argument; a short value as `key: value`, of which only the value names something."""
    if isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from _leaves(str(inner_key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(key, inner)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value)
        if key and 0 < len(text) < SHORT:
            yield f"{key}: {text}", text
        else:
            yield from ((line, None) for line in _split(text))


def _split(text: str) -> Iterator[str]:
    """Give the lines that hold anything, bare of indentation and of line numbers."""
    for raw in text.split("\n"):
        line = raw.strip()
        if line[:1].isdecimal() or raw[:1] == " ":
            line = _NUMBERED.sub("", line, count=1).strip()
        if line:
            yield line


class _Fill:
    """Lazy greedy cover: gains only fall, but for the lines of a group whose label has just been paid."""

    def __init__(self, weight: dict[str, float], room: int) -> None:
        self.kept: list[_Line] = []
        self._weight, self._room = weight, room
        self._held: set[str] = set()
        self._letters, self._inside = HEAD_START, 0
        self._opened: set[str] = set()
        self._members: dict[str, list[_Line]] = {}
        self._heaps: dict[bool, list[tuple[float, int, str, _Line]]] = {False: [], True: []}
        self._done: set[str] = set()

    def hold(self, line: _Line) -> None:
        """Count a line as standing in the text."""
        self._held.update(line.names)
        self._letters += line.letters
        self._inside += line.inside

    def offer(self, line: _Line) -> None:
        """Take a line into the choice, or anew at its present rate."""
        if SHORT <= len(line.text) <= LONG:
            if line.group not in self._opened:
                self._members.setdefault(line.group, []).append(line)
            heapq.heappush(self._heaps[line.dense > SOUP], (-self._rate(line), -line.at, line.text, line))

    def run(self) -> None:
        """Keep lines until nothing fits."""
        while self._room > SHORT and (heap := self._best()):
            line = heapq.heappop(heap)[-1]
            rate = self._rate(line)
            if line.text in self._done or not rate or self._cost(line) > self._room:
                continue
            if heap and -rate > heap[0][0]:
                heapq.heappush(heap, (-rate, -line.at, line.text, line))
            else:
                self._keep(line)

    def _best(self) -> list[tuple[float, int, str, _Line]]:
        plain, dense = self._heaps[False], self._heaps[True]
        if dense and self._inside <= SOUP * self._letters and (not plain or dense[0] < plain[0]):
            return dense
        return plain

    def _keep(self, line: _Line) -> None:
        self._room -= self._cost(line)
        self._done.add(line.text)
        self.kept.append(line)
        self.hold(line)
        if line.group not in self._opened:
            self._opened.add(line.group)
            self.hold(_line(line.group))
            for other in self._members.pop(line.group, ()):
                self.offer(other)

    def _cost(self, line: _Line) -> int:
        label = 0 if line.group in self._opened else len(line.group) + _LABEL
        return len(line.text) + 1 + label

    def _rate(self, line: _Line) -> float:
        gain = sum(self._weight[name] for name in line.names if name not in self._held)
        shape = (BROKEN if line.text[-1] in "([{,&|+=" else 1.0) * (1 - PLAIN * line.dense)
        return gain * shape / (self._cost(line) + OVERHEAD)
