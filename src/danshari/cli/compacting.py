"""`danshari compact`: one list of messages in, the messages to send out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from danshari.cli.common import PATHS, emit_json, err
from danshari.compactor import compact
from danshari.errors import ArgumentError, SessionError
from danshari.formats import FORMATS
from danshari.sessions import Recorded, read


@click.command("compact")
@click.argument("file", type=PATHS)
@click.option("--policy", default="balanced", show_default=True, help="Preset name or path of a policy file.")
@click.option("--window", type=int, help="Context window in tokens. [default: the model's]")
@click.option("--model", help="Model name, for window, prices and token estimate.")
@click.option("--format", "format_name", type=click.Choice(list(FORMATS)), help="Wire format. [default: detected]")
@click.option("--sent", default=0, show_default=True, help="Leading messages a provider has seen; editing those costs.")
@click.option("--session", "number", default=1, show_default=True, help="Which session, if FILE holds several.")
@click.option("--out", "out_path", type=PATHS, help="Write the messages to this file instead of standard output.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the whole result as JSON: figures, edits and (without --out) messages.",
)
def compact_command(
    file: Path,
    policy: str,
    window: int | None,
    model: str | None,
    format_name: str | None,
    sent: int,
    number: int,
    out_path: Path | None,
    as_json: bool,
) -> None:
    """Compact the messages in FILE and print what should be sent.

    FILE is a list of messages, a whole request, or any recorded session. The summary goes to standard error.
    """
    if out_path is not None and (out_path.is_dir() or not out_path.parent.is_dir()):
        raise ArgumentError(
            f"--out {out_path}: {'is a folder' if out_path.is_dir() else 'no such folder'}; name a file"
        )
    sessions = list(read(file))
    if not 1 <= number <= len(sessions):
        raise ArgumentError(f"--session {number}: {file} holds {len(sessions)} session(s)")
    session = sessions[number - 1]
    if not session.messages and session.malformed:
        raise SessionError(f"{file}: {session.malformed} malformed records and no message")
    if format_name and not fits(session, format_name):
        raise ArgumentError(f"{file} is {session.format}; --format {format_name} does not fit")
    if sent > len(session.messages):
        raise ArgumentError(f"--sent {sent}: {file} holds {len(session.messages)} messages")
    result = compact(
        session.messages,
        policy=policy,
        model=model or session.model or None,
        window=window,
        sent=sent,
        format=format_name or session.format,
    )
    if session.malformed:
        err.print(f"note: {session.malformed} malformed records were left out", highlight=False)
    err.print(str(result), highlight=False, markup=False, soft_wrap=True)
    if out_path is not None:
        out_path.write_text(json.dumps(result.messages, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        err.print(f"wrote {len(result.messages)} messages to {out_path}", highlight=False, markup=False, soft_wrap=True)
    if as_json:
        emit_json(result.to_dict(messages=out_path is None))
    elif out_path is None:
        json.dump(result.messages, sys.stdout, ensure_ascii=False, indent=1)
        sys.stdout.write("\n")


def fits(session: Recorded, name: str) -> bool:
    """Say whether a session may be read as the named format: no message of it is unmistakably another's."""
    return session.format == name or not FORMATS[session.format].matches(session.messages)
