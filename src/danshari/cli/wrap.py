"""`danshari wrap`: run an agent behind a proxy of its own."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import click

from danshari.cli.shared.common import err
from danshari.cli.shared.proxies import add_settings_options, fetch_status
from danshari.errors import ArgumentError
from danshari.proxy.settings import load_settings, parse_upstream


@click.command("wrap", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@add_settings_options
@click.option(
    "--set",
    "given_sets",
    multiple=True,
    metavar="VAR={base}/v1",
    help="Variable by which the command is told its base URL; for commands that are not known.",
)
@click.argument("line", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED)
def command(
    config: Path | None, upstreams: tuple[str, ...], given_sets: tuple[str, ...], line: tuple[str, ...], **given: Any
) -> None:
    """Run an agent behind a proxy of its own: danshari wrap -- claude "fix the tests".

    The proxy lives as long as the agent; nothing is written into the agent's files. The exit code is the agent's.
    Where a base URL was set before, requests go on to it.
    """
    from danshari.proxy.server import base_url_of, bind_socket, create_server
    from danshari.proxy.wrap import check_wrappable, find_agent_profile, settings_that_win, upstreams_from_environment

    if not line:
        from danshari.data.agents import load_agent_profiles

        raise ArgumentError(
            f"name what to run, such as `danshari wrap -- claude`; known: {', '.join(load_agent_profiles())}"
        )
    agent = find_agent_profile(line[0], given_sets)
    check_wrappable(agent)
    for text in settings_that_win(agent, Path.home(), Path.cwd(), os.environ):
        err.print(f"danshari: {text}", highlight=False, soft_wrap=True)
    _silence_logs()
    before = {**upstreams_from_environment(agent, os.environ), **dict(map(parse_upstream, upstreams))}
    here = {"port": given["port"] or 0, "host": "127.0.0.1", "token": "", "upstreams": before}
    settings = load_settings(config, {**given, **here})
    taken, up = bind_socket(settings), threading.Event()
    base = base_url_of(taken)
    server = create_server(settings, ready=up.set, quiet=True)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    if not up.wait(15):
        raise ArgumentError("the proxy did not start within 15 seconds")
    arguments = [part.format(base=base) for part in agent.arguments]
    try:
        code = _run_agent([line[0], *arguments, *line[1:]], {**os.environ, **agent.environment(base)})
    finally:
        _print_summary(base)
        server.should_exit = True
        thread.join(settings.drain_seconds)
    sys.exit(code)


def _silence_logs() -> None:
    """Keep what the proxy logs out of the agent's terminal; the summary at the end says what was wrong."""
    for name in ("danshari", "uvicorn", "asyncio", "aiohttp"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _run_agent(line: list[str], environment: dict[str, str]) -> int:
    """Run the agent and return its exit code; SIGINT is left to the agent."""
    try:
        process = subprocess.Popen(line, env=environment)
    except FileNotFoundError:
        raise ArgumentError(f"{line[0]}: no such command") from None
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        return process.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _print_summary(base: str) -> None:
    """Print the proxy's totals, if it answers."""
    try:
        found = fetch_status(f"{base}/status.json")
    except ArgumentError:
        return
    total = found["total"]
    untouched = ", ".join(f"{count} {why}" for why, count in found["untouched"].items())
    if not total["requests"]:
        why = f"; untouched: {untouched}" if untouched else ": do its settings name another base URL?"
        err.print(f"danshari: no request to a model was compacted{why}", highlight=False, soft_wrap=True)
    else:
        share = total["after"] / total["before"] if total["before"] else 1.0
        err.print(
            f"danshari: {total['requests']} requests, {total['before']:,.0f} → {total['after']:,.0f} input tokens "
            f"({100 * share:.0f} %), {total['edits']} edits, {total['faults']} faults, ${total['dollars']:.4f} billed"
            + (f"; untouched: {untouched}" if untouched else ""),
            highlight=False,
            soft_wrap=True,
        )  # fmt: skip
