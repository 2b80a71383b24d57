"""Options of commands on the archive, and opening one that exists."""

from __future__ import annotations

from pathlib import Path

import click

from danshari.archive.location import data_home, open_archive
from danshari.archive.sqlite import SqliteArchive
from danshari.cli.shared.common import PATH_TYPE, err
from danshari.errors import ArgumentError

ARCHIVE_OPTION = click.option(
    "--archive", "where", type=PATH_TYPE, help="The archive's file. [default: archive.db in the data folder]"
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def open_existing_archive(where: Path | None) -> SqliteArchive:
    """Open an existing archive; raises ArgumentError if there is none."""
    path = where or data_home() / "archive.db"
    if not path.is_file():
        raise ArgumentError(f"{path}: no archive there; one is made by Compactor(archive=open_archive())")
    archive = open_archive(path)
    for note in archive.notes:
        err.print(f"note: {note}", highlight=False, soft_wrap=True)
    return archive
