"""`danshari bench traffic`: send recorded sessions through the proxy as live traffic."""

from __future__ import annotations

import statistics
import sys
from dataclasses import asdict
from pathlib import Path

import click

from danshari.cli.shared.common import PATH_TYPE, emit_json, load_sessions, out, print_notes, progress_bar
from danshari.formats import find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari_bench.load.traffic import TrafficResult, send_sessions


@click.command("traffic")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--policy", default="balanced", show_default=True, help="Preset or policy file.")
@click.option("--rounds", default=0, show_default=True, help="Only sessions with at least so many requests.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def traffic_command(paths: tuple[Path, ...], policy: str, rounds: int, as_json: bool) -> None:
    """Send every request of recorded sessions through the proxy to an upstream that checks and bills.

    The upstream refuses what a provider would refuse (rules that the recording itself broke aside) and simulates the
    prefix cache; its bill is held against `danshari replay`. Exit code 3 if a request was refused or danshari failed.
    """
    sessions, skipped = load_sessions(paths)
    chosen = [s for s in sessions if sum(1 for _ in request_boundaries(s, find_format(s.format))) >= max(rounds, 1)]
    with progress_bar() as bar:
        task = bar.add_task(
            "sending", total=sum(sum(1 for _ in request_boundaries(s, find_format(s.format))) for s in chosen)
        )
        found = send_sessions(chosen, policy, lambda n: bar.advance(task, n))
    if as_json:
        emit_json([asdict(f) for f in found])
    else:
        print_notes(skipped)
        _print(found, policy)
    if any(f.refused or f.faults for f in found):
        sys.exit(3)


def _print(found: list[TrafficResult], policy: str) -> None:
    """Print the totals, the difference to the replayed bill, and the first error of each session."""
    requests = sum(f.requests for f in found)
    units, replayed = sum(f.units for f in found), sum(f.replayed for f in found)
    apart = sorted(abs(f.units / f.replayed - 1) if f.replayed else 0.0 for f in found)
    spent = sorted(ms for f in found for ms in f.milliseconds)
    lines = [
        f"{len(found)} sessions, {requests:,} requests, policy {policy}: {sum(len(f.refused) for f in found)} refused, "
        f"{sum(len(f.faults) for f in found)} faults, {sum(len(f.untouched) for f in found)} passed through unread",
        f"billed by the upstream over worked out by replay: {units / replayed if replayed else 1:.4f} pooled; a "
        f"session is at most {100 * apart[-1]:.2f} % off ({sum(a > 0.01 for a in apart)} more than 1 %)",
        f"milliseconds a request, there and back, upstream's checking included: p50 {statistics.median(spent):.1f}, "
        f"p95 {spent[int(0.95 * len(spent))]:.1f}",
    ]
    for line in lines:
        out.print(line, highlight=False, soft_wrap=True)
    for f in found:
        for text in f.refused[:1] + f.faults[:1]:
            out.print(f"{f.session}: {text}", highlight=False, soft_wrap=True)
