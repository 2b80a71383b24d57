"""One comparison: which sessions, which contenders, and what every cell (session × contender × prices × budget) gave.

Cells are stored as they finish, so that an interrupted run goes on where it stopped.
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
from danshari.formats import named as format_named
from danshari.replay.atoms import Atoms, Variant
from danshari.replay.must_keep import history_of
from danshari.replay.prompt_cache import VECTORS, cuts
from danshari.replay.references import HOT, needs_of
from danshari.replay.score import Scorer
from danshari.replay.simulate import Contender, Played, play
from danshari.sessions import Recorded
from danshari_bench.comparison.bounds import Bounds, bounds_of
from danshari_bench.comparison.cache import (
    Store,
    cache_home,
    code_hash,
    digest,
)
from danshari_bench.comparison.contenders import named
from danshari_bench.comparison.schedule import best_schedule

RARITY = 0.7
"""Least ln((tasks + 1) / (tasks that hold the atom + 1)) of an atom that counts."""
LEAST_TASKS = 10
"""With fewer tasks rarity says nothing, and every atom counts."""
DECOYS = 5
LONG = 20
"""Rounds of a session that counts for the headline and for curves; all are in the tables."""
RELATED = 0.15
"""Share of common atoms from which two sessions count as one repository's, whatever their names say."""
FLOOR = 16_000.0
"""Tokens of system prompt and tools assumed for the figure with a floor: what Claude Code sends before any message."""
FAULT_OUTPUT = 100.0
"""Tokens an agent writes to get something back."""
ALL = "*"
"""The price vector of contenders that do not look at prices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One thing to play."""

    contender: str
    vector: str = ALL
    budget: float | None = None
    """Share of the session's largest context."""
    idle: bool = False


@dataclass(slots=True, kw_only=True)
class Survey:
    """What a session needs, kept small: for rarity, for decoys, and for the tables."""

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
    """All of a comparison's input."""

    sessions: list[Recorded]
    cells: list[Cell]
    vectors: tuple[str, ...] = tuple(VECTORS)
    variant: Variant = "strict"
    surveys: list[Survey] = field(default_factory=list)
    common: frozenset[str] = frozenset()
    decoys: list[list[int]] = field(default_factory=list)
    """Session → the sessions of other repositories it is held against."""


def survey_of(job: tuple[Recorded, Variant, frozenset[str]]) -> Survey:
    """Survey one session."""
    session, variant, common = job
    needs = needs_of(session, common=common, atoms=Atoms(variant))
    totals, at, total = [], 0, 0.0
    for r in needs.rounds:
        total += sum(needs.facts.tokens[at : r.items])
        at = r.items
        totals.append(round(total, 1))
    events = [(r.number, x.atom, x.age) for r in needs.rounds for x in r.references]
    optimal = {}
    for vector, prices in VECTORS.items():
        best = best_schedule(session, load_policy("balanced"), prices)
        optimal[vector] = (best.cost, best.untouched)
    return Survey(
        key=session_key(session),
        rounds=len(needs.rounds),
        actions=sum(r.acts for r in needs.rounds),
        tokens=totals,
        held=frozenset(needs.held) | needs.head,
        events=events,
        bounds=bounds_of(needs),
        optimal=optimal,
    )


def session_key(session: Recorded) -> str:
    """Name what a result depends on of a session."""
    return digest(session.format, session.messages, session.model, sorted(session.times.items()))


def common_atoms(sessions: Sequence[Recorded], surveys: Sequence[Survey]) -> frozenset[str]:
    """Give the atoms that too many tasks share to tell anything."""
    tasks: dict[str, set[str]] = {}
    for session, survey in zip(sessions, surveys, strict=True):
        tasks.setdefault(session.task, set()).update(survey.held)
    if len(tasks) < LEAST_TASKS:
        return frozenset()
    counts = Counter(atom for held in tasks.values() for atom in held)
    return frozenset(a for a, n in counts.items() if math.log((len(tasks) + 1) / (n + 1)) <= RARITY)


def choose_decoys(sessions: Sequence[Recorded], surveys: Sequence[Survey]) -> list[list[int]]:
    """Match every session with the five of other repositories whose length is closest."""
    sizes = [math.log(s.tokens[-1] + 1) if s.tokens else 0.0 for s in surveys]
    chosen = []
    for n, session in enumerate(sessions):
        others = [m for m, other in enumerate(sessions) if other.repository != session.repository and surveys[m].tokens]
        others.sort(key=lambda m: (abs(sizes[m] - sizes[n]), sessions[m].id))
        strangers = (m for m in others if not related(surveys[n].held, surveys[m].held))
        chosen.append(list(islice(strangers, DECOYS)))
    return chosen


def related(one: frozenset[str], other: frozenset[str]) -> bool:
    """Say whether two sessions share so many atoms that they must have worked in one repository."""
    return len(one & other) > RELATED * min(len(one), len(other))


def matched_round(survey: Survey, tokens: float) -> int:
    """Give the request of another session whose context is about as long."""
    return min(bisect_left(survey.tokens, tokens), len(survey.tokens) - 1) + 1


