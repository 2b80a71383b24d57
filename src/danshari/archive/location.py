"""Opening the archive on disk where everyone expects it."""

from __future__ import annotations

import os
from pathlib import Path

from danshari.archive.sqlite import SqliteArchive

DATA_VARIABLE = "DANSHARI_DATA"
"""Environment variable naming the folder of the archive."""


def data_home() -> Path:
    """Give the folder: `$DANSHARI_DATA`, else `danshari` under the platform's data folder."""
    if named := os.environ.get(DATA_VARIABLE):
        return Path(named)
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "danshari"


def open_archive(path: str | Path | None = None, *, defer: bool = False) -> SqliteArchive:
    """Open the archive in a file, by default `archive.db` in the data folder; made if there is none.

    One file serves any number of threads, processes, sessions and projects. Raises ArchiveError if the file cannot be
    made or written. A file that SQLite cannot read is set aside, never overwritten, and a new one begins. With `defer`
    a commit waits for the original only, and `index` or the next search makes it searchable.
    """
    return SqliteArchive(path if path is not None else data_home() / "archive.db", defer=defer)
