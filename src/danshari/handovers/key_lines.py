"""Key lines: verbatim lines with the most names per character that an agent is likely to need again.

A name's weight is 1, plus `NAME_WEIGHTS` for what is known of it (used in a call, written by the
agent, said by the user), divided by (1 + rounds since it was last seen) ** `FADE_POWER`. A line's
gain is the sum of the weights of its names that nothing shown contains yet. Its rate is gain x
shape / (characters + `LINE_OVERHEAD`), where shape is lower for lines that break off and for lines
of little but names. Lines are taken by rate until the room is full; lines of little but names must
wait while names make up more than `MAX_NAME_SHARE` of the text's letters.

Weights and factors were fitted on recorded sessions other than those they are measured on
(docs/decisions/0016).
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field

from danshari.analysis.facts import Facts
from danshari.analysis.identifiers import find_names
from danshari.analysis.lines import readable_ends
from danshari.analysis.markers import split_sentences
from danshari.core.handover import Point
from danshari.core.items import Item
from danshari.core.placeholder import recall_id
from danshari.core.text import ShownText, lazy_pattern

NAME_WEIGHTS = {"used": 10.0, "written": 5.0, "user": 3.0, "focus": 10.0}
"""Added to a name's 1 once: it stood in a call's path, command, pattern or old text; in text the agent wrote; in the
user's words; in what the caller says matters next."""
FADE_POWER = 0.6
"""A name's weight is divided by (1 + rounds since last seen) to this power."""
LINE_OVERHEAD = 10
"""Characters added to a line's cost, so that few telling lines beat many short ones."""
BROKEN_LINE_FACTOR = 0.6
"""Factor for a line that breaks off in an opening bracket, a comma or an operator."""
DENSE_LINE_PENALTY = 0.4
"""How much of its rate a line of nothing but names loses."""
MAX_NAME_SHARE = 0.5
"""Share of the text's letters inside names, from which only plainer lines are taken."""
INITIAL_LETTERS = 200
"""Letters of plain text taken as given, so that the first lines are free."""
SHORTEST_KEY_LINE, LONGEST_KEY_LINE = 8, 300
"""Characters of a line that can be kept; a shorter call argument is shown with its key."""
_MAX_READ = 20_000
"""Characters of a line too long to keep that are read for names."""
_MOST_CLAIMS = 200
"""Outdated claims that are looked for anywhere in a line."""
_LABEL_CHARACTERS = 18
"""Characters of a group's label line beside the path: turn and recall id."""
_NO_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_NUMBER_PREFIX = lazy_pattern(r"^\s*\d+(?:→|\t|\| ?|:(?!\d)|-(?!\d)\s?)")


@dataclass(slots=True)
class _NameUse:
    """What is known of one name: the turn it was last seen in, and who used it."""

    turn: int = 0
    """Turn it was last seen in."""
    roles: set[str] = field(default_factory=set)

    def weight(self, now: int) -> float:
        """Return the name's weight at turn `now`, a relative figure for how likely it is needed again."""
        total = 1 + sum(NAME_WEIGHTS.get(role, 0.0) for role in self.roles)
        return float(total / (1 + max(now - self.turn, 0)) ** FADE_POWER)


@dataclass(slots=True)
class _CandidateLine:
    """One distinct line with its names, its size in letters, and where it was last seen."""

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
    def name_share(self) -> float:
        """Share of the line's letters that are inside names, 0 to 1."""
        return self.inside / max(self.letters, 1)


