"""`danshari bench peers`: list, install and remove the environments of other projects' compactors."""

from __future__ import annotations

import time

import click

from danshari.cli.shared.common import emit_json, err, make_table, out
from danshari_bench.peers import PEERS, find_peer
from danshari_bench.peers.environment import Environment


@click.group("peers")
def peers_group() -> None:
    """List peers, and make or remove their environments."""


@peers_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def peers_list_command(as_json: bool) -> None:
    """List the peers that comparisons know, and whether their environments stand."""
    rows = [
        {
            "name": p.name,
            "about": p.about,
            "requires": list(p.requires),
            "installed": Environment(p.environment, p.requires).ready,
            "budget": p.budgeted,
            "needs_model": p.needs_model,
        }
        for p in PEERS
    ]
    if as_json:
        emit_json(rows)
        return
    shown = make_table("peer", "what it does", "requires", "installed", left=4)
    for row in rows:
        requires = row["requires"]
        assert isinstance(requires, list)
        shown.add_row(str(row["name"]), str(row["about"]), requires[0], "yes" if row["installed"] else "no")
    out.print(shown)


@peers_group.command("install")
@click.argument("names", nargs=-1)
def peers_install_command(names: tuple[str, ...]) -> None:
    """Make the environments of NAMES (all peers without any); each is one virtual environment with pinned packages."""
    rows = [find_peer(name) for name in names] or list(PEERS)
    for module in dict.fromkeys(p.module for p in rows):
        row = next(p for p in rows if p.module == module)
        environment = Environment(row.environment, row.requires)
        if environment.ready:
            err.print(f"{module}: already there", highlight=False)
            continue
        started = time.monotonic()
        with err.status(f"{module}: installing {', '.join(row.requires)}"):
            environment.install()
        err.print(f"{module}: installed in {time.monotonic() - started:.0f} s", highlight=False)


@peers_group.command("remove")
@click.argument("names", nargs=-1, required=True)
def peers_remove_command(names: tuple[str, ...]) -> None:
    """Delete the environments of NAMES."""
    for name in names:
        row = find_peer(name)
        Environment(row.environment, row.requires).remove()
        err.print(f"{row.environment}: removed", highlight=False)
