"""`danshari compact`: read messages and print those that should be sent."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from danshari import data
from danshari.cli.shared.common import PATH_TYPE, emit_json, err, read_one_session
from danshari.compaction import Compaction
from danshari.compactor import Compactor, compact
from danshari.core.summary import Request
from danshari.errors import ArgumentError, ModelError
from danshari.formats import FORMATS, find_format
from danshari.pipeline.handover import handover_text
from danshari.sessions import RecordedSession
from danshari.summarizers import Summarizer, endpoint, provider
from danshari.summarizers.endpoint import split_url

SHOW_CHOICES = ("document", "diff", "prompt")


@click.command("compact")
@click.argument("file", type=PATH_TYPE)
@click.option("--policy", default="balanced", show_default=True, help="Preset name or path of a policy file.")
@click.option("--window", type=int, help="Context window in tokens. [default: the model's]")
@click.option("--model", help="Model name, for window, prices and token estimate.")
@click.option("--format", "format_name", type=click.Choice(list(FORMATS)), help="Wire format. [default: detected]")
@click.option("--sent", default=0, show_default=True, help="Leading messages a provider has seen; editing those costs.")
@click.option("--session", "number", default=1, show_default=True, help="Which session, if FILE holds several.")
@click.option("--major", is_flag=True, help="Make a major compaction, whatever the size.")
@click.option("--focus", help="What matters next; the hand-over keeps to it. Needs --major.")
@click.option("--until", type=int, help="Let only the messages before this number leave. Needs --major.")
@click.option(
    "--summarizer",
    help="provider:model, or the URL of a compatible endpoint; may patch the hand-over. "
    "Needs --major. [default: no model is asked]",
)
@click.option("--summary-model", help="Model named to the summarizer. [default: the agent's]")
@click.option("--summary-window", default=0, help="Context window of the summarizer, in tokens. [default: the agent's]")
@click.option(
    "--show",
    type=click.Choice(SHOW_CHOICES),
    help="Print this instead of the messages: the hand-over, what leaves "
    "and stays, or the prompt a summarizer would get. Needs --major.",
)
@click.option("--out", "out_path", type=PATH_TYPE, help="Write the messages to this file instead of standard output.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the whole result as JSON: figures, edits and (without --out) messages.",
)
def command(
    file: Path,
    policy: str,
    window: int | None,
    model: str | None,
    format_name: str | None,
    sent: int,
    number: int,
    major: bool,
    focus: str | None,
    until: int | None,
    summarizer: str | None,
    summary_model: str | None,
    summary_window: int,
    show: str | None,
    out_path: Path | None,
    as_json: bool,
) -> None:
    """Compact the messages in FILE and print what should be sent.

    FILE is a list of messages, a whole request, or any recorded session. The summary goes to standard error.
    """
    for given, name in ((focus, "--focus"), (until, "--until"), (summarizer, "--summarizer"), (show, "--show")):
        if given is not None and not major:
            raise ArgumentError(f"{name} needs --major")
    _check_output_path(out_path)
    session = read_one_session(file, number)
    if format_name and not can_read_as(session, format_name):
        raise ArgumentError(f"{file} is {session.format}; --format {format_name} does not fit")
    if sent > len(session.messages):
        raise ArgumentError(f"--sent {sent}: {file} holds {len(session.messages)} messages")
    settings: dict[str, Any] = {
        "policy": data.load_policy(policy),
        "model": model or session.model or None,
        "window": window,
        "format": format_name or session.format,
    }
    if major:
        asked: list[Request] = []
        chosen = None
        if summarizer and show != "prompt":
            chosen = create_summarizer(summarizer, summary_model or "", summary_window)
        result = _compact_major(session, settings, focus, until, chosen, asked, ask=show != "prompt")
        if show == "prompt":
            _print_prompt(asked)
            return
    else:
        result = compact(session.messages, sent=sent, **settings)
    err.print(str(result), highlight=False, soft_wrap=True)
    _write_result(result, session, out_path, show, as_json=as_json)


def _check_output_path(out_path: Path | None) -> None:
    """Raise ArgumentError if the output path is a folder or its folder does not exist."""
    if out_path is not None and (out_path.is_dir() or not out_path.parent.is_dir()):
        raise ArgumentError(
            f"--out {out_path}: {'is a folder' if out_path.is_dir() else 'no such folder'}; name a file"
        )


def _compact_major(
    session: RecordedSession,
    settings: dict[str, Any],
    focus: str | None,
    until: int | None,
    chosen: Summarizer | None,
    asked: list[Request],
    *,
    ask: bool,
) -> Compaction:
    """Run a major compaction; requests to a summarizer are appended to `asked`.

    Without `ask` no summarizer is called, and only the request is recorded.
    """

    def record_request(request: Request) -> Any:
        """Record a request and pass it on; raises ModelError if there is no summarizer."""
        asked.append(request)
        if chosen is None:
            raise ModelError("not asked: the prompt is only shown")
        return chosen.function(request)

    spoken = (
        replace(chosen, function=record_request) if chosen else Summarizer(function=record_request) if not ask else None
    )
    with err.status("working the hand-over out") if err.is_terminal else nullcontext():
        return Compactor(**settings, summarizer=spoken).compact(
            session.messages, force="full", focus=focus, until=until
        )


def create_summarizer(name: str, model: str, window: int = 0) -> Summarizer:
    """Create a summarizer from a URL or from provider:model; keys come from the environment.

    Raises ArgumentError if a URL comes without a model.
    """
    if name.startswith(("http://", "https://")):
        if not model:
            raise ArgumentError(f"--summarizer {name}: name a model with --summary-model")
        path = split_url(name).path
        fits = [f for f in FORMATS.values() if f.api.matches_path(path)] or [
            f for f in FORMATS.values() if f.api.vendor in name
        ]
        api = (fits or list(FORMATS.values()))[0].api
        key = os.environ.get(api.key_variable, "")
        return endpoint(name, model=model, key=key, format=api.format, window=window)
    return provider(name, window=window)


def _print_prompt(asked: list[Request]) -> None:
    """Print the last message of the first recorded request."""
    if not asked:
        err.print("nothing would be asked: no older round can leave, or the margin is too small", highlight=False)
    for request in asked[:1]:
        for piece in find_format(request.format).split(request.messages[-1]):
            sys.stdout.write(piece.text + "\n")


def _write_result(
    result: Compaction, session: RecordedSession, out_path: Path | None, show: str | None, *, as_json: bool
) -> None:
    """Print or write the result as the options ask: document, diff, messages or JSON."""
    if show == "document":
        sys.stdout.write((handover_text(result.handover) if result.handover else "no hand-over was made") + "\n")
    elif show == "diff":
        _print_diff(result, session)
    if out_path is not None:
        out_path.write_text(json.dumps(result.messages, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        err.print(f"wrote {len(result.messages)} messages to {out_path}", highlight=False, soft_wrap=True)
    if as_json:
        emit_json(result.to_dict(messages=out_path is None))
    elif out_path is None and show is None:
        json.dump(result.messages, sys.stdout, ensure_ascii=False, indent=1)
        sys.stdout.write("\n")


def _print_diff(result: Compaction, session: RecordedSession) -> None:
    """Print one line per message: `=` stays, `-` leaves or changes, `+` is new; with its length in characters."""
    kept = {id(m) for m in result.messages}
    shown = [m for m in result.messages if id(m) not in {id(s) for s in session.messages}]
    for number, message in enumerate(session.messages):
        text = " ".join(json.dumps(message, ensure_ascii=False, default=str).split())
        sys.stdout.write(f"{'=' if id(message) in kept else '-'} {number:4} {len(text):7} {text[:110]}\n")
    for message in shown:
        text = " ".join(json.dumps(message, ensure_ascii=False, default=str).split())
        sys.stdout.write(f"+      {len(text):7} {text[:110]}\n")


def can_read_as(session: RecordedSession, name: str) -> bool:
    """Return whether a session may be read as format `name`: its messages are not unmistakably another's."""
    return session.format == name or not FORMATS[session.format].matches(session.messages)
