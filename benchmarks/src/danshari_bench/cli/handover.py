"""`danshari bench handover`: measure what survives in one hand-over, and in five in a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from danshari.cli.shared.common import (
    PATH_TYPE,
    emit_json,
    load_sessions,
    make_table,
    out,
    print_notes,
    run_jobs,
    write_json,
)
from danshari.sessions import RecordedSession
from danshari_bench.checks.generations import GenerationResult, run_generations
from danshari_bench.checks.handover import check_handovers, pool_handover_checks
from danshari_bench.comparison.run import git_commit

_MIN_MESSAGES = 20
_MUST_BE_ZERO = ("invented", "stale")
_LABELS = {
    "rules": "user words and rules, lines",
    "rule_views": "views that hold all of them",
    "files_named": "files written, recall",
    "files_right": "files written, precision",
    "failing_test": "failing test and message",
    "test_status": "last test status line",
    "attempts": "failed attempts",
    "todo": "open todo items",
    "invented": "invented names (must be 0)",
    "stale": "overwritten text, unmarked (must be 0)",
}


@click.command("handover")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE)
@click.option("--policy", default="balanced", show_default=True, help="Preset whose hand-over is looked at.")
@click.option("--documents", default=2, show_default=True, help="Hand-overs made of each session.")
@click.option("--longest", default=10, show_default=True, help="Sessions, longest first, that live through five "
              "compactions in a row; 0: none.")  # fmt: skip
@click.option("--json", "json_out", type=PATH_TYPE, help="Write the result here; -: print it.")
def handover_bench(paths: tuple[Path, ...], policy: str, documents: int, longest: int, json_out: Path | None) -> None:
    """Measure what survives in hand-overs of recorded sessions; only the newest round is kept beside them.

    Then run the longest sessions through five major compactions with 40 added statements. What was not
    taken back must be in the document or one recall away, what was taken back must be gone, and the
    document must not grow.
    """
    sessions, skipped = load_sessions(paths)
    print_notes(skipped)
    jobs = [(s, policy, documents) for s in sessions if len(s.messages) > _MIN_MESSAGES]
    found: dict[str, Any] = {
        "commit": git_commit(),
        "policy": policy,
        **pool_handover_checks(run_jobs(check_handovers, jobs, "handing over")),
    }
    chosen = sorted(sessions, key=_message_characters, reverse=True)[:longest]
    lived = run_jobs(run_generations, [(s, way) for s in chosen for way in ("kept", "bare")], "five in a row")
    found["generations"] = [_generation_row(x) for x in lived]
    if json_out is not None and str(json_out) == "-":
        emit_json(found)
        return
    if json_out is not None:
        write_json(json_out, found)
    _print(found, lived)


def _message_characters(session: RecordedSession) -> int:
    return len(json.dumps(session.messages, default=str))


def _generation_row(x: GenerationResult) -> dict[str, Any]:
    return {
        "session": x.session, "way": x.way, "sizes": x.sizes, "growth": round(x.growth, 3), "words": x.words,
        "standing": x.standing, "recalled": x.recalled, "gone": x.gone, "faults": x.faults,
    }  # fmt: skip


def _print(found: dict[str, Any], lived: list[GenerationResult]) -> None:
    """Print one row per measure, then the document sizes and the results of five in a row."""
    shown = make_table(
        "what", "kept", "of", "share", title=f"{found['documents']} hand-overs of {found['sessions']} sessions"
    )
    for name, label in _LABELS.items():
        if (pair := found["measures"].get(name)) is not None:
            kept, n = pair["kept"], pair["n"]
            share = "–" if not n else f"{kept:.0f}" if name in _MUST_BE_ZERO else f"{kept / n:.3f}"
            shown.add_row(label, f"{kept:.0f}", f"{n:.0f}", share)
    out.print(shown)
    size = found["characters"]
    if size:
        out.print(
            f"characters: median {size['median']:,}, largest {size['largest']:,} · points lost {found['lost']} · "
            f"invalid views {found['invalid']} · faults {len(found['faults'])}",
            style="dim", highlight=False,
        )  # fmt: skip
    if lived:
        _print_generations(lived)


def _print_generations(lived: list[GenerationResult]) -> None:
    """Print one row per session that went through five compactions."""
    shown = make_table("session", "way", "first", "fifth", "growth", "words", "stands", "+ recall", "of", "gone", "of",
                  title="five in a row, 40 statements put in", left=2)  # fmt: skip
    for x in lived:
        if x.sizes:
            shown.add_row(
                x.session[:18], x.way, f"{x.sizes[0]:,}", f"{x.sizes[-1]:,}", f"{x.growth:.2f}",
                f"{x.words[0] / max(x.words[1], 1):.3f}", str(x.standing[0]), str(x.standing[0] + x.recalled),
                str(x.standing[1]), str(x.gone[0]), str(x.gone[1]),
            )  # fmt: skip
    out.print(shown)
    out.print(
        "kept: one compactor with its archive · bare: a new one each time that finds only its own document · "
        "words: rules and user words verbatim · gone: statements taken back",
        style="dim",
        highlight=False,
    )