def foreign_atoms(study: Study, number: int) -> frozenset[str]:
    """Give the atoms that other sessions look for in this one."""
    return frozenset(
        atom
        for other, decoys in enumerate(study.decoys)
        if number in decoys
        for _, atom, age in study.surveys[other].events
        if age > HOT
    )


Job = tuple[Recorded, str, tuple[Cell, ...], frozenset[str], frozenset[str], Variant]
Found = dict[str, Any]


def key_of(session_key: str, cell: Cell, common: frozenset[str], foreign: frozenset[str], variant: Variant) -> str:
    """Name the stored result of a cell: it changes with the session, the contender's version, and danshari's code."""
    contender = named(cell.contender)
    return digest(
        code_hash(), session_key, cell.contender, contender.version, cell.vector, cell.budget, cell.idle,
        sorted(common), sorted(foreign), variant,
    )  # fmt: skip


def play_cells(job: Job) -> list[Found]:
    """Play all cells of one session; what was played before is read back."""
    session, session_key, cells, common, foreign, variant = job
    store = Store(cache_home() / "cells")
    keys = [key_of(session_key, cell, common, foreign, variant) for cell in cells]
    found: list[Found | None] = [store.get(key) for key in keys]
    shapes: dict[str, _Shape] = {}
    for n, cell in enumerate(cells):
        if found[n] is None:
            contender = named(cell.contender)
            wire = contender.format or session.format
            if wire not in shapes:
                shapes[wire] = _Shape(in_format(session, wire), common, variant)
            found[n] = result = shapes[wire].played(cell, contender, foreign)
            if not result["fault"].startswith("start: "):  # what may be better next time is tried again
                store.put(keys[n], result)
    return [f for f in found if f is not None]


def in_format(session: Recorded, wire: str) -> Recorded:
    """Give a session in another wire format, its times at the same requests."""
    if wire == session.format:
        return session
    messages = convert(session.messages, wire, source=session.format).payload
    made = replace(session, format=wire, messages=messages, times={}, usages={})
    here, there = list(cuts(session, format_named(session.format))), list(cuts(made, FORMATS[wire]))
    if len(here) == len(there):
        made.times = {b: session.times[a] for a, b in zip(here, there, strict=True) if a in session.times}
    return made


class _Shape:
    """One session in one wire format, taken apart once for all cells that need it so."""

    def __init__(self, session: Recorded, common: frozenset[str], variant: Variant) -> None:
        self.needs = needs_of(session, common=common, atoms=Atoms(variant))
        self.history = history_of(self.needs)
        self.peak = sum(self.needs.facts.tokens[: self.needs.rounds[-1].items]) if self.needs.rounds else 0.0

    def played(self, cell: Cell, contender: Contender, foreign: frozenset[str]) -> Found:
        """Play one cell and give plain JSON values."""
        scorer = None
        if not cell.idle:
            ladder = cell.budget is None
            scorer = Scorer(self.needs, self.history, foreign=foreign, ladder=ladder, markup=contender.markup)
        played = play(
            self.needs,
            contender,
            prices=VECTORS.get(cell.vector, VECTORS[".10"]),
            budget=round(cell.budget * self.peak) if cell.budget is not None else None,
            idle=cell.idle,
            check=not cell.idle,
            scorer=scorer,
        )
        return self._plain(played, cell)

    def _plain(self, played: Played, cell: Cell) -> Found:
        vectors = [cell.vector] if cell.vector != ALL else list(VECTORS)
        score, sent, setting = played.score, played.sent, played.setting
        letters = sum(len(i.text) for i in self.needs.facts.items) or 1
        per_letter = self.needs.facts.total / letters
        asked = [sum(n) * per_letter for n in zip(*setting.calls, strict=True)] or [0.0, 0.0]
        costs = {}
        for name in vectors:
            prices = VECTORS[name]
            faults = sum(
                n * (prices.read * sent[r - 1].tokens + prices.output * FAULT_OUTPUT) + prices.write * tokens
                for r, (n, tokens) in (score.faults.items() if score else ())
            )
            costs[name] = {
                "plain": played.cost(prices) + asked[0] + prices.output * asked[1],
                "idle": played.cost(prices, idle=True) + asked[0] + prices.output * asked[1],
                "floor": played.cost(prices, floor=FLOOR) + asked[0] + prices.output * asked[1],
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


def cells_for(study: Study, number: int) -> tuple[Cell, ...]:
    """Give the cells of one session: budgets only where sessions are long, unless all are short."""
    if study.surveys[number].rounds >= LONG or all(s.rounds < LONG for s in study.surveys):
        return tuple(study.cells)
    return tuple(c for c in study.cells if c.budget is None)


def cells_of(names: Sequence[str], vectors: Sequence[str], budgets: Sequence[float]) -> list[Cell]:
    """List what to play for each session: prices and idle only where they matter, budgets where they are heeded."""
    cells: list[Cell] = []
    for name in dict.fromkeys(["off", *names]):
        contender = named(name)
        for vector in vectors if contender.priced else [ALL]:
            cells.append(Cell(contender=name, vector=vector))
            if contender.priced:
                cells.append(Cell(contender=name, vector=vector, idle=True))
        if contender.budgeted:
            vector = vectors[0] if contender.priced else ALL
            cells += [Cell(contender=name, vector=vector, budget=budget) for budget in budgets]
    return cells
