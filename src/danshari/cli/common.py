"""What commands share: consoles, reading sessions, work over two cores with a progress bar, JSON out."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
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
from danshari.replay.prompt_cache import VECTORS
from danshari.sessions import Recorded, read, session_files

T = TypeVar("T")
R = TypeVar("R")

PATHS = click.Path(path_type=Path)
_piped = sys.stdout is None or not sys.stdout.isatty()
out = Console(width=132 if _piped and not os.environ.get("COLUMNS") else None)
err = Console(stderr=True)


def progress() -> Progress:
    """Make a progress bar on standard error that vanishes when done, and does not appear when piped."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def table(*columns: str, title: str | None = None, left: int = 1) -> Table:
    """Make a narrow table; all columns but the first `left` hold numbers."""
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


def load_sessions(paths: Sequence[Path]) -> tuple[list[Recorded], list[str]]:
    """Read all sessions below `paths`; a named file that is none raises, one met in a folder is only noted."""
    files = session_files(paths)
    named = {path for path in paths if not path.is_dir()}
    sessions: list[Recorded] = []
    skipped: list[str] = []
    with progress() as bar:
        for path in bar.track(files, description="reading"):
            try:
                sessions += [s.placed(_collection(path, paths)) for s in read(path) if s.messages]
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
    unknown = Counter(s.model for s in sessions if s.model and not data.model(s.model).known)
    skipped += [
        f"{n} session(s) name the model {name!r}, which has no row: default prices" for name, n in unknown.items()
    ]
    return sessions, skipped


def _collection(file: Path, paths: Sequence[Path]) -> str:
    """Name the folder of recordings a file belongs to: the first one below the path that was given."""
    for path in paths:
        if path.is_dir() and file.is_relative_to(path):
            below = file.relative_to(path).parts
            return below[0] if len(below) > 1 else path.resolve().name
    return file.resolve().parent.name


def label(session_id: str, width: int = 14) -> str:
    """Shorten an id so that what tells sessions apart stays: the beginning, and a part number at the end."""
    if len(session_id) <= width:
        return session_id
    head, mark, part = session_id.partition("#")
    tail = mark + part if mark else session_id[-5:]
    return f"{head[: width - len(tail) - 1]}…{tail}"


def each(work: Callable[[T], R], jobs: Sequence[T], description: str) -> list[R]:
    """Run independent jobs over the cores, in order, with a progress bar."""
    with progress() as bar:
        task = bar.add_task(description, total=len(jobs))
        if len(jobs) < 4:
            results = []
            for job in jobs:
                results.append(work(job))
                bar.advance(task)
            return results
        with ProcessPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            results = []
            for result in pool.map(work, jobs, chunksize=1 if len(jobs) < 400 else 4):
                results.append(result)
                bar.advance(task)
            return results


def emit_json(value: Any) -> None:
    """Print JSON and nothing else."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False)
    sys.stdout.write("\n")


def write_json(path: Path, value: Any) -> None:
    """Write JSON to a file, whole or not at all."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    beside.replace(path)


def price_vector(text: str | None) -> Prices | None:
    """Read `--prices`: the name of a vector (.10, .05, .025, .02) or read,write multipliers; None stays None."""
    if text is None:
        return None
    if text in VECTORS:
        return VECTORS[text]
    try:
        read_price, write_price = (float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(f"--prices {text!r}: give {', '.join(VECTORS)} or READ,WRITE such as 0.1,1.25") from None
    return Prices(read=read_price, write=write_price)


def percent(share: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * share:.1f} %"


def notes(lines: Sequence[str], most: int = 5) -> None:
    """Print notes to standard error, a few of them."""
    for line in lines[:most]:
        err.print(f"[dim]note: {line}[/dim]", highlight=False, soft_wrap=True)
    if len(lines) > most:
        err.print(f"[dim]note: … and {len(lines) - most} more[/dim]", highlight=False)
