"""`danshari wrap`: run an agent behind a proxy of its own."""

from __future__ import annotations

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
@click.argument("line", metavar="COMMAND...", nargs=-1, type=click.UNPROCESSED)
def command(config: Path | None, upstreams: tuple[str, ...], line: tuple[str, ...], **given: Any) -> None:
    """Run an agent behind a proxy of its own: danshari wrap -- claude "fix the tests".

    The proxy lives as long as the agent; nothing is written into the agent's files. The exit code is the agent's.
    Where a base URL was set before, requests go on to it.
    """
    from danshari.proxy.server import base_url_of, bind_socket, create_server
    from danshari.proxy.wrap import find_agent_profile, upstreams_from_environment

    if not line:
        from danshari.data.agents import load_agent_profiles

        raise ArgumentError(
            f"name what to run, such as `danshari wrap -- claude`; known: {', '.join(load_agent_profiles())}"
        )
    agent = find_agent_profile(line[0])
    before = {**upstreams_from_environment(agent, os.environ), **dict(map(parse_upstream, upstreams))}
    here = {"port": given["port"] or 0, "host": "127.0.0.1", "token": "", "upstreams": before}
    settings = load_settings(config, {**given, **here})
    taken, up = bind_socket(settings), threading.Event()
    base = base_url_of(taken)
    server = create_server(settings, ready=up.set)
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
    if total["requests"]:
        share = total["after"] / total["before"] if total["before"] else 1.0
        err.print(
            f"danshari: {total['requests']} requests, {total['before']:,.0f} → {total['after']:,.0f} input tokens "
            f"({100 * share:.0f} %), {total['edits']} edits, {total['faults']} faults, ${total['dollars']:.4f} billed",
            highlight=False,
            soft_wrap=True,
        )  # fmt: skip
