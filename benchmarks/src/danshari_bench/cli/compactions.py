"""`danshari bench compactions`: compare methods with the summaries that agents really wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from danshari.cli.shared.common import PATH_TYPE, emit_json, make_table, out, run_jobs, write_json
from danshari.errors import ArgumentError, SessionError
from danshari.replay.atoms import ATOM_VARIANTS, atom_definition
from danshari_bench.compactions import (
    METHODS,
    CompactionMethod,
    CompactionRecord,
    MethodScore,
    RecordScorer,
    pool_scores,
    read_records,
)
from danshari_bench.comparison.contenders import import_contender_file
from danshari_bench.comparison.run import git_commit

ScoringJob = tuple[CompactionRecord, tuple[str, ...], tuple[float, ...], Any]


def _score_record(job: ScoringJob) -> list[MethodScore]:
    """Score every method on one record at every share of room."""
    record, names, shares, variant = job
    judge = RecordScorer(record, variant=variant)
    methods = {name: None if name == "own" else find_method(name) for name in names}
    return [judge.score(name, method, share=share) for share in shares for name, method in methods.items()]


def find_method(name: str) -> CompactionMethod:
    """Return a method by name, or load `FILE.py:FUNCTION` with the signature (before, max_chars) -> text.

    Raises ArgumentError if there is neither.
    """
    if name in METHODS:
        return METHODS[name]
    if ".py:" not in name or not Path(name.rpartition(":")[0]).is_file():
        raise ArgumentError(f"unknown method {name!r}; known: {', '.join(METHODS)}, or FILE.py:FUNCTION")
    module, function = import_contender_file(name)
    found: CompactionMethod = getattr(module, function)
    return found


@click.command("compactions")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--method", "methods", multiple=True, help="A method by name, or FILE.py:FUNCTION; repeat for several. "
              "[default: all built in]")  # fmt: skip
@click.option("--share", "shares", multiple=True, type=click.FloatRange(0.01, 2), default=(1.0, 0.5), show_default=True,
              help="Room, as a share of the recorded summary's characters.")  # fmt: skip
@click.option(
    "--atoms", type=click.Choice(ATOM_VARIANTS), default="strict", show_default=True, help="Definition of atoms."
)
@click.option("--json", "json_out", type=PATH_TYPE, help="Write the result here; -: print it.")
def compactions_command(
    paths: tuple[Path, ...], methods: tuple[str, ...], shares: tuple[float, ...], atoms: Any, json_out: Path | None
) -> None:
    """Score texts that replace a whole context: of what the agent used next, how much does the text still support?

    PATHS are records (JSON with `before`, `summary`, `after`) or folders of them. `own` is the recorded summary.
    """
    names = ["own", *(methods or METHODS)]
    for name in names[1:]:
        find_method(name)
    records = list(read_records(paths))
    if not records:
        raise SessionError(f"{', '.join(map(str, paths))}: no compaction record found")
    jobs: list[ScoringJob] = [(record, tuple(names), shares, atoms) for record in records]
    rows = pool_scores([scored for found in run_jobs(_score_record, jobs, "scoring") for scored in found])
    found = {"commit": git_commit(), "atoms": {"variant": atoms, "hash": atom_definition().hash}, "rows": rows}
    if json_out is not None and str(json_out) == "-":
        emit_json(found)
        return
    if json_out is not None:
        write_json(json_out, found)
    _print(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    """Print one row per method and share of room."""
    shown = make_table(
        "method", "room", "all", "range", "n", "locators", "range", "n", "every use", "user lines", "faults"
    )
    for row in rows:
        cells = []
        for what in ("all", "locators"):
            e = row[what]
            cells += [
                _format_figure(e["value"]),
                f"{_format_figure(e['low'])}–{_format_figure(e['high'])}",
                f"{e['n']:.0f}",
            ]
        kept, due = row["user_lines"]
        cells += [_format_figure(row["every"]["value"]), f"{kept / due:.2f}" if due else "–", str(row["faults"] or "")]
        shown.add_row(row["method"], f"{row['share']:g}", *cells)
    out.print(shown)
    out.print(
        "all: of the atoms the next calls use, that stood before and that nothing has shown since: share that the text "
        "supports by a line · locators: those in paths, patterns, queries, commands, old text · every use: "
        "whatever was shown since · user lines: the user's own lines verbatim in the text · range: 95 % over records",
        style="dim",
        highlight=False,
    )


def _format_figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
