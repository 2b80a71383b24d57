"""Compare methods with real recorded compactions at the same length, by what the agent used next.

A record holds the messages `before`, the `summary` that the agent's own compaction wrote, and the
calls `after` it. Every method is a function `(before, max_chars) -> text` and may write as many
characters as that summary. Counted are the atoms that the later calls use, that stood in `before`,
and that nothing has shown again since. The agent had only its own summary, so the recorded future
favours that one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from danshari.core.handover import Handover
from danshari.core.handover_markdown import render_handover
from danshari.errors import SessionError
from danshari.formats import find_format
from danshari.handovers.extract import ExtractionOptions, extract_handover
from danshari.pipeline.major import extraction_tables
from danshari.replay.atoms import AtomExtractor, AtomVariant
from danshari.replay.line_index import LineTable, argument_texts
from danshari.replay.must_keep import build_state_history
from danshari.replay.references import find_needs, outline_session
from danshari.replay.statistics import Bootstrap
from danshari.replay.visibility import VisibleLines
from danshari.sessions import RecordedSession
from danshari.sessions.base import load_json_file

CompactionMethod = Callable[[list[Any], int], str]
"""(messages before, characters allowed) → text that replaces them."""
DOCUMENT_FRAME = 320
"""Characters of a document's frame: opening, headings, ending."""
SHORT_LINE, LONG_LINE = 8, 300
"""Characters of a line worth keeping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRecord:
    """One real compaction: messages before, its summary, calls after."""

    id: str
    before: list[Any]
    summary: str
    after: list[Any]
    trigger: str = ""
    tokens: int = 0


@dataclass(slots=True, kw_only=True)
class MethodScore:
    """One method on one record: [supported, counted] of all arguments and of locators, and bare atoms."""

    record: str
    method: str
    characters: int
    allowed: int
    share: float = 1.0
    """Room, as a share of the recorded summary's."""
    all: list[int] = field(default_factory=lambda: [0, 0])
    locators: list[int] = field(default_factory=lambda: [0, 0])
    every: list[int] = field(default_factory=lambda: [0, 0])
    """The same for every use of an atom that stood in `before`, whatever was shown since: a second reading."""
    bare: int = 0
    words: list[int] = field(default_factory=lambda: [0, 0])
    """Lines of the user's own words that stand verbatim in the text, and all."""
    fault: str = ""


def read_records(paths: Sequence[Path]) -> Iterator[CompactionRecord]:
    """Read compaction records (JSON with before, summary, after), files or folders."""
    files = [f for p in paths for f in (sorted(p.glob("*.json")) if p.is_dir() else [p])]
    for file in files:
        try:
            value = load_json_file(file)
        except ValueError as error:
            raise SessionError(f"{file}: no valid JSON: {error}") from None
        fits = isinstance(value, dict) and all(isinstance(value.get(k), list) for k in ("before", "after"))
        if not fits or not isinstance(value.get("summary"), str):
            raise SessionError(f"{file}: a compaction record needs `before` and `after` (lists) and `summary` (text)")
        yield CompactionRecord(
            id=str(value.get("id", file.stem)),
            before=value["before"],
            summary=value["summary"],
            after=value["after"],
            trigger=str(value.get("trigger", "")),
            tokens=value["pre_tokens"] if isinstance(value.get("pre_tokens"), int) else 0,
        )


def last_characters(before: list[Any], max_chars: int) -> str:
    """Keep the end of the conversation, as text."""
    return "\n".join(message_texts(before))[-max_chars:] if max_chars else ""


def newest_lines(before: list[Any], max_chars: int) -> str:
    """Keep the newest distinct lines that add an atom, in order."""
    return "\n".join(_pick_newest_lines(before, max_chars))


def newest_atoms(before: list[Any], max_chars: int) -> str:
    """Return the newest atoms and nothing else.

    This control must score badly: bare identifiers do not count as support.
    """
    atoms = AtomExtractor()
    found: dict[str, None] = {}
    left = max_chars
    for text in reversed(message_texts(before)):
        for line in reversed(text.split("\n")):
            for atom in sorted(atoms(line)):
                if atom not in found and len(atom) < left:
                    found[atom] = None
                    left -= len(atom) + 1
    return " ".join(found)


def newest_atom_lines(before: list[Any], max_chars: int) -> str:
    """Return the newest atoms, one per line: the same control in another layout."""
    return newest_atoms(before, max_chars).replace(" ", "\n")


def build_document(before: list[Any], max_chars: int, *, wire: str = "anthropic") -> Handover:
    """Build the hand-over document of a whole conversation, at most `max_chars` characters including all parts."""
    facts = outline_session(RecordedSession(id="", source="", format=wire, messages=before)).facts
    return extract_handover(
        facts, range(len(facts.items)), extraction_tables(), ExtractionOptions(size=max_chars, hard=True)
    )


def compact_text(before: list[Any], max_chars: int) -> str:
    """Return the hand-over text written without a model, at most `max_chars` characters in all."""
    document = build_document(before, max_chars if max_chars > DOCUMENT_FRAME else max_chars + DOCUMENT_FRAME)
    text = render_handover(document, extraction_tables().languages[document.language])
    if len(text) <= max_chars:
        return text
    found: list[str] = []  # no room for a frame: the lines alone
    max_chars += 1
    for line in (line for points in document.fields.values() for p in points for line in p.text.split("\n")):
        if len(line) + 1 <= max_chars:
            found.append(line)
            max_chars -= len(line) + 1
    return "\n".join(found)


