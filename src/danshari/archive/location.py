"""The archive on disk: where its file is, and opening it."""

from __future__ import annotations

import os
from pathlib import Path

from danshari.archive.sqlite import SqliteArchive

DATA_VARIABLE = "DANSHARI_DATA"
"""Environment variable naming the folder of the archive."""


def data_home() -> Path:
    """Return the data folder: `$DANSHARI_DATA`, else `danshari` under the platform's data folder."""
    if named := os.environ.get(DATA_VARIABLE):
        return Path(named)
    base = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else Path.home() / ".local" / "share") / "danshari"


def open_archive(path: str | Path | None = None, *, defer: bool = False) -> SqliteArchive:
    """Open the archive in a file, by default `archive.db` in the data folder. It is created if missing.

    One file serves any number of threads, processes, sessions and projects. A file that SQLite cannot read
    is moved aside, never overwritten, and a new one is created. With `defer` a commit waits only until the
    original is stored, and `index` or the next search makes it searchable. Raises ArchiveError if the file
    cannot be created or written.
    """
    return SqliteArchive(path if path is not None else data_home() / "archive.db", defer=defer)
