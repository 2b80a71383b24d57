"""`danshari bench speed`: time cold and appended reads on growing histories."""

from __future__ import annotations

import click

from danshari.cli.shared.common import emit_json, make_table, out
from danshari_bench.load.speed import measure_speed


@click.command("speed")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--megabytes", default=3.0, show_default=True, help="Size of the history.")
def speed_command(as_json: bool, megabytes: float) -> None:
    """Time cold and appended reads on growing histories, as ratios to json.dumps of the same list."""
    rows = measure_speed(int(megabytes * 1e6))
    if as_json:
        emit_json(rows)
        return
    shown = make_table("what", "messages", "minimum", "median", "unit", "asked")
    for row in rows:
        shown.add_row(
            row["what"],
            str(row["messages"] or ""),
            f"{row['minimum']:.3f}",
            f"{row['median']:.3f}",
            row["unit"],
            row["asked"],
        )
    out.print(shown)
