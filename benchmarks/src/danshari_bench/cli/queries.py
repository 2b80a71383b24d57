"""`danshari bench queries`: measure how often archive searches of each kind find their original."""

from __future__ import annotations

from pathlib import Path

import click

from danshari import data
from danshari.cli.shared.common import PATH_TYPE, emit_json, load_sessions, make_table, out, print_notes, run_jobs
from danshari_bench.checks.queries import measure_queries


@click.command("queries")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--policy", default="repair", show_default=True, help="Policy whose archived originals are searched.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def queries_command(paths: tuple[Path, ...], policy: str, as_json: bool) -> None:
    """Search for every original that a policy archived: by identifier, path, command, number, words, Chinese.

    A search is the original's rarest atom of its kind, its path or its command; it counts if the original is among the
    first three of its session's passages.
    """
    data.load_policy(policy)
    sessions, skipped = load_sessions(paths)
    found = measure_queries(sessions, policy, run_jobs)
    if as_json:
        emit_json(found)
        return
    print_notes(skipped)
    shown = make_table("query", "n", "among three", "first", "by chance")
    for kind, row in found["kinds"].items():
        shown.add_row(kind, str(row["n"]), f"{row['three']:.2f}", f"{row['first']:.2f}", f"{row['chance']:.3f}")
    out.print(shown)
    out.print(f"{found['originals']:,} originals of {found['sessions']} sessions, policy {policy}", style="dim")
