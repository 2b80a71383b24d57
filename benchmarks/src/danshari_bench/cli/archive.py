"""`danshari bench archive`: measure the archive under load, kills and concurrent writers."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from danshari.cli.shared.common import PATH_TYPE, emit_json, make_table, out, progress_bar
from danshari_bench.load.archive import kill_writers, measure_archive, run_concurrent_writers


@click.command("archive")
@click.option("--entries", default=20_000, show_default=True, help="Originals of about 1.5 KB to put and search.")
@click.option("--kills", "killed", default=20, show_default=True, help="Times that a writer is killed.")
@click.option("--processes", default=8, show_default=True, help="Processes that write at once.")
@click.option("--folder", type=PATH_TYPE, help="Where to make the file. [default: a temporary folder]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def archive_command(entries: int, killed: int, processes: int, folder: Path | None, as_json: bool) -> None:
    """Put and search originals, kill writers at random moments, let many processes write at once.

    Exit code 3 if a committed original is missing or the file is not in order.
    """
    with tempfile.TemporaryDirectory() as made, progress_bar() as bar:
        task = bar.add_task("putting", total=entries)
        load = measure_archive(entries, folder or Path(made), lambda n: bar.advance(task, n))
    with progress_bar() as bar:
        task = bar.add_task("killing", total=killed)
        crashes = kill_writers(killed, lambda n: bar.advance(task, n))
    together = run_concurrent_writers(processes, 200)
    if as_json:
        emit_json({"load": load, "kills": crashes, "crowd": together})
    else:
        _print(load, crashes, together)
    if crashes["missing"] or crashes["problems"] or together["failed"] or together["problems"]:
        sys.exit(3)


def _print(load: dict, crashes: dict, together: dict) -> None:  # type: ignore[type-arg]
    """Print latencies of searches, and the results of the kill and concurrency tests."""
    shown = make_table("what", "n", "p50", "p95", "max", title=f"{load['originals']:,} originals")
    for name, label in (
        ("search_ms", "search"),
        ("search_session_ms", "search in one session"),
        ("get_ms", "get by id"),
    ):
        row = load[name]
        shown.add_row(label, str(row["n"]), *(f"{row[k]:.1f} ms" for k in ("p50", "p95", "max")))
    out.print(shown)
    found, asked = load["exact_found"]
    lines = [
        f"put: {load['puts_per_second']:,.0f} a second, indexing included; {load['text_mb']:,.0f} MB of text take "
        f"{load['disk_mb']:,.0f} MB on disk ({load['disk_mb'] / load['text_mb']:.1f} ×); found by its own name: "
        f"{found} of {asked}",
        f"killed {crashes['kills']} times: {crashes['committed']:,} committed originals, {crashes['missing']} missing, "
        f"{len(crashes['problems'])} problems",
        f"{together['processes']} processes at once: {together['written']:,} of {together['expected']:,} originals, "
        f"{together['failed']} failed, {len(together['problems'])} problems, {together['puts_per_second']:,.0f} puts a "
        "second",
    ]
    for line in lines:
        out.print(line, highlight=False, soft_wrap=True)
