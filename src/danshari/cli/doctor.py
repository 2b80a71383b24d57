"""`danshari doctor`: check a session for five symptoms; print cause, evidence and the field to change."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.text import Text

from danshari import data
from danshari.archive.location import data_home, open_archive
from danshari.archive.maintenance import last_turn
from danshari.cli.shared.common import PATH_TYPE, emit_json, out, read_one_session
from danshari.errors import SessionError
from danshari.pipeline.persist import load_stored_session
from danshari.replay.diagnosis import Symptom, diagnose, diagnose_stored


@click.command("doctor")
@click.argument("source", metavar="FILE|SESSION")
@click.option("--policy", default="balanced", show_default=True, help="Preset or policy file to diagnose.")
@click.option("--session", "number", default=1, show_default=True, help="Which session, if FILE holds several.")
@click.option("--archive", "path", type=PATH_TYPE, help="Archive that holds SESSION. [default: the user's]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(source: str, policy: str, number: int, path: Path | None, as_json: bool) -> None:
    """Diagnose the recorded session in FILE under a policy, or SESSION as the archive stored it.

    Failed attempts repeated, compactions that failed, edit points lost, recalls that found nothing, compactions too
    often. A stored session has no messages: what was asked for again stands for lost edit points and attempts.
    Exit code 3 if a compaction failed.
    """
    data.load_policy(policy)
    found = (
        diagnose(read_one_session(Path(source), number), policy)
        if Path(source).exists()
        else _diagnose_archived(source, path)
    )
    if as_json:
        emit_json([
            {"symptom": s.name, "seen": s.seen, "of": s.of, "cause": s.cause, "turn": s.turn,
             "evidence": list(s.evidence)}
            for s in found
        ])  # fmt: skip
    for s in () if as_json else found:
        mark = Text("✗", style="red") if s.present else Text("✓", style="green")
        out.print(Text.assemble(mark, f" {s.name}: {s.seen} of {s.of}"), highlight=False)
        if s.present:
            out.print(f"    cause: {s.cause}", highlight=False, soft_wrap=True)
            for line in s.evidence:
                out.print(f"    seen:  {line}", highlight=False, soft_wrap=True)
            out.print(f"    turn:  {s.turn}", highlight=False, soft_wrap=True)
    if any(s.present and s.name == "compaction fails" for s in found):
        sys.exit(3)


def _diagnose_archived(name: str, path: Path | None) -> list[Symptom]:
    """Diagnose a session stored in the archive; raises SessionError if there is none of that name."""
    where = path if path is not None else data_home() / "archive.db"
    if not where.exists():
        raise SessionError(f"{name}: no such file, and no archive at {where} that could hold such a session")
    with open_archive(where) as archive:
        session = load_stored_session(archive, name)
        if session is None:
            known = [row["session"] for row in archive.sessions()][:5]
            raise SessionError(f"{name}: no such file, and no such session in {where}; newest there: "
                               f"{', '.join(known) or 'none'}")  # fmt: skip
        return diagnose_stored(session, max(last_turn(archive, name), session.commit_turn, 1))
