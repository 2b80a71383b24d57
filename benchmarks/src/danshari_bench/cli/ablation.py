"""`danshari bench ablation`: measure what each part of a policy contributes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.cli.shared.common import PATH_TYPE, emit_json, load_sessions, make_table, out, print_notes, run_jobs
from danshari.replay.prompt_cache import PRICE_VECTORS
from danshari_bench.comparison.ablation import ablate
from danshari_bench.comparison.plan import LONG_ROUNDS


@click.command("ablation")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--policy", default="balanced", show_default=True, help="Preset or policy file.")
@click.option(
    "--prices",
    "vectors",
    multiple=True,
    type=click.Choice(list(PRICE_VECTORS)),
    help="Price vectors. [default: .10, .025]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ablation_command(paths: tuple[Path, ...], policy: str, vectors: tuple[str, ...], as_json: bool) -> None:
    """Switch off one part of a policy at a time and play long sessions again.

    The variants are those of `data/ablation.toml` that differ from the policy. Exit code 3 if a variant failed.
    """
    sessions, skipped = load_sessions(paths)
    found = ablate(sessions, data.load_policy(policy), vectors or (".10", ".025"), run_jobs)
    if as_json:
        emit_json(found)
    else:
        print_notes([*skipped, *found["notes"]])
        _print(found)
    if any(row["faults"] for row in found["rows"]):
        sys.exit(3)


def _print(found: dict[str, Any]) -> None:
    """Print one row per variant, with its difference to the unchanged policy."""
    vectors = list(dict.fromkeys(row["vector"] for row in found["rows"]))
    shown = make_table("variant", "what is off", "tokens", "SAR", "edits", "hot", *(f"$ {v}" for v in vectors))
    by: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        by.setdefault(row["variant"], []).append(row)
    for name, rows in by.items():
        first = rows[0]
        cells = [_format_cell(first, m, 3 if m == "hot" else 2) for m in ("tokens", "sar", "edits", "hot")]
        shown.add_row(name, first["about"], *cells, *(_format_cell(row, "dollars", 2) for row in rows))
    out.print(shown)
    out.print(
        f"{found['sessions']} sessions of {LONG_ROUNDS} rounds and more, {found['tasks']} tasks; "
        "tokens, $: of doing nothing; "
        "in brackets the difference to the policy as it is (* : its 95 % interval, by task, leaves out zero)",
        style="dim",
        highlight=False,
    )


def _format_cell(row: dict[str, Any], measure: str, digits: int) -> str:
    """Format a measure with its change; `*` if the 95 % interval of the change excludes zero."""
    change = row.get(f"{measure}_change")
    written = "–" if row[measure] is None else f"{row[measure]:.{digits}f}"
    if change is None or change["value"] is None:
        return written
    told = change["low"] is not None and change["high"] is not None
    sure = "*" if told and (change["low"] > 0 or change["high"] < 0) else ""
    return f"{written} ({change['value']:+.{digits + 1}f}{sure})"
