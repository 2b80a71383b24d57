"""One comparison: its sessions, contenders, and the result of each session × contender × prices × budget.

Cells are stored when they finish, so that an interrupted run can be continued.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from danshari.data import load_policy
from danshari.formats import FORMATS, convert
from danshari.formats import find_format as format_named
from danshari.replay.atoms import AtomExtractor, AtomVariant
from danshari.replay.must_keep import build_state_history
from danshari.replay.prompt_cache import PRICE_VECTORS, request_boundaries
from danshari.replay.references import HOT, find_needs
from danshari.replay.score import ViewScorer
from danshari.replay.simulate import Contender, PlayResult, play_session
from danshari.sessions import RecordedSession
from danshari_bench.comparison.bounds import Bounds, compute_bounds
from danshari_bench.comparison.cache import (
    ResultStore,
    cache_folder,
    code_hash,
    hash_json,
)
from danshari_bench.comparison.contenders import find_contender
from danshari_bench.comparison.schedule import best_schedule

MIN_RARITY = 0.7
"""Least ln((tasks + 1) / (tasks that hold the atom + 1)) of an atom that counts."""
LEAST_TASKS = 10
"""With fewer tasks rarity says nothing, and every atom counts."""
DECOY_COUNT = 5
LONG_ROUNDS = 20
"""Rounds of a session that counts for the headline and for curves; all are in the tables."""
RELATED_ATOMS = 0.15
"""Share of common atoms from which two sessions count as one repository's, whatever their names say."""
PROMPT_FLOOR = 16_000.0
"""Tokens of system prompt and tools assumed for the figure with a floor: what Claude Code sends before any message."""
REFETCH_OUTPUT = 100.0
"""Tokens an agent writes to get something back."""
ANY_VECTOR = "*"
"""The price vector of contenders that do not look at prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCell:
    """One run of a contender: its price vector, token budget and whether idle gaps count."""

    contender: str
    vector: str = ANY_VECTOR
    budget: float | None = None
    """Share of the session's largest context."""
    idle: bool = False


@dataclass(slots=True, kw_only=True)
class SessionSurvey:
    """Summary of a session's requests and references, for rarity, decoys and tables."""

    key: str
    """Digest of the messages as recorded."""
    rounds: int
    actions: int
    """Rounds that made a call."""
    tokens: list[float]
    """Full context of every request."""
    held: frozenset[str]
    events: list[tuple[int, str, int]]
    """(round, atom, age) of every reference."""
    bounds: Bounds | None = None
    optimal: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Price vector → cost of the cheapest commits that know the future, and of doing nothing."""


@dataclass(slots=True, kw_only=True)
class Study:
    """All input of one comparison."""

    sessions: list[RecordedSession]
    cells: list[StudyCell]
    vectors: tuple[str, ...] = tuple(PRICE_VECTORS)
    variant: AtomVariant = "strict"
    surveys: list[SessionSurvey] = field(default_factory=list)
    common: frozenset[str] = frozenset()
    decoys: list[list[int]] = field(default_factory=list)
    """Session → the sessions of other repositories it is held against."""


def survey_session(job: tuple[RecordedSession, AtomVariant, frozenset[str]]) -> SessionSurvey:
    """Return the survey of one session."""
    session, variant, common = job
    needs = find_needs(session, common=common, atoms=AtomExtractor(variant))
    totals, at, total = [], 0, 0.0
    for r in needs.rounds:
        total += sum(needs.facts.tokens[at : r.items])
        at = r.items
        totals.append(round(total, 1))
    events = [(r.number, x.atom, x.age) for r in needs.rounds for x in r.references]
    optimal = {}
    for vector, prices in PRICE_VECTORS.items():
        best = best_schedule(session, load_policy("balanced"), prices)
        optimal[vector] = (best.cost, best.untouched)
    return SessionSurvey(
        key=session_key(session),
        rounds=len(needs.rounds),
        actions=sum(r.acts for r in needs.rounds),
        tokens=totals,
        held=frozenset(needs.held) | needs.head,
        events=events,
        bounds=compute_bounds(needs),
        optimal=optimal,
    )


def session_key(session: RecordedSession) -> str:
    """Return a hash of everything in a session that a result depends on."""
    return hash_json(session.format, session.messages, session.model, sorted(session.times.items()))


def common_atoms(sessions: Sequence[RecordedSession], surveys: Sequence[SessionSurvey]) -> frozenset[str]:
    """Return the atoms that too many tasks share to be informative.

    An atom is common if ln((tasks + 1) / (tasks that hold it + 1)) is at most `MIN_RARITY`; empty with
    fewer than `LEAST_TASKS` tasks.
    """
    tasks: dict[str, set[str]] = {}
    for session, survey in zip(sessions, surveys, strict=True):
        tasks.setdefault(session.task, set()).update(survey.held)
    if len(tasks) < LEAST_TASKS:
        return frozenset()
    counts = Counter(atom for held in tasks.values() for atom in held)
    return frozenset(a for a, n in counts.items() if math.log((len(tasks) + 1) / (n + 1)) <= MIN_RARITY)


def choose_decoys(sessions: Sequence[RecordedSession], surveys: Sequence[SessionSurvey]) -> list[list[int]]:
    """Return, per session, up to five sessions of other repositories with the closest length in tokens."""
    sizes = [math.log(s.tokens[-1] + 1) if s.tokens else 0.0 for s in surveys]
    chosen = []
    for n, session in enumerate(sessions):
        others = [m for m, other in enumerate(sessions) if other.repository != session.repository and surveys[m].tokens]
        others.sort(key=lambda m: (abs(sizes[m] - sizes[n]), sessions[m].id))
        strangers = (m for m in others if not is_same_repository(surveys[n].held, surveys[m].held))
        chosen.append(list(islice(strangers, DECOY_COUNT)))
    return chosen


def is_same_repository(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two sessions share so many atoms that they must belong to one repository."""
    return len(one & other) > RELATED_ATOMS * min(len(one), len(other))


