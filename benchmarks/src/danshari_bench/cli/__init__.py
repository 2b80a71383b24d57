"""`danshari bench`: the measurements, one module per command or family of commands."""

from __future__ import annotations

import click

from danshari_bench.cli.ablation import ablation_command
from danshari_bench.cli.archive import archive_command
from danshari_bench.cli.cases import cases_command
from danshari_bench.cli.compactions import compactions_command
from danshari_bench.cli.falsify import falsify_command
from danshari_bench.cli.handover import handover_bench
from danshari_bench.cli.kits import kits_group
from danshari_bench.cli.peers import peers_group
from danshari_bench.cli.proxy import proxy_bench
from danshari_bench.cli.queries import queries_command
from danshari_bench.cli.sessions import sessions_command
from danshari_bench.cli.speed import speed_command
from danshari_bench.cli.traffic import traffic_command
from danshari_bench.cli.valid import conversations_command, valid_command


@click.group()
def bench() -> None:
    """Measure: what the agent needed next, whether it was still there, what that cost; peers; validity; speed."""


for command in (
    sessions_command,
    compactions_command,
    cases_command,
    conversations_command,
    handover_bench,
    falsify_command,
    kits_group,
    peers_group,
    valid_command,
    speed_command,
    archive_command,
    ablation_command,
    queries_command,
    traffic_command,
    proxy_bench,
):
    bench.add_command(command)
