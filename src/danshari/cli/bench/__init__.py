"""`danshari bench`: one file a family of measurements."""

from __future__ import annotations

import click

from danshari.cli.bench.ablation import ablation_command
from danshari.cli.bench.archive import archive_command
from danshari.cli.bench.cases import cases_command
from danshari.cli.bench.compactions import compactions_command
from danshari.cli.bench.falsify import falsify_command
from danshari.cli.bench.handover import handover_bench
from danshari.cli.bench.kits import kits_group
from danshari.cli.bench.peers import peers_group
from danshari.cli.bench.proxy import proxy_bench
from danshari.cli.bench.queries import queries_command
from danshari.cli.bench.sessions import sessions_command
from danshari.cli.bench.speed import speed_command
from danshari.cli.bench.traffic import traffic_command
from danshari.cli.bench.valid import valid_command


@click.group()
def bench() -> None:
    """Measure: what the agent needed next, whether it was still there, what that cost; peers; validity; speed."""


for command in (
    sessions_command,
    compactions_command,
    cases_command,
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