def match_round(survey: SessionSurvey, tokens: float) -> int:
    """Return the 1-based request of another session whose context has about `tokens` tokens."""
    return min(bisect_left(survey.tokens, tokens), len(survey.tokens) - 1) + 1


def foreign_atoms(study: Study, number: int) -> frozenset[str]:
    """Return the old reference atoms of those sessions that have session `number` as a decoy."""
    return frozenset(
        atom
        for other, decoys in enumerate(study.decoys)
        if number in decoys
        for _, atom, age in study.surveys[other].events
        if age > HOT
    )


CellsJob = tuple[RecordedSession, str, tuple[StudyCell, ...], frozenset[str], frozenset[str], AtomVariant]
CellResult = dict[str, Any]


def cell_key(
    session_key: str, cell: StudyCell, common: frozenset[str], foreign: frozenset[str], variant: AtomVariant
) -> str:
    """Return the key of a cell's stored result; it changes with session, contender version and code."""
    contender = find_contender(cell.contender)
    return hash_json(
        code_hash(), session_key, cell.contender, contender.version, cell.vector, cell.budget, cell.idle,
        sorted(common), sorted(foreign), variant,
    )  # fmt: skip


def play_cells(job: CellsJob) -> list[CellResult]:
    """Play all cells of one session; stored results are reused."""
    session, session_key, cells, common, foreign, variant = job
    store = ResultStore(cache_folder() / "cells")
    keys = [cell_key(session_key, cell, common, foreign, variant) for cell in cells]
    found: list[CellResult | None] = [store.get(key) for key in keys]
    shapes: dict[str, _FormatPlayer] = {}
    for n, cell in enumerate(cells):
        if found[n] is None:
            contender = find_contender(cell.contender)
            wire = contender.format or session.format
            if wire not in shapes:
                shapes[wire] = _FormatPlayer(convert_session(session, wire), common, variant)
            found[n] = result = shapes[wire].play_cell(cell, contender, foreign)
            if not result["fault"].startswith("start: "):  # what may be better next time is tried again
                store.put(keys[n], result)
    return [f for f in found if f is not None]


def convert_session(session: RecordedSession, wire: str) -> RecordedSession:
    """Return a session in another wire format, with recorded times at the same requests."""
    if wire == session.format:
        return session
    messages = convert(session.messages, wire, source=session.format).payload
    made = replace(session, format=wire, messages=messages, times={}, usages={})
    here, there = (
        list(request_boundaries(session, format_named(session.format))),
        list(request_boundaries(made, FORMATS[wire])),
    )
    if len(here) == len(there):
        made.times = {b: session.times[a] for a, b in zip(here, there, strict=True) if a in session.times}
    return made


