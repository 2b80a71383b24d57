"""`danshari bench compactions`: the head-to-head with the summaries an agent really wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from danshari.cli.common import PATHS, each, emit_json, out, table, write_json
from danshari.errors import ArgumentError, SessionError
from danshari.replay.atoms import VARIANTS, definition
from danshari_bench.compactions import (
    METHODS,
    Judge,
    Method,
    Record,
    Scored,
    read_records,
    summed,
)
from danshari_bench.comparison.contenders import loaded
from danshari_bench.comparison.run import commit

Job = tuple[Record, tuple[str, ...], tuple[float, ...], Any]


def _work(job: Job) -> list[Scored]:
    record, names, shares, variant = job
    judge = Judge(record, variant=variant)
    methods = {name: None if name == "own" else method_named(name) for name in names}
    return [judge.score(name, method, share=share) for share in shares for name, method in methods.items()]


def method_named(name: str) -> Method:
    """Find a method by name, or load `FILE.py:FUNCTION` with the signature (before, max_chars) -> text."""
    if name in METHODS:
        return METHODS[name]
    if ".py:" not in name or not Path(name.rpartition(":")[0]).is_file():
        raise ArgumentError(f"unknown method {name!r}; known: {', '.join(METHODS)}, or FILE.py:FUNCTION")
    module, function = loaded(name)
    found: Method = getattr(module, function)
    return found


@click.command("compactions")
@click.argument("paths", nargs=-1, required=True, type=PATHS)
@click.option("--method", "methods", multiple=True, help="A method by name, or FILE.py:FUNCTION; repeat for several. "
              "[default: all built in]")  # fmt: skip
@click.option("--share", "shares", multiple=True, type=click.FloatRange(0.01, 2), default=(1.0, 0.5), show_default=True,
              help="Room, as a share of the recorded summary's characters.")  # fmt: skip
@click.option("--atoms", type=click.Choice(VARIANTS), default="strict", show_default=True, help="Definition of atoms.")
@click.option("--json", "json_out", type=PATHS, help="Write the result here; -: print it.")
def compactions_command(
    paths: tuple[Path, ...], methods: tuple[str, ...], shares: tuple[float, ...], atoms: Any, json_out: Path | None
) -> None:
    """Score texts that replace a whole context: of what the agent used next, how much does the text still support?

    PATHS are records (JSON with `before`, `summary`, `after`) or folders of them. `own` is the recorded summary.
    """
    names = ["own", *(methods or METHODS)]
    for name in names[1:]:
        method_named(name)
    records = list(read_records(paths))
    if not records:
        raise SessionError(f"{', '.join(map(str, paths))}: no compaction record found")
    jobs: list[Job] = [(record, tuple(names), shares, atoms) for record in records]
    rows = summed([scored for found in each(_work, jobs, "scoring") for scored in found])
    found = {"commit": commit(), "atoms": {"variant": atoms, "hash": definition().hash}, "rows": rows}
    if json_out is not None and str(json_out) == "-":
        emit_json(found)
        return
    if json_out is not None:
        write_json(json_out, found)
    _print(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    shown = table("method", "room", "all", "range", "n", "locators", "range", "n", "every use", "user lines", "faults")
    for row in rows:
        cells = []
        for what in ("all", "locators"):
            e = row[what]
            cells += [_figure(e["value"]), f"{_figure(e['low'])}–{_figure(e['high'])}", f"{e['n']:.0f}"]
        kept, due = row["user_lines"]
        cells += [_figure(row["every"]["value"]), f"{kept / due:.2f}" if due else "–", str(row["faults"] or "")]
        shown.add_row(row["method"], f"{row['share']:g}", *cells)
    out.print(shown)
    out.print(
        "all: of the atoms the next calls use, that stood before and that nothing has shown since: share that the text "
        "supports by a line · locators: those in paths, patterns, queries, commands, old text · every use: "
        "whatever was shown since · user lines: the user's own lines verbatim in the text · range: 95 % over records",
        style="dim",
        highlight=False,
    )


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
