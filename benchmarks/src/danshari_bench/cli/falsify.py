"""`danshari bench falsify`: check the measures against bills, real re-reads and a published sweep."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from danshari.cli.shared.common import (
    PATH_TYPE,
    emit_json,
    load_sessions,
    make_table,
    out,
    print_notes,
    run_jobs,
    shorten_id,
    write_json,
)
from danshari.formats import find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari_bench.checks.measure import (
    CACHE_LIFETIMES,
    SOLVED_BY_WINDOW,
    CacheCheck,
    check_cache,
    count_rereads,
    pool_window_counts,
    rank_correlation,
    sweep_windows,
)
from danshari_bench.compactions import read_records
from danshari_bench.comparison.plan import LONG_ROUNDS
from danshari_bench.comparison.run import git_commit

AGREEMENT_TOLERANCE = 0.05
"""Hit shares this close count as agreeing."""


@click.command("falsify")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--compactions", type=PATH_TYPE, help="Folder of real compactions (records with before, summary, after).")
@click.option("--json", "json_out", type=PATH_TYPE, help="Write the result here; -: print it.")
def falsify_command(paths: tuple[Path, ...], compactions: Path | None, json_out: Path | None) -> None:
    """Try to prove the measure wrong, and say what these recordings cannot decide.

    The simulated cache is held against the cached tokens that recordings report; lost references against the look-ups
    that followed real compactions; the slope of SAR over OpenHands' masking window against published solve rates.
    """
    sessions, skipped = load_sessions(paths)
    bills = [b for b in run_jobs(check_cache, [s for s in sessions if s.usages], "billing") if b]
    rereads = run_jobs(count_rereads, list(read_records([compactions])), "re-reads") if compactions else []
    long = [s for s in sessions if sum(1 for _ in request_boundaries(s, find_format(s.format))) >= LONG_ROUNDS]
    sweeps = run_jobs(sweep_windows, long, "sweeping")
    groups = {
        s.collection: [w for w, o in zip(sweeps, long, strict=True) if o.collection == s.collection] for s in long
    }
    groups = {"all": sweeps, **groups}
    found: dict[str, Any] = {
        "commit": git_commit(),
        "cache": {"rows": [asdict(b) for b in bills], **_cache_agreement(bills)},
        "rereads": {
            **{k: sum(getattr(r, k) for r in rereads) for k in ("lost", "supported", "calls", "lookups")},
            "lost_looked_up": sum(r.lost_looked_up for r in rereads),
            "supported_looked_up": sum(r.supported_looked_up for r in rereads),
            "records": len(rereads),
            "rank_correlation": rank_correlation([(r.lost, r.lookups) for r in rereads]),
        },
        "sweep": {group: _sweep_figures(rows) for group, rows in groups.items()},
    }
    if json_out is not None and str(json_out) == "-":
        emit_json(found)
        return
    if json_out is not None:
        write_json(json_out, found)
    print_notes(skipped)
    _print(found, bills)


def _cache_agreement(bills: list[CacheCheck]) -> dict[str, Any]:
    """Count the sessions whose simulated and reported cached shares differ by at most `AGREEMENT_TOLERANCE`.

    Counted by cache time to live and for the better of the two. Sessions that were compacted while
    recorded are left out.
    """
    whole = [b for b in bills if not b.compacted]
    close = {
        str(int(ttl)): sum(abs(b.simulated[ttl] - b.reported) <= AGREEMENT_TOLERANCE for b in whole)
        for ttl in CACHE_LIFETIMES
    }
    best = sum(min(abs(b.simulated[ttl] - b.reported) for ttl in CACHE_LIFETIMES) <= AGREEMENT_TOLERANCE for b in whole)
    return {"sessions": len(whole), "within_5_points": {**close, "better of the two": best}}


def _sweep_figures(rows: list[dict[int, list[float]]]) -> dict[str, Any]:
    """Return the sweep's share of supported actions by window, and its rank correlation with solve rates."""
    sums = pool_window_counts(rows)
    shares = {events: kept / n for events, (kept, n) in sums.items() if n}
    rank = rank_correlation([(shares[e], float(SOLVED_BY_WINDOW[e])) for e in shares])
    return {
        "sessions": len(rows),
        "actions": sums[min(SOLVED_BY_WINDOW)][1] if sums else 0,
        "sar": {str(e): round(v, 4) for e, v in shares.items()},
        "rank_correlation_with_solved": rank,
    }


def _print(found: dict[str, Any], bills: list[CacheCheck]) -> None:
    """Print bills by session, re-reads after real compactions, and the sweep."""
    shown = make_table(
        "session", "requests", *(f"simulated {int(t)} s" for t in CACHE_LIFETIMES), "reported", "floor", left=1
    )
    for b in bills:
        cells = [f"{b.simulated[t]:.3f}" for t in CACHE_LIFETIMES]
        name = shorten_id(b.session, 26) + (" (compacted)" if b.compacted else "")
        shown.add_row(name, str(b.requests), *cells, f"{b.reported:.3f}", f"{b.floor:,.0f}")
    out.print(shown)
    cache = found["cache"]
    out.print(f"cached share of input, within 5 points: {cache['within_5_points']} of {cache['sessions']} sessions")
    again = found["rereads"]
    if again["records"]:
        out.print(
            f"after {again['records']} real compactions, first used in a look-up of a known file: "
            f"{again['lost_looked_up']} of {again['lost']} lost references, {again['supported_looked_up']} of "
            f"{again['supported']} supported ones; rank correlation of losses and look-ups {again['rank_correlation']}",
            highlight=False,
        )
    for group, row in found["sweep"].items():
        out.print(f"{group}: {row['sessions']} sessions, SAR by window {row['sar']}; rank correlation with published "
                  f"solve rates {row['rank_correlation_with_solved']}", highlight=False)  # fmt: skip