def choose_key_lines(
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

    Names in `known` count as shown. `stale` marks a file that was changed after the lines were seen.
    `users` are texts whose names weigh more, but whose lines stand elsewhere in the document. A line of
    the assistant that contains one of `gone` is left out.
    """
    lines, seen = _collect_lines(facts, places)
    for text, role in [(focus, "focus"), *((text, "user") for text in users)]:
        for name in find_names(text, quoted=True):
            if name in seen:
                seen[name].roles.add(role)
    now = facts.items[places[-1]].turn if places else 0
    fill = _LineChooser({name: found.weight(now) for name, found in seen.items()}, room)
    for text in known.split("\n"):
        fill.mark_shown(_make_line(text.strip()))
    labels: dict[int, str] = {}
    shown = ShownText(known)
    for line in lines.values():
        if not line.names:
            continue
        if gone and facts.items[line.at].role == "assistant" and _states_any(line.text, gone):
            continue
        if line.at not in labels:
            labels[line.at] = _group_label(facts, line.at, shown, stale)
        line.group = labels[line.at]
        fill.add_candidate(line)
    fill.choose()
    return _group_points(facts, fill.kept)


def _states_any(line: str, claims: Collection[str]) -> bool:
    """Return whether a line states one of the claims; of very many, only as a sentence of its own."""
    if len(claims) <= _MOST_CLAIMS:
        return any(text in line for text in claims)
    return any(sentence in claims for sentence in split_sentences(line))


def _group_points(facts: Facts, kept: Sequence[_CandidateLine]) -> list[Point]:
    """Turn lines into points: lines without a file first, then each file's lines under its name and recall id."""
    groups: dict[str, list[_CandidateLine]] = {}
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


def _group_label(facts: Facts, at: int, known: Container[str], stale: str) -> str:
    """Return the file that the item at `at` shows or changes, or an empty string; a known path is shortened."""
    act = facts.act_at(at)
    if not act or not act.path or act.kind not in ("read", "edit", "write"):
        return ""
    path = act.path.rsplit("/", 1)[-1] if act.path in known else act.path
    return f"{path} {stale}" if stale and facts.is_stale(at) else path


def _make_line(text: str, named: str | None = None) -> _CandidateLine:
    if len(text) > LONGEST_KEY_LINE:  # never kept whole: only its names count
        return _CandidateLine(text, find_names(text[:_MAX_READ], quoted=True), _count_letters(text[:_MAX_READ]), 0)
    found = find_names(text if named is None else named, quoted=True)
    outer = found if len(found) < 2 else [n for n in found if not any(n in m and n != m for m in found)]
    inside = sum(_count_letters(n) * text.count(n) for n in outer)
    return _CandidateLine(text, found, _count_letters(text), inside)


def _count_letters(text: str) -> int:
    """Return how many letters and digits a text has."""
    if text.isascii():
        return len(text.encode().translate(None, _NO_LETTERS))
    return sum(map(str.isalnum, text))


def _collect_lines(facts: Facts, places: Sequence[int]) -> tuple[dict[str, _CandidateLine], dict[str, _NameUse]]:
    """Collect the distinct lines that contain names, and what is known of each name."""
    lines: dict[str, _CandidateLine] = {}
    seen: dict[str, _NameUse] = {}
    known: dict[str, str] = {}  # one string for all that are equal
    for at in places:
        item = facts.items[at]
        if item.role == "system" or not item.text:
            continue
        for order, (text, named, role) in enumerate(dict.fromkeys(_item_lines(facts, item))):
            line = lines.get(text)
            if line is None:
                line = lines[text] = _make_line(text, named)
                line.names = tuple(map(known.setdefault, line.names, line.names))
            line.at, line.order = at, order
            for name in line.names:
                found = seen.get(name)
                if found is None:
                    found = seen[name] = _NameUse()
                found.turn = item.turn
                if role:
                    found.roles.add(role)
    return lines, seen


def _item_lines(facts: Facts, item: Item) -> Iterator[tuple[str, str | None, str]]:
    """Yield an item's lines, the part of each that names something (None: all), and the role of its names."""
    if item.kind != "call":
        yield from ((line, None, "") for line in _split_lines(readable_ends(item.text)))
        return
    row = facts.tools.find_row(item.name)
    try:
        given = json.loads(item.text)
    except (ValueError, RecursionError):
        given = None
    for key, value in given.items() if isinstance(given, dict) else [("", item.text)]:
        written = key in row.body or key == "edits" or row.kind in ("plan", "agent", "ask")
        for line, named in _argument_lines(key, value):
            yield line, named, "written" if written else "used"


def _argument_lines(key: str, value: object) -> Iterator[tuple[str, str | None]]:
    """Yield the lines of one call argument.

    A short value is shown as `key: value`, of which only the value names something.
    """
    if isinstance(value, dict):
        for inner_key, inner in value.items():
            yield from _argument_lines(str(inner_key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _argument_lines(key, inner)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value)
        if key and 0 < len(text) < SHORTEST_KEY_LINE:
            yield f"{key}: {text}", text
        else:
            yield from ((line, None) for line in _split_lines(readable_ends(text)))


def _split_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text that are not blank, without indentation and line numbers."""
    for raw in text.split("\n"):
        line = raw.strip()
        if line[:1].isdecimal() or raw[:1] == " ":
            line = _NUMBER_PREFIX.sub("", line, count=1).strip()
        if line:
            yield line


class _LineChooser:
    """Greedy choice of lines by rate, with heaps that are updated lazily.

    Rates only fall while lines are taken, except for lines of a group whose label has just been paid.
    """

    def __init__(self, weight: dict[str, float], room: int) -> None:
        self.kept: list[_CandidateLine] = []
        self._weight, self._room = weight, room
        self._held: set[str] = set()
        self._letters, self._inside = INITIAL_LETTERS, 0
        self._opened: set[str] = set()
        self._members: dict[str, list[_CandidateLine]] = {}
        self._heaps: dict[bool, list[tuple[float, int, str, _CandidateLine]]] = {False: [], True: []}
        self._done: set[str] = set()

    def mark_shown(self, line: _CandidateLine) -> None:
        """Count a line's names and letters as shown."""
        self._held.update(line.names)
        self._letters += line.letters
        self._inside += line.inside

    def add_candidate(self, line: _CandidateLine) -> None:
        """Add a line to the candidates, at its present rate."""
        if SHORTEST_KEY_LINE <= len(line.text) <= LONGEST_KEY_LINE:
            if line.group not in self._opened:
                self._members.setdefault(line.group, []).append(line)
            heapq.heappush(
                self._heaps[line.name_share > MAX_NAME_SHARE], (-self._rate(line), -line.at, line.text, line)
            )

    def choose(self) -> None:
        """Take lines until nothing fits."""
        while self._room > SHORTEST_KEY_LINE and (heap := self._best_heap()):
            line = heapq.heappop(heap)[-1]
            rate = self._rate(line)
            if line.text in self._done or not rate or self._cost(line) > self._room:
                continue
            if heap and -rate > heap[0][0]:
                heapq.heappush(heap, (-rate, -line.at, line.text, line))
            else:
                self._keep(line)

    def _best_heap(self) -> list[tuple[float, int, str, _CandidateLine]]:
        plain, dense = self._heaps[False], self._heaps[True]
        if dense and self._inside <= MAX_NAME_SHARE * self._letters and (not plain or dense[0] < plain[0]):
            return dense
        return plain

    def _keep(self, line: _CandidateLine) -> None:
        self._room -= self._cost(line)
        self._done.add(line.text)
        self.kept.append(line)
        self.mark_shown(line)
        if line.group not in self._opened:
            self._opened.add(line.group)
            self.mark_shown(_make_line(line.group))
            for other in self._members.pop(line.group, ()):
                self.add_candidate(other)

    def _cost(self, line: _CandidateLine) -> int:
        label = 0 if line.group in self._opened else len(line.group) + _LABEL_CHARACTERS
        return len(line.text) + 1 + label

    def _rate(self, line: _CandidateLine) -> float:
        gain = sum(self._weight[name] for name in line.names if name not in self._held)
        shape = (BROKEN_LINE_FACTOR if line.text[-1] in "([{,&|+=" else 1.0) * (
            1 - DENSE_LINE_PENALTY * line.name_share
        )
        return gain * shape / (self._cost(line) + LINE_OVERHEAD)
