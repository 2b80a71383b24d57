"""`danshari bench kits`: run other projects' public test kits, each in its own environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from danshari.cli.shared.common import PATH_TYPE, emit_json, err, make_table, out
from danshari_bench.external_suites import KITS, find_kit, run_kit


@click.group("kits")
def kits_group() -> None:
    """Run other projects' public test kits against danshari."""


@kits_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def kits_list_command(as_json: bool) -> None:
    """List the kits, and whether their environments stand."""
    rows = [{"name": k.name, "about": k.about, "wants": k.wants, "installed": k.environment.ready} for k in KITS]
    if as_json:
        emit_json(rows)
        return
    shown = make_table("kit", "what it checks", "needs", "installed", left=4)
    for k in KITS:
        shown.add_row(k.name, k.about, k.wants or "nothing", "yes" if k.environment.ready else "no")
    out.print(shown)


@kits_group.command("install")
@click.argument("names", nargs=-1)
def kits_install_command(names: tuple[str, ...]) -> None:
    """Make the environments of NAMES (all kits without any)."""
    for row in [find_kit(name) for name in names] or KITS:
        if not row.environment.ready:
            with err.status(f"{row.name}: installing {', '.join(row.requires)}"):
                row.environment.install()
        err.print(f"{row.name}: ready", highlight=False)


@kits_group.command("run")
@click.argument("name")
@click.option(
    "--cases", type=PATH_TYPE, help="What the kit is fed with; `danshari bench kits list` says what it needs."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def kits_run_command(name: str, cases: Path | None, as_json: bool) -> None:
    """Run the kit NAME and print what it says."""
    found: dict[str, Any] = run_kit(find_kit(name), cases)
    if as_json:
        emit_json(found)
    elif "broken" in found:
        raise click.ClickException(f"{name}: {found['broken']}")
    else:
        out.print(json.dumps(found, indent=1, ensure_ascii=False), highlight=False)
