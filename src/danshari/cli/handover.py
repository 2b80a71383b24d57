"""`danshari handover`: print the hand-over of a recorded session, for a new session or another agent."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from danshari import data
from danshari.cli.shared.common import PATH_TYPE, emit_json, err, read_one_session
from danshari.pipeline.handover import handover, handover_text


@click.command("handover")
@click.argument("file", type=PATH_TYPE)
@click.option("--size", default=16_000, show_default=True, help="Characters, the user's words and rules aside.")
@click.option("--hard", is_flag=True, help="Hold the size for everything: even the user's words are chosen from.")
@click.option("--language", type=click.Choice(sorted(data.load_phrases())), help="[default: that of the user's words]")
@click.option("--focus", default="", help="What matters next; key lines keep to it.")
@click.option("--restore", default=0, show_default=True, help="Characters of files shown as last seen.")
@click.option("--session", "number", default=1, show_default=True, help="Which session, if FILE holds several.")
@click.option("--out", "out_path", type=PATH_TYPE, help="Write the document to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the document as JSON, with sources and times.")
def command(
    file: Path,
    size: int,
    hard: bool,
    language: str | None,
    focus: str,
    restore: int,
    number: int,
    out_path: Path | None,
    as_json: bool,
) -> None:
    """Print the hand-over of the session in FILE: goal, words, rules, files, tests, what failed, key lines.

    Code alone works it out, the same bytes every time; secrets are masked.
    """
    session = read_one_session(file, number)
    document = handover(
        session.messages,
        size=size,
        hard=hard,
        language=language or "",
        focus=focus,
        restore=restore,
        format=session.format,
    )
    text = handover_text(document)
    points = {name: len(found) for name, found in document.fields.items() if found}
    err.print(
        f"{len(text):,} characters for {len(session.messages)} messages: "
        + ", ".join(f"{name} {n}" for name, n in points.items()),
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    if out_path is not None:
        out_path.write_text(text + "\n", encoding="utf-8")
        err.print(f"wrote {out_path}", highlight=False, soft_wrap=True)
    if as_json:
        emit_json(document.to_dict())
    elif out_path is None:
        sys.stdout.write(text + "\n")