class _FormatPlayer:
    """One session in one wire format, analysed once for all cells that use this format."""

    def __init__(self, session: RecordedSession, common: frozenset[str], variant: AtomVariant) -> None:
        self.needs = find_needs(session, common=common, atoms=AtomExtractor(variant))
        self.history = build_state_history(self.needs)
        self.peak = sum(self.needs.facts.tokens[: self.needs.rounds[-1].items]) if self.needs.rounds else 0.0

    def play_cell(self, cell: StudyCell, contender: Contender, foreign: frozenset[str]) -> CellResult:
        """Play one cell and return plain JSON values."""
        scorer = None
        if not cell.idle:
            ladder = cell.budget is None
            scorer = ViewScorer(self.needs, self.history, foreign=foreign, ladder=ladder, markup=contender.markup)
        played = play_session(
            self.needs,
            contender,
            prices=PRICE_VECTORS.get(cell.vector, PRICE_VECTORS[".10"]),
            budget=round(cell.budget * self.peak) if cell.budget is not None else None,
            idle=cell.idle,
            check=not cell.idle,
            scorer=scorer,
        )
        return self._to_result(played, cell)

    def _to_result(self, played: PlayResult, cell: StudyCell) -> CellResult:
        """Convert a played session to JSON values: tokens, costs per price vector (units), tally and faults."""
        vectors = [cell.vector] if cell.vector != ANY_VECTOR else list(PRICE_VECTORS)
        score, sent, setting = played.score, played.sent, played.setting
        letters = sum(len(i.text) for i in self.needs.facts.items) or 1
        per_letter = self.needs.facts.total / letters
        asked = [sum(n) * per_letter for n in zip(*setting.calls, strict=True)] or [0.0, 0.0]
        costs = {}
        for name in vectors:
            prices = PRICE_VECTORS[name]
            faults = sum(
                n * (prices.read * sent[r - 1].tokens + prices.output * REFETCH_OUTPUT) + prices.write * tokens
                for r, (n, tokens) in (score.faults.items() if score else ())
            )
            costs[name] = {
                "plain": played.cost(prices) + asked[0] + prices.output * asked[1],
                "idle": played.cost(prices, idle=True) + asked[0] + prices.output * asked[1],
                "floor": played.cost(prices, floor=PROMPT_FLOOR) + asked[0] + prices.output * asked[1],
                "faults": faults,
            }
        spent = played.milliseconds
        return {
            "requests": len(sent),
            "tokens": sum(s.tokens for s in sent),
            "peak": max((s.tokens for s in sent), default=0.0),
            "cached": sum(s.cached for s in sent),
            "costs": costs,
            "rewrites": sum(s.rewritten for s in sent),
            "invalid": len(played.problems),
            "problem": next((f"request {r}: {p[0]}" for r, p in sorted(played.problems.items())), ""),
            "faults": len(setting.faults),
            "fault": setting.faults[0] if setting.faults else "",
            "model_calls": len(setting.calls),
            "tally": score.tally if score else {},
            "flips": score.flips if score else {},
            "digest": score.digest if score else "",
            "milliseconds": [spent[0], sum(spent[1:]) / (len(spent) - 1)] if len(spent) > 1 else [sum(spent), 0.0],
        }


def session_cells(study: Study, number: int) -> tuple[StudyCell, ...]:
    """Return the cells of one session; budgets are played only on long sessions, unless all are short."""
    if study.surveys[number].rounds >= LONG_ROUNDS or all(s.rounds < LONG_ROUNDS for s in study.surveys):
        return tuple(study.cells)
    return tuple(c for c in study.cells if c.budget is None)


def list_cells(names: Sequence[str], vectors: Sequence[str], budgets: Sequence[float]) -> list[StudyCell]:
    """Return the cells to play per session.

    Price vectors and idle gaps are varied only for contenders that use prices, budgets only for those
    that heed them.
    """
    cells: list[StudyCell] = []
    for name in dict.fromkeys(["off", *names]):
        contender = find_contender(name)
        for vector in vectors if contender.priced else [ANY_VECTOR]:
            cells.append(StudyCell(contender=name, vector=vector))
            if contender.priced:
                cells.append(StudyCell(contender=name, vector=vector, idle=True))
        if contender.budgeted:
            vector = vectors[0] if contender.priced else ANY_VECTOR
            cells += [StudyCell(contender=name, vector=vector, budget=budget) for budget in budgets]
    return cells
