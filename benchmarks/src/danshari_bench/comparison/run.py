"""The whole comparison: survey, decoys, cells over the cores, rows; the result is one JSON value.

What depends on the machine stands under `timing` and nowhere else, so that a second run gives the same bytes.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import danshari
from danshari.errors import SessionError
from danshari.formats import named as format_named
from danshari.replay.atoms import Variant, definition
from danshari.replay.prompt_cache import VECTORS, cuts
from danshari.sessions import Recorded
from danshari_bench.comparison.cache import digest
from danshari_bench.comparison.contenders import named
from danshari_bench.comparison.plan import (
    ALL,
    FLOOR,
    Cell,
    Found,
    Job,
    Study,
    cells_for,
    cells_of,
    choose_decoys,
    common_atoms,
    foreign_atoms,
    in_format,
    play_cells,
    session_key,
    survey_of,
)
from danshari_bench.comparison.summary import (
    Results,
    add_regret,
    bounds_rows,
    groups_of,
    rows_of,
)

FORMAT = 1
"""Format number of the result."""
T = TypeVar("T")
R = TypeVar("R")


class Each(Protocol):
    """Runs jobs over the cores, in order, telling how far it is."""

    def __call__(self, work: Callable[[T], R], jobs: Sequence[T], description: str) -> list[R]:
        """Run `work` on every job."""
        ...


def compare(
    sessions: Sequence[Recorded],
    names: Sequence[str],
    *,
    vectors: Sequence[str] = tuple(VECTORS),
    budgets: Sequence[float] = (),
    variant: Variant = "strict",
    skipped: Sequence[str] = (),
    each: Each,
) -> dict[str, Any]:
    """Compare contenders on sessions."""
    started = time.perf_counter()
    kept, notes = usable(sessions, skipped)
    if not kept:
        raise SessionError("no session with a request to compare: " + "; ".join(notes[-5:]))
    study = Study(sessions=kept, cells=cells_of(names, vectors, budgets), vectors=tuple(vectors), variant=variant)
    none: frozenset[str] = frozenset()
    surveys = each(survey_of, [(s, variant, none) for s in kept], "surveying")
    study.common = common_atoms(kept, surveys)
    if study.common:
        surveys = each(survey_of, [(s, variant, study.common) for s in kept], "surveying without common atoms")
    study.surveys = surveys
    study.decoys = choose_decoys(kept, surveys)
    surveyed = time.perf_counter()
    results = _play(study, each)
    played = time.perf_counter()
    rows, bounds = rows_of(results), bounds_rows(study)
    add_regret(rows, bounds)
    return {
        "format": FORMAT,
        "version": danshari.__version__,
        "commit": commit(),
        "atoms": {"variant": variant, "version": definition().version, "hash": definition().hash,
                  "common": len(study.common)},
        "floor_tokens": FLOOR,
        "contenders": [_contender(name) for name in dict.fromkeys(["off", *names])],
        "sessions": [_session(s, survey) for s, survey in zip(kept, study.surveys, strict=True)],
        "notes": notes,
        "bounds": bounds,
        "rows": rows,
        "digests": {name: _digest(results, name) for name in dict.fromkeys(["off", *names])},
        "timing": {
            "survey_seconds": round(surveyed - started, 1),
            "play_seconds": round(played - surveyed, 1),
            "table_seconds": round(time.perf_counter() - played, 1),
            "milliseconds": _milliseconds(results),
        },
    }  # fmt: skip


def usable(sessions: Sequence[Recorded], skipped: Sequence[str]) -> tuple[list[Recorded], list[str]]:
    """Leave out what has no request at all, and say so."""
    kept, notes = [], list(skipped)
    for session in sessions:
        if any(True for _ in cuts(session, format_named(session.format))):
            kept.append(session)
        else:
            notes.append(f"{session.id}: no request in it (no assistant message); left out")
    return kept, notes


def _play(study: Study, each: Each) -> Results:
    """Play all cells, the longest sessions first, and doing nothing once per wire format."""
    formats = {named(c.contender).format for c in study.cells} - {""}
    jobs: list[tuple[int, Job]] = []
    for n, (session, survey) in enumerate(zip(study.sessions, study.surveys, strict=True)):
        foreign = foreign_atoms(study, n)
        jobs.append((n, (session, survey.key, cells_for(study, n), study.common, foreign, study.variant)))
    jobs.sort(key=lambda job: (-sum(study.surveys[job[0]].tokens), job[0]))
    played = each(play_cells, [job for _, job in jobs], "playing")
    found: list[dict[Cell, Found]] = [{} for _ in study.sessions]
    for (n, _), cells in zip(jobs, played, strict=True):
        found[n] = dict(zip(cells_for(study, n), cells, strict=True))
    off = Cell(contender="off", vector=ALL)
    offs = [{session.format: found[n][off]} for n, session in enumerate(study.sessions)]
    for wire in sorted(formats):
        others = [n for n, session in enumerate(study.sessions) if session.format != wire]
        more = each(_untouched, [(study.sessions[n], wire) for n in others], f"doing nothing in {wire}")
        for n, result in zip(others, more, strict=True):
            offs[n][wire] = result
    return Results(study=study, found=found, offs=offs)


def _untouched(job: tuple[Recorded, str]) -> Found:
    session, wire = job
    made = in_format(session, wire)
    cells = (Cell(contender="off", vector=ALL),)
    return play_cells((made, session_key(made), cells, frozenset(), frozenset(), "strict"))[0]


def _contender(name: str) -> dict[str, Any]:
    made = named(name)
    return {
        "name": name,
        "about": made.about,
        "version": made.version[:60] if "\n" not in made.version else "own",
        "format": made.format or "as recorded",
        "told_prices": made.priced,
        "heeds_budget": made.budgeted,
    }


def _session(session: Recorded, survey: Any) -> dict[str, Any]:
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


def _digest(results: Results, name: str) -> str:
    return digest([f["digest"] for cells in results.found for c, f in cells.items() if c.contender == name])[:12]


def _milliseconds(results: Results) -> dict[str, dict[str, float]]:
    """Give the median milliseconds of a session's first request and of an appended one, for each contender."""
    long = next(iter(groups_of(results.study).values()))
    made = {}
    for cell in results.study.cells:
        if cell.budget is None and not cell.idle and cell.contender not in made:
            spent = [results.found[n][cell]["milliseconds"] for n in long]
            made[cell.contender] = {
                "first": round(sorted(a for a, _ in spent)[len(spent) // 2], 3),
                "appended": round(sorted(b for _, b in spent)[len(spent) // 2], 3),
            }
    return made


def commit() -> str:
    """Name the commit of the checkout this runs from, `-dirty` where it was changed; the version elsewhere."""
    root = Path(danshari.__file__).parent
    try:
        said = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=10"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return danshari.__version__
    return said.stdout.strip()
