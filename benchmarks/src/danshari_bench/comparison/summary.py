"""Turn cell results into table rows: pooled ratios, intervals, chance level, relative to doing nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from danshari.replay.lookup_ladder import QUERY_KINDS
from danshari.replay.references import HOT
from danshari.replay.statistics import (
    Bootstrap,
    RatioEstimate,
    correct_holm,
    pool_ratio,
    round_optional,
)
from danshari_bench.comparison.bounds import BOUND_BUDGETS, Bounds
from danshari_bench.comparison.contenders import find_contender
from danshari_bench.comparison.plan import (
    ANY_VECTOR,
    LONG_ROUNDS,
    CellResult,
    Study,
    StudyCell,
    match_round,
)

SHARE_MEASURES = (
    "hot", "warm", "cold", "old_locators", "old_content", "sar_locators", "bare", "sar_snapshot", "sar_after_commit",
    "pointer", "retrieved", "lost", "search", "search_by_chance", "rules", "rule_views", "attempts", "failing_test",
    "test_status", "todo", "invented", "stale", "edits_unseen",
    *(f"search_{kind}{suffix}" for kind in QUERY_KINDS for suffix in ("", "_by_chance")),
)  # fmt: skip
"""Measures that need no interval."""
REFERENCE_POLICY = "balanced"


@dataclass(slots=True, kw_only=True)
class StudyResults:
    """A finished study: session → cell → result."""

    study: Study
    found: list[dict[StudyCell, CellResult]]
    offs: list[dict[str, CellResult]] = field(default_factory=list)
    """Session → wire format → doing nothing."""


def session_groups(study: Study) -> dict[str, list[int]]:
    """Return the groups of the tables: long sessions (the headline), all, and the long ones of each collection."""
    long = [n for n, s in enumerate(study.surveys) if s.rounds >= LONG_ROUNDS]
    everything = list(range(len(study.sessions)))
    head = f"{LONG_ROUNDS} rounds and more" if long else "all, none of them long"
    groups = {head: long or everything, "all": everything}
    for n in long:
        groups.setdefault(study.sessions[n].collection, []).append(n)
    short = [n for n, s in enumerate(study.surveys) if s.rounds < LONG_ROUNDS]
    for collection in sorted({study.sessions[n].collection for n in short} - set(groups)):
        groups[collection] = [n for n in short if study.sessions[n].collection == collection]
    return groups


def build_rows(results: StudyResults) -> list[dict[str, Any]]:
    """Return the rows of all groups."""
    rows = []
    for group, numbers in session_groups(results.study).items():
        if numbers:
            rows += _GroupTable(results, group, numbers).rows()
    return rows


class _GroupTable:
    """Computes the table rows of one group of sessions."""

    def __init__(self, results: StudyResults, name: str, numbers: Sequence[int]) -> None:
        self.results, self.name, self.numbers = results, name, numbers
        study = results.study
        self.tasks = [study.sessions[n].task for n in numbers]
        self.draws = Bootstrap(self.tasks)
        self.headline = name == next(iter(session_groups(study)))

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per cell and price vector."""
        played = self.results.found
        cells = [c for c in self.results.study.cells if not c.idle and all(c in played[n] for n in self.numbers)]
        rows = []
        for cell in cells:
            vectors = list(self.results.study.vectors) if cell.vector == ANY_VECTOR else [cell.vector]
            if cell.budget is not None:
                vectors = vectors[:1]
            kept = self._measure_figures(cell)
            rows += [{**self._cost_figures(cell, vector), **kept} for vector in vectors]
        if self.headline:
            self._add_differences(rows)
        return rows

    def _cell_results(self, cell: StudyCell) -> list[CellResult]:
        return [self.results.found[n][cell] for n in self.numbers]

    def _off_results(self, cell: StudyCell) -> list[CellResult]:
        wire = find_contender(cell.contender).format
        return [self.results.offs[n][wire or self.results.study.sessions[n].format] for n in self.numbers]

    def sum_by_task(self, values: Iterable[tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """Return task → sums of (numerator, denominator)."""
        sums: dict[str, tuple[float, float]] = {}
        for task, (a, b) in zip(self.tasks, values, strict=True):
            before = sums.get(task, (0.0, 0.0))
            sums[task] = (before[0] + a, before[1] + b)
        return sums

    def sum_measure(self, cell: StudyCell, name: str) -> dict[str, tuple[float, float]]:
        """Return task → sums of (kept, counted) of one measure."""
        return self.sum_by_task(
            (f["tally"].get(name, (0.0, 0.0))[0], f["tally"].get(name, (0.0, 0.0))[1]) for f in self._cell_results(cell)
        )

    def session_costs(self, cell: StudyCell, vector: str, kind: str = "plain") -> list[tuple[float, float]]:
        """Return (cost, cost of doing nothing) per session in units; `kind` is plain, idle, floor or faulty."""
        idle = StudyCell(contender=cell.contender, vector=cell.vector, idle=True)
        made = []
        for n, mine, base in zip(self.numbers, self._cell_results(cell), self._off_results(cell), strict=True):
            own = self.results.found[n].get(idle) if kind == "idle" and cell.vector != ANY_VECTOR else None
            cost = (own or mine)["costs"][vector]["plain" if kind == "faulty" else kind]
            if kind == "faulty":
                cost += mine["costs"][vector]["faults"]
            made.append((cost, base["costs"][vector]["plain" if kind == "faulty" else kind]))
        return made

    def _cost_figures(self, cell: StudyCell, vector: str) -> dict[str, Any]:
        """Return the figures that depend on the price vector: dollars, tokens, cache hits, faults."""
        found, base = self._cell_results(cell), self._off_results(cell)
        money = self.session_costs(cell, vector)
        ratios = sorted((a / b, n) for (a, b), n in zip(money, self.numbers, strict=True) if b)
        worst = ratios[-1] if ratios else (1.0, self.numbers[0])
        whole = cell.budget is None
        row: dict[str, Any] = {
            "group": self.name,
            "contender": cell.contender,
            "vector": vector,
            "budget": cell.budget,
            "sessions": len(found),
            "requests": sum(f["requests"] for f in found),
            "dollars": self.draws.ratio(self.sum_by_task(money), interval=whole).to_dict(),
            "dollars_median": round_optional(ratios[len(ratios) // 2][0]) if ratios else 1.0,
            "dollars_p95": round_optional(ratios[round(0.95 * (len(ratios) - 1))][0]) if ratios else 1.0,
            "dollars_worst": round_optional(worst[0]),
            "dearer_sessions": sum(ratio > 1.0005 for ratio, _ in ratios),
            "worst_session": self.results.study.sessions[worst[1]].id,
            "tokens": round_optional(pool_ratio((f["tokens"], b["tokens"]) for f, b in zip(found, base, strict=True))),
            "peak": round_optional(pool_ratio((f["peak"], b["peak"]) for f, b in zip(found, base, strict=True))),
            "hit_rate": round_optional(pool_ratio((f["cached"], f["tokens"]) for f in found)),
            "rewrites": round_optional(sum(f["rewrites"] for f in found) / len(found), 2),
            "invalid_requests": sum(f["invalid"] for f in found),
            "invalid_sessions": sum(bool(f["invalid"]) for f in found),
            "problem": next((f["problem"] for f in found if f["problem"]), ""),
            "faulty_sessions": sum(bool(f["faults"]) for f in found),
            "fault": next((f["fault"] for f in found if f["fault"]), ""),
            "void": any(f["invalid"] or f["fault"].startswith("start: ") for f in found),
            "model_calls": sum(f["model_calls"] for f in found),
        }
        if whole:
            for kind in ("idle", "floor", "faulty"):
                row[f"dollars_{kind}"] = round_optional(pool_ratio(self.session_costs(cell, vector, kind)))
        return row

    def _measure_figures(self, cell: StudyCell) -> dict[str, Any]:
        """Return the figures that do not depend on the price vector: shares, intervals, chance level.

        old_corrected = (share of old references kept - chance) / (1 - chance).
        """
        whole = cell.budget is None
        row: dict[str, Any] = {
            "sar": self.draws.ratio(self.sum_measure(cell, "sar"), interval=whole).to_dict(),
            "edits": self.draws.ratio(self.sum_measure(cell, "edits"), interval=whole).to_dict(),
            "old": self.draws.ratio(self.sum_measure(cell, "old"), interval=whole).to_dict(),
        }
        for name in SHARE_MEASURES:
            row[name] = _pool_share(self.sum_measure(cell, name))
        row["files_f1"] = _f1_score(self.sum_measure(cell, "files_named"), self.sum_measure(cell, "files_right"))
        if whole:
            chance = self._chance_share(cell)
            row["chance"] = round_optional(chance)
            value = row["old"]["value"]
            row["old_corrected"] = (
                round_optional((value - chance) / (1 - chance)) if value is not None and chance < 1 else None
            )
        return row

    def _chance_share(self, cell: StudyCell) -> float:
        """Return how often the same atoms are visible in this contender's views of other repositories' sessions."""
        study, hits, tries = self.results.study, 0.0, 0
        for n in self.numbers:
            survey = study.surveys[n]
            old = [(r, atom) for r, atom, age in survey.events if age > HOT]
            for other in study.decoys[n]:
                flips = self.results.found[other][cell]["flips"]
                for r, atom in old:
                    marks = flips.get(atom)
                    tries += 1
                    if marks:
                        at = match_round(study.surveys[other], survey.tokens[r - 1])
                        hits += sum(mark <= at for mark in marks) % 2
        return hits / tries if tries else 0.0

    def _add_differences(self, rows: list[dict[str, Any]]) -> None:
        """Add paired differences to the reference policy, with p-values corrected for their number."""
        cells = [c for c in self.results.study.cells if not c.idle and c.budget is None]
        reference = {c.vector: c for c in cells if c.contender == REFERENCE_POLICY}
        for vector, against in reference.items():
            mine = [
                c
                for c in cells
                if c.contender != REFERENCE_POLICY and c.vector in (vector, ANY_VECTOR) and c.contender != "off"
            ]
            for measure in ("sar", "dollars"):
                differences: dict[str, tuple[RatioEstimate, float]] = {}
                void = {r["contender"] for r in rows if r["void"]}
                for cell in (c for c in mine if c.contender not in void):
                    left, right = (self._sums_by_measure(c, measure, vector) for c in (cell, against))
                    differences[cell.contender] = self.draws.difference(left, right)
                corrected = correct_holm({name: p for name, (_, p) in differences.items()})
                for row in rows:
                    if row["vector"] == vector and row["budget"] is None and row["contender"] in differences:
                        made = differences[row["contender"]][0].to_dict()
                        row[f"{measure}_against_{REFERENCE_POLICY}"] = {
                            **made,
                            "p_holm": round_optional(corrected[row["contender"]]),
                        }

    def _sums_by_measure(self, cell: StudyCell, measure: str, vector: str) -> Mapping[str, tuple[float, float]]:
        return (
            self.sum_by_task(self.session_costs(cell, vector))
            if measure == "dollars"
            else self.sum_measure(cell, measure)
        )


def _pool_share(pairs: Mapping[str, tuple[float, float]]) -> list[float] | None:
    """Return [share, counted], or None if nothing was counted."""
    n = sum(b for _, b in pairs.values())
    return [round(sum(a for a, _ in pairs.values()) / n, 5), round(n, 1)] if n else None


def _f1_score(named_: Mapping[str, tuple[float, float]], right: Mapping[str, tuple[float, float]]) -> float | None:
    """Return the harmonic mean of precision and recall of listed files, or None without written files."""
    recall, precision = _pool_share(named_), _pool_share(right)
    if recall is None:
        return None
    if precision is None or not precision[0] + recall[0]:
        return 0.0
    return round(2 * recall[0] * precision[0] / (recall[0] + precision[0]), 5)


def bounds_rows(study: Study) -> list[dict[str, Any]]:
    """Return the pooled bounds of every group."""
    rows = []
    for group, numbers in session_groups(study).items():
        mine = [b for n in numbers if (b := study.surveys[n].bounds) is not None]
        full = sum(b.full for b in mine)
        if not full:
            continue
        row: dict[str, Any] = {"group": group, "clairvoyant_tokens": round(sum(b.residency for b in mine) / full, 5)}
        row["optimal_dollars"] = {
            vector: round_optional(pool_ratio(study.surveys[n].optimal[vector] for n in numbers))
            for vector in study.surveys[numbers[0]].optimal
        }
        for name in ("oracle", "chance", "recency"):
            row[name] = {str(budget): _pool_bound(mine, name, budget) for budget in BOUND_BUDGETS}
        rows.append(row)
    return rows


def _pool_bound(mine: Sequence[Bounds], name: str, budget: float) -> dict[str, float | None]:
    sums = [sum(values) for values in zip(*(getattr(b, name)[budget] for b in mine), strict=True)]
    return {
        "old": round_optional(sums[0] / sums[1]) if sums[1] else None,
        "sar": round_optional(sums[2] / sums[3]) if sums[3] else None,
    }


def add_regret(rows: list[dict[str, Any]], bounds: Sequence[Mapping[str, Any]]) -> None:
    """Add to each row its regret = (oracle - contender) / (oracle - random).

    All are SAR values; both bounds are interpolated at the contender's own token share. None if oracle
    - random is at most .02.
    """
    by_group = {b["group"]: b for b in bounds}
    for row in rows:
        bound, value = by_group.get(row["group"]), row["sar"]["value"]
        if bound is None or value is None:
            continue
        oracle, chance = (_interpolate(bound[name], row["tokens"]) for name in ("oracle", "chance"))
        if oracle is not None and chance is not None:
            row["regret"] = round_optional((oracle - value) / (oracle - chance)) if oracle - chance > 0.02 else None


def _interpolate(curve: Mapping[str, Mapping[str, float | None]], tokens: float) -> float | None:
    """Return a bound between its budgets, linearly; at a token share of 1 everything is kept."""
    points = [(0.0, 0.0), *((float(b), v["sar"]) for b, v in curve.items() if v["sar"] is not None), (1.0, 1.0)]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= tokens <= x1:
            return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0) if y0 is not None and y1 is not None else None
    return 1.0
