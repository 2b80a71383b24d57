"""`danshari bench ablation`: what each part of a policy is worth."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.cli.common import PATHS, each, emit_json, load_sessions, notes, out, table
from danshari.replay.prompt_cache import VECTORS
from danshari_bench.comparison.ablation import ablate
from danshari_bench.comparison.plan import LONG


@click.command("ablation")
@click.argument("paths", nargs=-1, required=True, type=PATHS)
@click.option("--policy", default="balanced", show_default=True, help="Preset or policy file.")
@click.option(
    "--prices", "vectors", multiple=True, type=click.Choice(list(VECTORS)), help="Price vectors. [default: .10, .025]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def ablation_command(paths: tuple[Path, ...], policy: str, vectors: tuple[str, ...], as_json: bool) -> None:
    """Switch off one part of a policy at a time and play long sessions again.

    The variants are those of `data/ablation.toml` that differ from the policy. Exit code 3 if a variant failed.
    """
    sessions, skipped = load_sessions(paths)
    found = ablate(sessions, data.load_policy(policy), vectors or (".10", ".025"), each)
    if as_json:
        emit_json(found)
    else:
        notes([*skipped, *found["notes"]])
        _print(found)
    if any(row["faults"] for row in found["rows"]):
        sys.exit(3)


def _print(found: dict[str, Any]) -> None:
    vectors = list(dict.fromkeys(row["vector"] for row in found["rows"]))
    shown = table("variant", "what is off", "tokens", "SAR", "edits", "hot", *(f"$ {v}" for v in vectors))
    by: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        by.setdefault(row["variant"], []).append(row)
    for name, rows in by.items():
        first = rows[0]
        cells = [_cell(first, m, 3 if m == "hot" else 2) for m in ("tokens", "sar", "edits", "hot")]
        shown.add_row(name, first["about"], *cells, *(_cell(row, "dollars", 2) for row in rows))
    out.print(shown)
    out.print(
        f"{found['sessions']} sessions of {LONG} rounds and more, {found['tasks']} tasks; tokens, $: of doing nothing; "
        "in brackets the difference to the policy as it is (* : its 95 % interval, by task, leaves out zero)",
        style="dim", highlight=False,
    )  # fmt: skip


def _cell(row: dict[str, Any], measure: str, digits: int) -> str:
    change = row.get(f"{measure}_change")
    written = "–" if row[measure] is None else f"{row[measure]:.{digits}f}"
    if change is None or change["value"] is None:
        return written
    told = change["low"] is not None and change["high"] is not None
    sure = "*" if told and (change["low"] > 0 or change["high"] < 0) else ""
    return f"{written} ({change['value']:+.{digits + 1}f}{sure})"
