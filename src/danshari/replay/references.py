"""Find what each action of a recorded session referred to; computed once and shared by all contenders.

A reference is an atom in an action's arguments that was seen earlier, outside the pinned head
(system prompt and first user request). Its age is the number of rounds since the atom was last seen
in the full context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.analysis.tools import ToolRow
from danshari.core.text import parse_arguments
from danshari.formats import Format, find_format
from danshari.replay.atoms import AtomExtractor
from danshari.replay.line_index import LineTable, json_texts
from danshari.replay.prompt_cache import DEFAULT_MODEL, request_boundaries
from danshari.sessions import RecordedSession

HOT, WARM = 3, 10
"""Rounds: references up to HOT are hot, up to WARM warm, older ones cold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One atom that an action used: its age in rounds and where it was last seen."""

    atom: str
    age: int
    content: bool
    """Whether it stands in new text written (else in a locator: path, pattern, query, command, old text)."""
    held: int
    """How many of the atom's lines had been seen by then."""
    place: int
    """Position of the newest item that held it."""

    @property
    def band(self) -> str:
        """The age band: hot, warm or cold."""
        return "hot" if self.age <= HOT else "warm" if self.age <= WARM else "cold"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One text that an edit quotes: for each of its lines, the known lines that contain it."""

    lines: tuple[tuple[int, ...], ...]

    @property
    def has_unseen_lines(self) -> bool:
        """Whether some line of the quote was never in the full context."""
        return not all(self.lines)


@dataclass(slots=True, kw_only=True)
class RoundNeeds:
    """One request and what the action after it referred to."""

    number: int
    cut: int
    """Messages the request could carry."""
    items: int
    """Items in those messages."""
    references: tuple[Reference, ...] = ()
    quotes: tuple[Quote, ...] = ()
    words: frozenset[str] = frozenset()
    """Words of the action, for the blind query."""
    acts: bool = False
    """Whether the round made a call at all."""


@dataclass(slots=True, kw_only=True)
class SessionNeeds:
    """A session split into lines, with what every round referred to and where each atom was seen."""

    session: RecordedSession
    format: Format
    facts: Facts
    lines: LineTable
    rounds: list[RoundNeeds] = field(default_factory=list)
    item_lines: list[tuple[int, ...]] = field(default_factory=list)
    held: dict[str, dict[int, int]] = field(default_factory=dict)
    """Atom → its lines, each with its rank by first sight."""
    items_of: dict[int, list[int]] = field(default_factory=dict)
    """Line → positions of the items that hold it."""
    head: frozenset[str] = frozenset()
    source: set[int] = field(default_factory=set)
    """Lines that stand in the session itself; views may hold others."""

    @property
    def reference_atoms(self) -> set[str]:
        """Every atom that some action refers to."""
        return {reference.atom for r in self.rounds for reference in r.references}


def find_needs(
    session: RecordedSession,
    *,
    common: frozenset[str] = frozenset(),
    atoms: AtomExtractor | None = None,
    pinned: bool = True,
) -> SessionNeeds:
    """Find what every round of a session referred to; atoms in `common` do not count.

    `pinned` says whether the head (system prompt, first user request) always stays and is left out of
    all counts.
    """
    found = outline_session(session, atoms)
    worker = _NeedsFinder(found, common, pinned=pinned)
    for r in found.rounds:
        worker.advance(r.items)
        worker.fill_round(r)
    worker.advance(len(found.facts.items))
    return found


def outline_session(session: RecordedSession, atoms: AtomExtractor | None = None) -> SessionNeeds:
    """Split a session into items and requests only; enough to replay it when nothing is measured."""
    wire = find_format(session.format)
    facts = Facts(data.load_tools(), data.load_estimator(data.find_model(session.model or DEFAULT_MODEL).family))
    facts.extend(wire.read(session.messages))
    found = SessionNeeds(session=session, format=wire, facts=facts, lines=LineTable(atoms or AtomExtractor()))
    at = 0
    for number, cut in enumerate(request_boundaries(session, wire), 1):
        while at < len(facts.items) and facts.items[at].at[0] < cut:
            at += 1
        found.rounds.append(RoundNeeds(number=number, cut=cut, items=at))
    return found


class _NeedsFinder:
    """Walks through a session and records, per round, the references and quotes of its action."""

    def __init__(self, found: SessionNeeds, common: frozenset[str], *, pinned: bool) -> None:
        self.found, self.common, self._pins = found, common, pinned
        self.last: dict[str, tuple[int, int]] = {}
        """Atom → (turn last seen, item that held it)."""
        users = found.facts.users
        self._pinned = users[0] if users else -1
        self._head: set[str] = set()
        self._at = 0

    def advance(self, until: int) -> None:
        """Process the items before position `until`."""
        items, found = self.found.facts.items, self.found
        while self._at < until:
            at, item = self._at, items[self._at]
            self._at += 1
            numbers = found.lines.of_kind(item.kind, item.text)
            found.item_lines.append(numbers)
            found.source.update(numbers)
            for number in numbers:
                found.items_of.setdefault(number, []).append(at)
            if self._pins and (item.role == "system" or at == self._pinned):
                for number in numbers:
                    self._head |= found.lines.atoms[number]
                found.head = frozenset(self._head)
                continue
            for number in numbers:
                for atom in found.lines.atoms[number]:
                    self.last[atom] = (item.turn, at)
                    ranks = found.held.setdefault(atom, {})
                    ranks.setdefault(number, len(ranks))

    def fill_round(self, made: RoundNeeds) -> None:
        """Fill in the references, quotes and words of the action after a request."""
        found, items = self.found, self.found.facts.items
        if self._at >= len(items):
            return
        turn = items[self._at].turn
        references: dict[tuple[str, bool], Reference] = {}
        quotes: list[Quote] = []
        words: set[str] = set()
        for at in range(self._at, len(items)):
            item = items[at]
            if item.turn != turn or item.role != "assistant":
                break
            if item.kind != "call":
                continue
            made.acts = True
            row = found.facts.tools.find_row(item.name)
            for text, content in argument_parts(row, item.text, item.name):
                words.update(text.split())
                for line in found.lines.of(text):
                    for atom in found.lines.atoms[line]:
                        self._add_reference(atom, content, turn, references)
            quotes += self._find_quotes(row, item.text)
        made.references = tuple(sorted(references.values(), key=lambda r: (r.atom, r.content)))
        made.quotes, made.words = tuple(quotes), frozenset(words)

    def _add_reference(self, atom: str, content: bool, turn: int, into: dict[tuple[str, bool], Reference]) -> None:
        last = self.last.get(atom)
        if last is None or atom in self._head or atom in self.common:
            return
        if content and (atom, False) in into:
            return  # one need, one count: a locator is the stronger claim
        into.pop((atom, True), None)
        age = turn - last[0]
        held = len(self.found.held[atom])
        into[atom, content] = Reference(atom=atom, age=age, content=content, held=held, place=last[1])

    def _find_quotes(self, row: ToolRow, arguments: str) -> Iterator[Quote]:
        """Yield, for each text that an edit replaces, the known lines that contain its lines."""
        lines = self.found.lines
        for text in old_texts(row, parse_arguments(arguments)):
            wanted: list[tuple[int, ...]] = []
            for raw in text.split("\n"):
                if not (line := raw.strip()):
                    continue
                number = lines.find(line)
                if number is not None and number in self.found.source:
                    wanted.append((number,))
                else:
                    wanted.append(tuple(n for n in lines.find_containing(line) if n in self.found.source))
            if wanted:
                yield Quote(lines=tuple(wanted))


def argument_parts(row: ToolRow, arguments: str, name: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the texts of call arguments, each with whether it is new content or a locator.

    A path beside a command line that starts with the tool's name and does not contain it is skipped:
    the recorder added it (SWE-agent's open file), the agent did not write it.
    """
    given = parse_arguments(arguments)
    if not given:
        yield arguments, False
        return
    line = given.get("command")
    typed = isinstance(line, str) and line.split(maxsplit=1)[:1] == [name]
    for key, value in given.items():
        if typed and key in row.path and str(value) not in str(line):
            continue
        if key == "edits" and isinstance(value, list):
            for edit in value:
                if isinstance(edit, dict):
                    yield from ((text, k not in row.old) for k, v in edit.items() for text in json_texts(v))
            continue
        for text in json_texts(value):
            if key in row.command and "<<" in text and "\n" in text:
                first, rest = text.split("\n", 1)
                yield first, False
                yield rest, True
            else:
                yield text, _is_content(row, key, text)


def _is_content(row: ToolRow, key: str, text: str) -> bool:
    """Return whether an argument is new text: plans, briefs, and long texts that are no path, command or quote."""
    if key in row.body or row.kind in ("plan", "agent", "ask"):
        return True
    return len(text) > 200 and key not in (*row.path, *row.old, *row.command)


def old_texts(row: ToolRow, given: dict[str, Any]) -> list[str]:
    """Return the texts that an edit call says it replaces."""
    if not row.old:
        return []
    several = given.get("edits")
    edits: Sequence[Any] = several if isinstance(several, list) else ()
    found = [given[k] for k in row.old if isinstance(given.get(k), str)]
    found += [e[k] for e in edits if isinstance(e, dict) for k in row.old if isinstance(e.get(k), str)]
    return [text for text in found if text.strip()]
