"""From cells to rows: pooled shares with intervals, chance-corrected, beside doing nothing in the same wire format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from danshari.replay.lookup_ladder import QUERY_KINDS
from danshari.replay.references import HOT
from danshari.replay.statistics import (
    Bootstrap,
    Estimate,
    holm,
    pooled,
    rounded,
)
from danshari_bench.comparison.bounds import BUDGETS, Bounds
from danshari_bench.comparison.contenders import named
from danshari_bench.comparison.plan import (
    ALL,
    LONG,
    Cell,
    Found,
    Study,
    matched_round,
)

SHARES = (
    "hot", "warm", "cold", "old_locators", "old_content", "sar_locators", "bare", "sar_snapshot", "sar_after_commit",
    "pointer", "retrieved", "lost", "search", "search_by_chance", "rules", "rule_views", "attempts", "failing_test",
    "test_status", "todo", "invented", "stale", "edits_unseen",
    *(f"search_{kind}{suffix}" for kind in QUERY_KINDS for suffix in ("", "_by_chance")),
)  # fmt: skip
"""Measures that need no interval."""
REFERENCE = "balanced"


@dataclass(slots=True, kw_only=True)
class Results:
    """A finished study: session → cell → what was found."""

    study: Study
    found: list[dict[Cell, Found]]
    offs: list[dict[str, Found]] = field(default_factory=list)
    """Session → wire format → doing nothing."""


def groups_of(study: Study) -> dict[str, list[int]]:
    """Give the groups of the tables: long sessions (the headline), all, and each collection's long ones."""
    long = [n for n, s in enumerate(study.surveys) if s.rounds >= LONG]
    everything = list(range(len(study.sessions)))
    head = f"{LONG} rounds and more" if long else "all, none of them long"
    groups = {head: long or everything, "all": everything}
    for n in long:
        groups.setdefault(study.sessions[n].collection, []).append(n)
    short = [n for n, s in enumerate(study.surveys) if s.rounds < LONG]
    for collection in sorted({study.sessions[n].collection for n in short} - set(groups)):
        groups[collection] = [n for n in short if study.sessions[n].collection == collection]
    return groups


def rows_of(results: Results) -> list[dict[str, Any]]:
    """Build every row of every group."""
    rows = []
    for group, numbers in groups_of(results.study).items():
        if numbers:
            rows += _Group(results, group, numbers).rows()
    return rows


