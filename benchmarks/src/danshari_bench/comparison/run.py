"""Run a whole comparison: survey sessions, choose decoys, play all cells in parallel, build the rows.

The result is one JSON value. Figures that depend on the machine are only under `timing`, so a
second run gives the same bytes elsewhere.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import danshari
from danshari.errors import SessionError
from danshari.formats import find_format as format_named
from danshari.replay.atoms import AtomVariant, atom_definition
from danshari.replay.prompt_cache import PRICE_VECTORS, request_boundaries
from danshari.sessions import RecordedSession
from danshari_bench.comparison.cache import hash_json
from danshari_bench.comparison.contenders import find_contender
from danshari_bench.comparison.plan import (
    ANY_VECTOR,
    PROMPT_FLOOR,
    CellResult,
    CellsJob,
    Study,
    StudyCell,
    choose_decoys,
    common_atoms,
    convert_session,
    foreign_atoms,
    list_cells,
    play_cells,
    session_cells,
    session_key,
    survey_session,
)
from danshari_bench.comparison.summary import (
    StudyResults,
    add_regret,
    bounds_rows,
    build_rows,
    session_groups,
)

COMPARISON_FORMAT = 1
"""Format number of the result."""
JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")


class JobRunner(Protocol):
    """Runs jobs in parallel, keeps their order and reports progress."""

    def __call__(self, work: Callable[[JobT], ResultT], jobs: Sequence[JobT], description: str) -> list[ResultT]:
        """Run `work` on every job."""
        ...


def compare_contenders(
    sessions: Sequence[RecordedSession],
    names: Sequence[str],
    *,
    vectors: Sequence[str] = tuple(PRICE_VECTORS),
    budgets: Sequence[float] = (),
    variant: AtomVariant = "strict",
    skipped: Sequence[str] = (),
    each: JobRunner,
) -> dict[str, Any]:
    """Compare contenders on sessions and return the result. Raises SessionError if no session has a request."""
    started = time.perf_counter()
    kept, notes = sessions_with_requests(sessions, skipped)
    if not kept:
        raise SessionError("no session with a request to compare: " + "; ".join(notes[-5:]))
    study = Study(sessions=kept, cells=list_cells(names, vectors, budgets), vectors=tuple(vectors), variant=variant)
    none: frozenset[str] = frozenset()
    surveys = each(survey_session, [(s, variant, none) for s in kept], "surveying")
    study.common = common_atoms(kept, surveys)
    if study.common:
        surveys = each(survey_session, [(s, variant, study.common) for s in kept], "surveying without common atoms")
    study.surveys = surveys
    study.decoys = choose_decoys(kept, surveys)
    surveyed = time.perf_counter()
    results = _play_all_cells(study, each)
    played = time.perf_counter()
    rows, bounds = build_rows(results), bounds_rows(study)
    add_regret(rows, bounds)
    return {
        "format": COMPARISON_FORMAT,
        "version": danshari.__version__,
        "commit": git_commit(),
        "atoms": {"variant": variant, "version": atom_definition().version, "hash": atom_definition().hash,
                  "common": len(study.common)},
        "floor_tokens": PROMPT_FLOOR,
        "contenders": [_describe_contender(name) for name in dict.fromkeys(["off", *names])],
        "sessions": [_describe_session(s, survey) for s, survey in zip(kept, study.surveys, strict=True)],
        "notes": notes,
        "bounds": bounds,
        "rows": rows,
        "digests": {name: _contender_digest(results, name) for name in dict.fromkeys(["off", *names])},
        "timing": {
            "survey_seconds": round(surveyed - started, 1),
            "play_seconds": round(played - surveyed, 1),
            "table_seconds": round(time.perf_counter() - played, 1),
            "milliseconds": _median_milliseconds(results),
        },
    }  # fmt: skip


def sessions_with_requests(
    sessions: Sequence[RecordedSession], skipped: Sequence[str]
) -> tuple[list[RecordedSession], list[str]]:
    """Return the sessions that contain a request, and notes on those left out."""
    kept, notes = [], list(skipped)
    for session in sessions:
        if any(True for _ in request_boundaries(session, format_named(session.format))):
            kept.append(session)
        else:
            notes.append(f"{session.id}: no request in it (no assistant message); left out")
    return kept, notes


def _play_all_cells(study: Study, each: JobRunner) -> StudyResults:
    """Play all cells, longest sessions first, and the `off` contender once per wire format."""
    formats = {find_contender(c.contender).format for c in study.cells} - {""}
    jobs: list[tuple[int, CellsJob]] = []
    for n, (session, survey) in enumerate(zip(study.sessions, study.surveys, strict=True)):
        foreign = foreign_atoms(study, n)
        jobs.append((n, (session, survey.key, session_cells(study, n), study.common, foreign, study.variant)))
    jobs.sort(key=lambda job: (-sum(study.surveys[job[0]].tokens), job[0]))
    played = each(play_cells, [job for _, job in jobs], "playing")
    found: list[dict[StudyCell, CellResult]] = [{} for _ in study.sessions]
    for (n, _), cells in zip(jobs, played, strict=True):
        found[n] = dict(zip(session_cells(study, n), cells, strict=True))
    off = StudyCell(contender="off", vector=ANY_VECTOR)
    offs = [{session.format: found[n][off]} for n, session in enumerate(study.sessions)]
    for wire in sorted(formats):
        others = [n for n, session in enumerate(study.sessions) if session.format != wire]
        more = each(_play_off, [(study.sessions[n], wire) for n in others], f"doing nothing in {wire}")
        for n, result in zip(others, more, strict=True):
            offs[n][wire] = result
    return StudyResults(study=study, found=found, offs=offs)


def _play_off(job: tuple[RecordedSession, str]) -> CellResult:
    """Play the `off` contender on one session converted to a wire format."""
    session, wire = job
    made = convert_session(session, wire)
    cells = (StudyCell(contender="off", vector=ANY_VECTOR),)
    return play_cells((made, session_key(made), cells, frozenset(), frozenset(), "strict"))[0]


def _describe_contender(name: str) -> dict[str, Any]:
    made = find_contender(name)
    return {
        "name": name,
        "about": made.about,
        "version": made.version[:60] if "\n" not in made.version else "own",
        "format": made.format or "as recorded",
        "told_prices": made.priced,
        "heeds_budget": made.budgeted,
    }


def _describe_session(session: RecordedSession, survey: Any) -> dict[str, Any]:
    return {
        "id": session.id,
        "collection": session.collection,
        "task": session.task,
        "repository": session.repository,
        "outcome": session.outcome,
        "rounds": survey.rounds,
        "rounds_with_calls": survey.actions,
        "tokens": round(survey.tokens[-1]) if survey.tokens else 0,
        "references": len(survey.events),
    }


def _contender_digest(results: StudyResults, name: str) -> str:
    return hash_json([f["digest"] for cells in results.found for c, f in cells.items() if c.contender == name])[:12]


def _median_milliseconds(results: StudyResults) -> dict[str, dict[str, float]]:
    """Return, per contender, the median milliseconds of a session's first request and of later ones."""
    long = next(iter(session_groups(results.study).values()))
    made = {}
    for cell in results.study.cells:
        if cell.budget is None and not cell.idle and cell.contender not in made:
            spent = [results.found[n][cell]["milliseconds"] for n in long]
            made[cell.contender] = {
                "first": round(sorted(a for a, _ in spent)[len(spent) // 2], 3),
                "appended": round(sorted(b for _, b in spent)[len(spent) // 2], 3),
            }
    return made


def git_commit() -> str:
    """Return the git commit of this checkout, with `-dirty` if it was changed, or the version if there is none."""
    root = Path(danshari.__file__).parent
    try:
        said = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=10"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return danshari.__version__
    return said.stdout.strip()
