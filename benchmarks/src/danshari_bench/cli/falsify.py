"""`danshari bench falsify`: the measure against bills, against real re-reads, and against a published sweep."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from danshari.cli.common import PATHS, each, emit_json, label, load_sessions, notes, out, table, write_json
from danshari.formats import named
from danshari.replay.prompt_cache import cuts
from danshari_bench.checks.measure import (
    SWEEP,
    TTLS,
    Billed,
    billed,
    pooled_shares,
    rank_correlation,
    reread,
    swept,
)
from danshari_bench.compactions import read_records
from danshari_bench.comparison.plan import LONG
from danshari_bench.comparison.run import commit

CLOSE = 0.05
"""Hit shares this close count as agreeing."""


@click.command("falsify")
@click.argument("paths", nargs=-1, required=True, type=PATHS)
@click.option("--compactions", type=PATHS, help="Folder of real compactions (records with before, summary, after).")
@click.option("--json", "json_out", type=PATHS, help="Write the result here; -: print it.")
def falsify_command(paths: tuple[Path, ...], compactions: Path | None, json_out: Path | None) -> None:
    """Try to prove the measure wrong, and say what these recordings cannot decide.

    The simulated cache is held against the cached tokens that recordings report; lost references against the look-ups
    that followed real compactions; the slope of SAR over OpenHands' masking window against published solve rates.
    """
    sessions, skipped = load_sessions(paths)
    bills = [b for b in each(billed, [s for s in sessions if s.usages], "billing") if b]
    rereads = each(reread, list(read_records([compactions])), "re-reads") if compactions else []
    long = [s for s in sessions if sum(1 for _ in cuts(s, named(s.format))) >= LONG]
    sweeps = each(swept, long, "sweeping")
    groups = {
        s.collection: [w for w, o in zip(sweeps, long, strict=True) if o.collection == s.collection] for s in long
    }
    groups = {"all": sweeps, **groups}
    found: dict[str, Any] = {
        "commit": commit(),
        "cache": {"rows": [asdict(b) for b in bills], **_agreement(bills)},
        "rereads": {
            **{k: sum(getattr(r, k) for r in rereads) for k in ("lost", "supported", "calls", "lookups")},
            "lost_looked_up": sum(r.lost_looked_up for r in rereads),
            "supported_looked_up": sum(r.supported_looked_up for r in rereads),
            "records": len(rereads),
            "rank_correlation": rank_correlation([(r.lost, r.lookups) for r in rereads]),
        },
        "sweep": {group: _slope(rows) for group, rows in groups.items()},
    }
    if json_out is not None and str(json_out) == "-":
        emit_json(found)
        return
    if json_out is not None:
        write_json(json_out, found)
    notes(skipped)
    _print(found, bills)


def _agreement(bills: list[Billed]) -> dict[str, Any]:
    """Count sessions without a compaction of their own whose shares agree, by time to live and for the better one."""
    whole = [b for b in bills if not b.compacted]
    close = {str(int(ttl)): sum(abs(b.simulated[ttl] - b.reported) <= CLOSE for b in whole) for ttl in TTLS}
    best = sum(min(abs(b.simulated[ttl] - b.reported) for ttl in TTLS) <= CLOSE for b in whole)
    return {"sessions": len(whole), "within_5_points": {**close, "better of the two": best}}


def _slope(rows: list[dict[int, list[float]]]) -> dict[str, Any]:
    sums = pooled_shares(rows)
    shares = {events: kept / n for events, (kept, n) in sums.items() if n}
    rank = rank_correlation([(shares[e], float(SWEEP[e])) for e in shares])
    return {
        "sessions": len(rows),
        "actions": sums[min(SWEEP)][1] if sums else 0,
        "sar": {str(e): round(v, 4) for e, v in shares.items()},
        "rank_correlation_with_solved": rank,
    }


def _print(found: dict[str, Any], bills: list[Billed]) -> None:
    shown = table("session", "requests", *(f"simulated {int(t)} s" for t in TTLS), "reported", "floor", left=1)
    for b in bills:
        cells = [f"{b.simulated[t]:.3f}" for t in TTLS]
        name = label(b.session, 26) + (" (compacted)" if b.compacted else "")
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