class _Group:
    def __init__(self, results: Results, name: str, numbers: Sequence[int]) -> None:
        self.results, self.name, self.numbers = results, name, numbers
        study = results.study
        self.tasks = [study.sessions[n].task for n in numbers]
        self.draws = Bootstrap(self.tasks)
        self.headline = name == next(iter(groups_of(study)))

    def rows(self) -> list[dict[str, Any]]:
        played = self.results.found
        cells = [c for c in self.results.study.cells if not c.idle and all(c in played[n] for n in self.numbers)]
        rows = []
        for cell in cells:
            vectors = list(self.results.study.vectors) if cell.vector == ALL else [cell.vector]
            if cell.budget is not None:
                vectors = vectors[:1]
            kept = self._kept(cell)
            rows += [{**self._row(cell, vector), **kept} for vector in vectors]
        if self.headline:
            self._compare(rows)
        return rows

    def _of(self, cell: Cell) -> list[Found]:
        return [self.results.found[n][cell] for n in self.numbers]

    def _base(self, cell: Cell) -> list[Found]:
        wire = named(cell.contender).format
        return [self.results.offs[n][wire or self.results.study.sessions[n].format] for n in self.numbers]

    def pairs(self, values: Iterable[tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """Sum pairs by task."""
        sums: dict[str, tuple[float, float]] = {}
        for task, (a, b) in zip(self.tasks, values, strict=True):
            before = sums.get(task, (0.0, 0.0))
            sums[task] = (before[0] + a, before[1] + b)
        return sums

    def tallied(self, cell: Cell, name: str) -> dict[str, tuple[float, float]]:
        """Sum one measure by task."""
        return self.pairs(
            (f["tally"].get(name, (0.0, 0.0))[0], f["tally"].get(name, (0.0, 0.0))[1]) for f in self._of(cell)
        )

    def money(self, cell: Cell, vector: str, kind: str = "plain") -> list[tuple[float, float]]:
        """Give (cost, cost of doing nothing) by session."""
        idle = Cell(contender=cell.contender, vector=cell.vector, idle=True)
        made = []
        for n, mine, base in zip(self.numbers, self._of(cell), self._base(cell), strict=True):
            own = self.results.found[n].get(idle) if kind == "idle" and cell.vector != ALL else None
            cost = (own or mine)["costs"][vector]["plain" if kind == "faulty" else kind]
            if kind == "faulty":
                cost += mine["costs"][vector]["faults"]
            made.append((cost, base["costs"][vector]["plain" if kind == "faulty" else kind]))
        return made

    def _row(self, cell: Cell, vector: str) -> dict[str, Any]:
        found, base = self._of(cell), self._base(cell)
        money = self.money(cell, vector)
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
            "dollars": self.draws.ratio(self.pairs(money), interval=whole).to_dict(),
            "dollars_median": rounded(ratios[len(ratios) // 2][0]) if ratios else 1.0,
            "dollars_p95": rounded(ratios[round(0.95 * (len(ratios) - 1))][0]) if ratios else 1.0,
            "dollars_worst": rounded(worst[0]),
            "dearer_sessions": sum(ratio > 1.0005 for ratio, _ in ratios),
            "worst_session": self.results.study.sessions[worst[1]].id,
            "tokens": rounded(pooled((f["tokens"], b["tokens"]) for f, b in zip(found, base, strict=True))),
            "peak": rounded(pooled((f["peak"], b["peak"]) for f, b in zip(found, base, strict=True))),
            "hit_rate": rounded(pooled((f["cached"], f["tokens"]) for f in found)),
            "rewrites": rounded(sum(f["rewrites"] for f in found) / len(found), 2),
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
                row[f"dollars_{kind}"] = rounded(pooled(self.money(cell, vector, kind)))
        return row

    def _kept(self, cell: Cell) -> dict[str, Any]:
        """Give what does not hang on the price vector a row is shown for: shares, intervals, chance."""
        whole = cell.budget is None
        row: dict[str, Any] = {
            "sar": self.draws.ratio(self.tallied(cell, "sar"), interval=whole).to_dict(),
            "edits": self.draws.ratio(self.tallied(cell, "edits"), interval=whole).to_dict(),
            "old": self.draws.ratio(self.tallied(cell, "old"), interval=whole).to_dict(),
        }
        for name in SHARES:
            row[name] = _counted(self.tallied(cell, name))
        row["files_f1"] = _f1(self.tallied(cell, "files_named"), self.tallied(cell, "files_right"))
        if whole:
            chance = self._chance(cell)
            row["chance"] = rounded(chance)
            value = row["old"]["value"]
            row["old_corrected"] = (
                rounded((value - chance) / (1 - chance)) if value is not None and chance < 1 else None
            )
        return row

    def _chance(self, cell: Cell) -> float:
        """Give how often the same atoms stand in this contender's views of sessions from other repositories."""
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
                        at = matched_round(study.surveys[other], survey.tokens[r - 1])
                        hits += sum(mark <= at for mark in marks) % 2
        return hits / tries if tries else 0.0

    def _compare(self, rows: list[dict[str, Any]]) -> None:
        """Add paired differences to the reference policy, corrected for their number."""
        cells = [c for c in self.results.study.cells if not c.idle and c.budget is None]
        reference = {c.vector: c for c in cells if c.contender == REFERENCE}
        for vector, against in reference.items():
            mine = [c for c in cells if c.contender != REFERENCE and c.vector in (vector, ALL) and c.contender != "off"]
            for measure in ("sar", "dollars"):
                differences: dict[str, tuple[Estimate, float]] = {}
                void = {r["contender"] for r in rows if r["void"]}
                for cell in (c for c in mine if c.contender not in void):
                    left, right = (self._pairs_of(c, measure, vector) for c in (cell, against))
                    differences[cell.contender] = self.draws.difference(left, right)
                corrected = holm({name: p for name, (_, p) in differences.items()})
                for row in rows:
                    if row["vector"] == vector and row["budget"] is None and row["contender"] in differences:
                        made = differences[row["contender"]][0].to_dict()
                        row[f"{measure}_against_{REFERENCE}"] = {**made, "p_holm": rounded(corrected[row["contender"]])}

    def _pairs_of(self, cell: Cell, measure: str, vector: str) -> Mapping[str, tuple[float, float]]:
        return self.pairs(self.money(cell, vector)) if measure == "dollars" else self.tallied(cell, measure)


def _counted(pairs: Mapping[str, tuple[float, float]]) -> list[float] | None:
    """Give [share, counted]; None where there was nothing to count."""
    n = sum(b for _, b in pairs.values())
    return [round(sum(a for a, _ in pairs.values()) / n, 5), round(n, 1)] if n else None


def _f1(named_: Mapping[str, tuple[float, float]], right: Mapping[str, tuple[float, float]]) -> float | None:
    recall, precision = _counted(named_), _counted(right)
    if recall is None:
        return None
    if precision is None or not precision[0] + recall[0]:
        return 0.0
    return round(2 * recall[0] * precision[0] / (recall[0] + precision[0]), 5)


def bounds_rows(study: Study) -> list[dict[str, Any]]:
    """Pool the bounds of every group."""
    rows = []
    for group, numbers in groups_of(study).items():
        mine = [b for n in numbers if (b := study.surveys[n].bounds) is not None]
        full = sum(b.full for b in mine)
        if not full:
            continue
        row: dict[str, Any] = {"group": group, "clairvoyant_tokens": round(sum(b.residency for b in mine) / full, 5)}
        row["optimal_dollars"] = {
            vector: rounded(pooled(study.surveys[n].optimal[vector] for n in numbers))
            for vector in study.surveys[numbers[0]].optimal
        }
        for name in ("oracle", "chance", "recency"):
            row[name] = {str(budget): _pooled(mine, name, budget) for budget in BUDGETS}
        rows.append(row)
    return rows


def _pooled(mine: Sequence[Bounds], name: str, budget: float) -> dict[str, float | None]:
    sums = [sum(values) for values in zip(*(getattr(b, name)[budget] for b in mine), strict=True)]
    return {
        "old": rounded(sums[0] / sums[1]) if sums[1] else None,
        "sar": rounded(sums[2] / sums[3]) if sums[3] else None,
    }


def add_regret(rows: list[dict[str, Any]], bounds: Sequence[Mapping[str, Any]]) -> None:
    """Add regret = (oracle − contender) / (oracle − random), both bounds taken at the contender's own token share."""
    by_group = {b["group"]: b for b in bounds}
    for row in rows:
        bound, value = by_group.get(row["group"]), row["sar"]["value"]
        if bound is None or value is None:
            continue
        oracle, chance = (_at(bound[name], row["tokens"]) for name in ("oracle", "chance"))
        if oracle is not None and chance is not None:
            row["regret"] = rounded((oracle - value) / (oracle - chance)) if oracle - chance > 0.02 else None


def _at(curve: Mapping[str, Mapping[str, float | None]], tokens: float) -> float | None:
    """Read a bound between its budgets, linearly; everything is kept at 1."""
    points = [(0.0, 0.0), *((float(b), v["sar"]) for b, v in curve.items() if v["sar"] is not None), (1.0, 1.0)]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= tokens <= x1:
            return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0) if y0 is not None and y1 is not None else None
    return 1.0
