"""`danshari bench valid`: check every view against its provider's rules."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from danshari import data
from danshari.cli.shared.common import PATH_TYPE, emit_json, load_sessions, make_table, out, print_notes, run_jobs
from danshari.formats import FORMATS
from danshari_bench.checks.validity import add_validity_counts, check_views


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