METHODS: dict[str, CompactionMethod] = {
    "last-characters": last_characters,
    "newest-lines": newest_lines,
    "soup": newest_atoms,
    "soup-lines": newest_atom_lines,
    "danshari": compact_text,
}
"""Methods by name; the recorded summary itself is `own`."""


def message_texts(messages: list[Any]) -> list[str]:
    """Return the texts of messages in order: text, unpacked call arguments and results."""
    wire = find_format("anthropic")
    found = []
    for message in messages:
        for piece in wire.split(message):
            if piece.kind == "call":
                found.append("\n".join(argument_texts(piece.text)))
            elif piece.text:
                found.append(piece.text)
    return found


def _pick_newest_lines(before: list[Any], max_chars: int) -> list[str]:
    """Return the newest distinct lines that add an atom, in order, within `max_chars`."""
    lines = LineTable(AtomExtractor())
    seen: set[str] = set()
    kept: list[str] = []
    left = max_chars
    for text in reversed(message_texts(before)):
        for number in reversed(lines.of(text)):
            line, atoms = lines.keys[number], lines.atoms[number]
            if not SHORT_LINE <= len(line) <= LONG_LINE or not atoms - seen or len(line) + 1 > left:
                continue
            seen |= atoms
            kept.append(line)
            left -= len(line) + 1
        if left < SHORT_LINE:
            break
    return kept[::-1]


class RecordScorer:
    """Scores texts on one record; the references of its later calls are found once."""

    def __init__(self, record: CompactionRecord, *, variant: AtomVariant = "strict") -> None:
        self.record = record
        session = RecordedSession(id=record.id, source="", format="anthropic", messages=[*record.before, *record.after])
        self._needs = find_needs(session, atoms=AtomExtractor(variant), pinned=False)
        items = self._needs.facts.items
        self._last = max((n for n, item in enumerate(items) if item.at[0] < len(record.before)), default=-1)
        self._before = {line for lines in self._needs.item_lines[: self._last + 1] for line in lines}
        self._rules = [line for place, line in build_state_history(self._needs).rules if place <= self._last]

    def score(self, name: str, method: CompactionMethod | None, *, share: float = 1.0) -> MethodScore:
        """Score one method, or the recorded summary if `method` is None.

        A text that is too long is cut; this and any exception are recorded in `fault`.
        """
        record = self.record
        allowed = int(share * len(record.summary))
        made = MethodScore(record=record.id, method=name, characters=0, allowed=allowed, share=share)
        text = record.summary[:allowed] if method is None else self._run_method(method, allowed, made)
        if len(text) > allowed:
            made.fault = made.fault or f"{len(text)} characters, {allowed} allowed; cut"
            text = text[:allowed]
        made.characters = len(text)
        self._count_references(text, made)
        return made

    def _run_method(self, method: CompactionMethod, allowed: int, made: MethodScore) -> str:
        """Run a method on a copy of the messages; an exception is recorded in `fault` and gives an empty text."""
        try:
            text = method(json.loads(json.dumps(self.record.before)), allowed)
            if not isinstance(text, str):
                raise TypeError(f"returned {type(text).__name__} instead of text")
        except Exception as fault:  # noqa: BLE001  (a method's fault is a result)
            made.fault, text = f"{type(fault).__name__}: {fault}"[:300], ""
        return text

    def _count_references(self, text: str, made: MethodScore) -> None:
        """Count which references of the later calls the text supports."""
        needs, sight = self._needs, VisibleLines(self._needs)
        sight.update([{"role": "user", "content": text}])
        used: set[str] = set()
        for r in needs.rounds:
            if r.cut < len(self.record.before):
                continue
            for reference in r.references:
                seen = sight.atom_visibility(reference.atom, reference.held)
                if not needs.held[reference.atom].keys().isdisjoint(self._before):
                    made.every[0] += seen == "supported"
                    made.every[1] += 1
                if reference.place > self._last or reference.atom in used:
                    continue
                used.add(reference.atom)
                for pair in [made.all] if reference.content else [made.all, made.locators]:
                    pair[0] += seen == "supported"
                    pair[1] += 1
                made.bare += seen == "bare"
        made.words = [sum(map(sight.shows, self._rules)), len(self._rules)]


def pool_scores(scores: Sequence[MethodScore]) -> list[dict[str, Any]]:
    """Pool scores by method and length share, with intervals and differences to the recorded summaries."""
    draws = Bootstrap([s.record for s in scores])
    rows = []
    for method, allowed in dict.fromkeys((s.method, s.share) for s in scores):
        mine = [s for s in scores if (s.method, s.share) == (method, allowed)]
        own = [s for s in scores if s.method == "own" and s.share == allowed]
        row: dict[str, Any] = {"method": method, "share": allowed, "records": len(mine)}
        for what in ("all", "locators", "every"):
            pairs = {s.record: (float(getattr(s, what)[0]), float(getattr(s, what)[1])) for s in mine}
            row[what] = draws.ratio(pairs).to_dict()
            if own and method != "own":
                theirs = {s.record: (float(getattr(s, what)[0]), float(getattr(s, what)[1])) for s in own}
                difference, p = draws.difference(pairs, theirs)
                row[f"{what}_against_own"] = {**difference.to_dict(), "p": round(p, 5)}
        row["bare"] = sum(s.bare for s in mine)
        row["user_lines"] = [sum(s.words[0] for s in mine), sum(s.words[1] for s in mine)]
        row["characters"] = round(sum(s.characters for s in mine) / len(mine))
        row["faults"] = sum(bool(s.fault) for s in mine)
        row["fault"] = next((s.fault for s in mine if s.fault), "")
        rows.append(row)
    return rows
