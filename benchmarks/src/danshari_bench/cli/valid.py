"""`danshari bench valid` and `conversations`: check every view of recordings and of what the SDKs allow."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import click

from danshari import data
from danshari.cli.shared.common import PATH_TYPE, emit_json, load_sessions, make_table, out, print_notes, run_jobs
from danshari.formats import FORMATS
from danshari_bench.checks.validity import add_validity_counts, check_views
from danshari_bench.conversations.run import FAULTS, GENERATORS, Outcome, run_conversation


@click.command("valid")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--policy", "policies", multiple=True, help="Repeat for several. [default: all presets]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def valid_command(paths: tuple[Path, ...], policies: tuple[str, ...], as_json: bool) -> None:
    """Check every view of every session, cut at every round, in all three formats, under every policy.

    Exit code 3 if a view breaks a rule that the recording did not break, changes bytes without an edit, or on a fault.
    """
    sessions, skipped = load_sessions(paths)
    names = policies or data.policy_names()
    jobs = [(s, wire, name) for s in sessions for wire in FORMATS for name in names]
    rows = run_jobs(check_views, jobs, "checking")
    sums = [add_validity_counts(name, wire, rows) for name in names for wire in FORMATS]
    if as_json:
        emit_json({"sessions": len(sessions), "skipped": skipped, "rows": sums})
    else:
        print_notes(skipped)
        shown = make_table("policy", "format", "sessions", "views", "invalid", "unstable", "faults", "rewrites", left=2)
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


@click.command("conversations")
@click.option("--format", "formats", multiple=True, type=click.Choice(list(GENERATORS)), help="Repeat. [default: all]")
@click.option("-n", "count", default=1000, show_default=True, help="Conversations a format.")
@click.option("--seed", default=0, show_default=True, help="The first conversation's seed; the others follow.")
@click.option("--only", type=int, help="Run the conversation of this seed alone.")
@click.option("--jobs", default=1, show_default=True, help="Processes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def conversations_command(
    formats: tuple[str, ...], count: int, seed: int, only: int | None, jobs: int, as_json: bool
) -> None:
    """Grow conversations that hold every item the SDKs know, and judge every request.

    Exit code 3 if a request was invalid, crashed or unstable, or if text was lost.
    """
    seeds = range(seed, seed + count) if only is None else [only]
    work = [(number, wire) for wire in formats or GENERATORS for number in seeds]
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            outcomes = list(pool.map(run_conversation, work, chunksize=16))
    else:
        outcomes = [run_conversation(job) for job in work]
    (_print_outcomes_json if as_json else _print_outcomes)(outcomes)
    if any(o.faults for o in outcomes):
        sys.exit(3)


def _count_faults(outcomes: list[Outcome]) -> list[tuple[str, str, list[int]]]:
    """Return format, policy, and the conversations: all, then those with each kind of fault."""
    rows = []
    for wire, policy in sorted({(o.format, o.policy) for o in outcomes}):
        mine = [o for o in outcomes if (o.format, o.policy) == (wire, policy)]
        bad = [sum(any(f.kind == kind for f in o.faults) for o in mine) for kind in FAULTS]
        rows.append((wire, policy, [len(mine), *bad]))
    return rows


def _print_outcomes_json(outcomes: list[Outcome]) -> None:
    rows = [
        dict(zip(("format", "policy", "n", *FAULTS), (w, p, *c), strict=True)) for w, p, c in _count_faults(outcomes)
    ]
    emit_json({"rows": rows, "faulty": [asdict(o) for o in outcomes if o.faults]})


def _print_outcomes(outcomes: list[Outcome]) -> None:
    shown = make_table("format", "policy", "n", *FAULTS, left=2)
    for wire, policy, counts in _count_faults(outcomes):
        shown.add_row(wire, policy, *map(str, counts))
    out.print(shown)
    for o in outcomes:
        for fault in o.faults:
            line = f"seed {o.seed} · {o.format} · {o.policy} · {o.mode} · call {fault.call}: {fault.kind}: {fault.what}"
            out.print(line, style="dim", highlight=False, markup=False)
