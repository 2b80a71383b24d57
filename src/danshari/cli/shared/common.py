"""Helpers that commands share: consoles, tables, session loading, parallel jobs and JSON output."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children
from pathlib import Path
from typing import Any, TypeVar

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from danshari import data
from danshari.core.pricing import Prices
from danshari.errors import ArgumentError, SessionError
from danshari.replay.prompt_cache import PRICE_VECTORS
from danshari.sessions import RecordedSession, read, session_files

_T = TypeVar("_T")
R = TypeVar("R")

PATH_TYPE = click.Path(path_type=Path)
_piped = sys.stdout is None or not sys.stdout.isatty()
out = Console(width=132 if _piped and not os.environ.get("COLUMNS") else None, markup=False, emoji=False)
err = Console(stderr=True, markup=False, emoji=False)
"""Both print any text as it is: what people and tools wrote is no markup."""


def progress_bar() -> Progress:
    """Create a progress bar on standard error; it disappears when done and is off when piped."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def make_table(*columns: str, title: str | None = None, left: int = 1) -> Table:
    """Create a narrow table; all columns but the first `left` hold numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        wide = number == 0 or left <= 2
        made.add_column(
            name,
            justify="left" if number < left else "right",
            no_wrap=number >= left or wide,
            min_width=8 if wide and number < left else None,
        )
    return made


def load_sessions(paths: Sequence[Path]) -> tuple[list[RecordedSession], list[str]]:
    """Read all sessions below `paths`; return them, and notes on what was skipped.

    Raises SessionError if a named file is no session, or none is found. Files met in a folder are only
    noted.
    """
    files = session_files(paths)
    named = {path for path in paths if not path.is_dir()}
    sessions: list[RecordedSession] = []
    skipped: list[str] = []
    with progress_bar() as bar:
        for path in bar.track(files, description="reading"):
            try:
                sessions += [s.set_collection(_collection_name(path, paths)) for s in read(path) if s.messages]
            except SessionError as error:
                if path in named:
                    raise
                skipped.append(str(error).split(". Known:")[0])
    if not sessions:
        looked = ", ".join(str(p) for p in paths)
        raise SessionError(f"{looked}: no session with messages found ({len(files)} files looked at)")
    for path_id, count in Counter(s.id for s in sessions).items():
        if count > 1:
            skipped.append(f"{count} sessions share the id {path_id}")
    skipped += [f"{s.id}: {s.malformed} malformed records were left out" for s in sessions if s.malformed]
    unknown = Counter(s.model for s in sessions if s.model and not data.find_model(s.model).known)
    skipped += [
        f"{n} session(s) name the model {name!r}, which has no row: default prices" for name, n in unknown.items()
    ]
    return sessions, skipped


def _collection_name(file: Path, paths: Sequence[Path]) -> str:
    """Return the name of a file's collection: the first folder below the given path."""
    for path in paths:
        if path.is_dir() and file.is_relative_to(path):
            below = file.relative_to(path).parts
            return below[0] if len(below) > 1 else path.resolve().name
    return file.resolve().parent.name


def shorten_id(session_id: str, width: int = 14) -> str:
    """Shorten an id to `width` characters; the beginning and a part number at the end are kept."""
    if len(session_id) <= width:
        return session_id
    head, mark, part = session_id.partition("#")
    tail = mark + part if mark else session_id[-5:]
    return f"{head[: width - len(tail) - 1]}…{tail}"


def run_jobs(work: Callable[[_T], R], jobs: Sequence[_T], description: str) -> list[R]:
    """Run independent jobs in parallel processes, with a progress bar; results keep the order of the jobs."""
    with progress_bar() as bar:
        task = bar.add_task(description, total=len(jobs))
        if len(jobs) < 4:
            results = []
            for job in jobs:
                results.append(work(job))
                bar.advance(task)
            return results
        pool = ProcessPoolExecutor(min(os.cpu_count() or 1, 8), initializer=_leave_interrupts_to_parent)
        results = []
        try:
            for result in pool.map(work, jobs, chunksize=1 if len(jobs) < 400 else 4):
                results.append(result)
                bar.advance(task)
        finally:
            if len(results) < len(jobs):  # an interrupted or failed run does not wait for the jobs that are left
                for worker in active_children():
                    worker.terminate()
            pool.shutdown(cancel_futures=True)
        return results


def _leave_interrupts_to_parent() -> None:
    """Ignore SIGINT in a worker process: Ctrl-C reaches the whole group, and the parent ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def emit_json(value: Any) -> None:
    """Print JSON and nothing else."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


def write_json(path: Path, value: Any) -> None:
    """Write JSON to a file atomically."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)


def parse_prices(text: str | None) -> Prices | None:
    """Parse `--prices`: a named vector (.10, .05, .025, .02) or READ,WRITE multipliers; None stays None.

    Raises ArgumentError for anything else.
    """
    if text is None:
        return None
    if text in PRICE_VECTORS:
        return PRICE_VECTORS[text]
    try:
        read_price, write_price = (float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(
            f"--prices {text!r}: give {', '.join(PRICE_VECTORS)} or READ,WRITE such as 0.1,1.25"
        ) from None
    return Prices(read=read_price, write=write_price)


def format_percent(share: float) -> str:
    """Format a share (0 to 1) as a percentage."""
    return f"{100 * share:.1f} %"


def print_notes(lines: Sequence[str], most: int = 5) -> None:
    """Print at most `most` notes to standard error, and how many more there are."""
    for line in lines[:most]:
        err.print(f"note: {line}", style="dim", highlight=False, soft_wrap=True)
    if len(lines) > most:
        err.print(f"note: … and {len(lines) - most} more", style="dim", highlight=False)


def read_one_session(file: Path, number: int) -> RecordedSession:
    """Read session `number` (from 1) of a file; raises ArgumentError or SessionError if there is none."""
    sessions = list(read(file))
    if not 1 <= number <= len(sessions):
        raise ArgumentError(f"--session {number}: {file} holds {len(sessions)} session(s)")
    session = sessions[number - 1]
    if not session.messages and session.malformed:
        raise SessionError(f"{file}: {session.malformed} malformed records and no message")
    if session.malformed:
        err.print(f"note: {session.malformed} malformed records were left out", highlight=False)
    return session
