"""`danshari bench`: pooled dollars on recorded sessions, and speed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.bench.measures import Support
from danshari.bench.replay import VECTORS, Replayed, cuts, replay
from danshari.bench.schedule import Best, best_schedule
from danshari.bench.speed import measure_speed
from danshari.bench.validity import check_views, sum_up
from danshari.cli.common import PATHS, each, emit_json, load_sessions, notes, out, pooled, table
from danshari.formats import FORMATS, named
from danshari.sessions import Recorded

Job = tuple[Recorded, str, str]


def _work(job: Job) -> tuple[Replayed, Best | None]:
    session, policy, vector = job
    prices = VECTORS[vector]
    best = best_schedule(session, data.load_policy(policy), prices) if policy == "balanced" else None
    return replay(session, policy, prices=prices, check=True, measure=True), best


@click.group()
def bench() -> None:
    """Measure: dollars on recorded sessions, speed on growing histories."""


@bench.command("dollars")
@click.argument("paths", nargs=-1, required=True, type=PATHS)
@click.option("--policy", "policies", multiple=True, default=("balanced", "literal"), show_default=True)
@click.option("--least", default=20, show_default=True, help="Leave out sessions with fewer rounds.")
@click.option("--by-source", is_flag=True, help="One row per source too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def dollars_command(
    paths: tuple[Path, ...], policies: tuple[str, ...], least: int, by_source: bool, as_json: bool
) -> None:
    """Pool dollars at four price vectors, each policy told its own, beside the offline-optimal commit schedule."""
    sessions, skipped = load_sessions(paths)
    sessions = [s for s in sessions if sum(1 for _ in cuts(s, named(s.format))) >= least]
    names = ["off", *(p for p in policies if p != "off")]
    jobs: list[Job] = [(s, name, vector) for s in sessions for vector in VECTORS for name in names]
    found = each(_work, jobs, "replaying")
    by_job = {
        (*job[1:], n // (len(VECTORS) * len(names))): result
        for n, (job, result) in enumerate(zip(jobs, found, strict=True))
    }
    groups = {"all": list(range(len(sessions)))}
    if by_source:
        for n, session in enumerate(sessions):
            groups.setdefault(session.source, []).append(n)
    rows = [
        _row(
            group,
            name,
            vector,
            [by_job[name, vector, n] for n in numbers],
            [by_job["off", vector, n][0] for n in numbers],
        )
        for group, numbers in groups.items()
        for vector in VECTORS
        for name in names[1:]
    ]
    if as_json:
        emit_json({"sessions": len(sessions), "skipped": skipped, "rows": rows})
        return
    notes(skipped)
    _print(rows)


def _row(
    group: str, policy: str, vector: str, found: list[tuple[Replayed, Best | None]], base: list[Replayed]
) -> dict[str, Any]:
    support = Support()
    for result, _ in found:
        support.add(result.support)
    pairs = [(r.cost, b.cost) for (r, _), b in zip(found, base, strict=True)]
    ratios = sorted(a / b for a, b in pairs if b)
    bests = [best for _, best in found if best]
    return {
        "group": group,
        "policy": policy,
        "prices": vector,
        "sessions": len(found),
        "rounds": sum(len(r.rounds) for r, _ in found),
        "dollars": pooled(pairs),
        "optimal": pooled((b.cost, b.untouched) for b in bests) if bests else None,
        "median": ratios[len(ratios) // 2] if ratios else 1.0,
        "worst": ratios[-1] if ratios else 1.0,
        "tokens": pooled((r.tokens, b.tokens) for (r, _), b in zip(found, base, strict=True)),
        "hit_rate": pooled((sum(x.cached for x in r.rounds), r.tokens) for r, _ in found),
        "edit_support": [support.edits_kept, support.edits],
        "recent_support": [support.hot_kept, support.hot],
        "old_support": [support.old_kept, support.old],
        "unseen_edits": support.edits_unseen,
        "actions": [support.actions_kept, support.actions],
        "rewrites": sum(r.rewrites for r, _ in found) / max(len(found), 1),
        "invalid": sum(bool(x.problems) for r, _ in found for x in r.rounds),
        "faults": sum(len(r.faults) for r, _ in found),
    }


def _print(rows: list[dict[str, Any]]) -> None:
    shown = table(
        "sessions",
        "policy",
        "price",
        "n",
        "dollars",
        "optimal",
        "median",
        "worst",
        "tokens",
        "hits",
        "edits",
        "recent",
        "older",
        "rewr.",
        "bad",
        left=2,
    )
    for row in rows:
        shown.add_row(
            row["group"],
            row["policy"],
            row["prices"],
            str(row["sessions"]),
            f"{row['dollars']:.3f}",
            f"{row['optimal']:.3f}" if row["optimal"] else "–",
            f"{row['median']:.3f}",
            f"{row['worst']:.3f}",
            f"{row['tokens']:.3f}",
            f"{row['hit_rate']:.3f}",
            _share(row["edit_support"]),
            _share(row["recent_support"]),
            _share(row["old_support"]),
            f"{row['rewrites']:.1f}",
            str(row["invalid"] + row["faults"]),
        )
    out.print(shown)
    out.print(
        "dollars: input cost over doing nothing, a ratio of sums; optimal: the offline-optimal commit schedule; "
        "no fixed floor for system and tools; output tokens left out",
        style="dim",
        highlight=False,
    )


def _share(pair: list[int]) -> str:
    return f"{pair[0] / pair[1]:.3f}/{pair[1]}" if pair[1] else "–"


@bench.command("valid")
@click.argument("paths", nargs=-1, required=True, type=PATHS)
@click.option("--policy", "policies", multiple=True, help="Repeat for several. [default: all presets]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def valid_command(paths: tuple[Path, ...], policies: tuple[str, ...], as_json: bool) -> None:
    """Check every view of every session, cut at every round, in all three formats, under every policy.

    Exit code 3 if a view breaks a rule that the recording did not break, changes bytes without an edit, or on a fault.
    """
    sessions, skipped = load_sessions(paths)
    names = policies or data.policy_names()
    jobs = [(s, wire, name) for s in sessions for wire in FORMATS for name in names]
    rows = each(check_views, jobs, "checking")
    sums = [sum_up(name, wire, rows) for name in names for wire in FORMATS]
    if as_json:
        emit_json({"sessions": len(sessions), "skipped": skipped, "rows": sums})
    else:
        notes(skipped)
        shown = table("policy", "format", "sessions", "views", "invalid", "unstable", "faults", "rewrites", left=2)
        for row in sums:
            cells = (row.sessions, row.views, row.invalid, row.unstable, row.faults)
            shown.add_row(row.policy, row.wire, *map(str, cells), f"{row.rewrites / max(row.sessions, 1):.2f}")
        out.print(shown)
        out.print(
            "unstable: requests that changed sent bytes though no edit was committed; rewrites: per session",
            style="dim",
            highlight=False,
        )
    if any(row.invalid or row.unstable or row.faults for row in sums):
        sys.exit(3)


@bench.command("speed")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--megabytes", default=3.0, show_default=True, help="Size of the history.")
def speed_command(as_json: bool, megabytes: float) -> None:
    """Time cold and appended reads on growing histories, as ratios to json.dumps of the same list."""
    rows = measure_speed(int(megabytes * 1e6))
    if as_json:
        emit_json(rows)
        return
    shown = table("what", "messages", "minimum", "median", "unit", "asked")
    for row in rows:
        shown.add_row(
            row["what"],
            str(row["messages"] or ""),
            f"{row['minimum']:.3f}",
            f"{row['median']:.3f}",
            row["unit"],
            row["asked"],
        )
    out.print(shown)
