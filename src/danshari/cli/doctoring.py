"""`danshari doctor`: the five classic symptoms, with cause, evidence and the policy field to turn."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from danshari import data
from danshari.bench.diagnosis import diagnose
from danshari.cli.common import PATHS, emit_json, out
from danshari.cli.compacting import chosen


@click.command("doctor")
@click.argument("file", type=PATHS)
@click.option("--policy", default="balanced", show_default=True, help="Preset or policy file to diagnose.")
@click.option("--session", "number", default=1, show_default=True, help="Which session, if FILE holds several.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor_command(file: Path, policy: str, number: int, as_json: bool) -> None:
    """Diagnose the session in FILE under a policy: five symptoms, each measured.

    Failed attempts repeated, compactions that failed, edit points lost, recalls that found nothing, compactions too
    often. Exit code 3 if a compaction failed.
    """
    data.load_policy(policy)
    found = diagnose(chosen(file, number), policy)
    if as_json:
        emit_json([
            {"symptom": s.name, "seen": s.seen, "of": s.of, "cause": s.cause, "turn": s.turn,
             "evidence": list(s.evidence)}
            for s in found
        ])  # fmt: skip
    for s in () if as_json else found:
        mark = "[red]✗[/red]" if s.present else "[green]✓[/green]"
        out.print(f"{mark} {s.name}: {s.seen} of {s.of}", highlight=False)
        if s.present:
            out.print(f"    cause: {s.cause}", highlight=False, markup=False, soft_wrap=True)
            for line in s.evidence:
                out.print(f"    seen:  {line}", highlight=False, markup=False, soft_wrap=True)
            out.print(f"    turn:  {s.turn}", highlight=False, markup=False, soft_wrap=True)
    if found[1].present:
        sys.exit(3)
