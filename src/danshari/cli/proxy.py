"""`danshari proxy`, `danshari wrap` and `danshari status`: run the proxy and show what it did."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click

from danshari.cli.common import PATH_TYPE, emit_json, err, make_table, out
from danshari.errors import ArgumentError
from danshari.proxy.settings import Settings, load_settings, parse_upstream


def _add_settings_options(command: Any) -> Any:
    """Add the options shared by all commands that start a proxy."""
    for option in reversed((
        click.option("--upstream", "upstreams", multiple=True, metavar="[NAME=]URL",
                     help="Where requests go; without a name: all of them. [default: the providers' own]"),
        click.option("--policy", help="Preset or policy file. [default: balanced]"),
        click.option("--port", type=int, help="Port; 0: any free one. [default: 8484; wrap: 0]"),
        click.option("--archive", help="The archive's file; `:memory:`: nothing is kept. [default: the user's]"),
        click.option("--recall", type=click.Choice(["auto", "on", "off"]), help="Recall tools. [default: auto]"),
        click.option("--handover", type=click.Choice(["code", "model"]), help="Who writes hand-overs. [default: code]"),
        click.option("--off", is_flag=True, default=None, help="Pass everything through untouched."),
        click.option("--config", type=PATH_TYPE, help="Settings as TOML."),
    )):  # fmt: skip
        command = option(command)
    return command


def _settings_from_options(config: Path | None, upstreams: tuple[str, ...], **given: Any) -> Settings:
    """Load the settings from the options of a command."""
    return load_settings(config, {**given, "upstreams": dict(map(parse_upstream, upstreams))})


@click.command("proxy")
@_add_settings_options
@click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--log", type=click.Choice(["off", "json"]), default="json", show_default=True,
              help="One line a request on standard error, without content.")  # fmt: skip
def proxy_command(config: Path | None, upstreams: tuple[str, ...], log: str, **given: Any) -> None:
    """Serve as a proxy: point an agent's base URL at it.

    Every setting can also stand in the --config file or in an environment variable DANSHARI_PROXY_<NAME>. The page at
    / and `danshari status` show sessions and savings; /metrics is for Prometheus.
    """
    from danshari.proxy.server import base_url_of, bind_socket, serve

    settings = _settings_from_options(config, upstreams, **given)
    _configure_logging(log)
    taken = bind_socket(settings)
    base = base_url_of(taken)

    def ready() -> None:
        err.print(
            f"danshari proxy at {base} · policy {settings.policy} · page {base}/ · stop with Ctrl-C",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
        for line in (f"ANTHROPIC_BASE_URL={base}", f"OPENAI_BASE_URL={base}/v1"):
            err.print(f"  export {line}", highlight=False)

    serve(settings, taken, ready=ready)


def _configure_logging(log: str) -> None:
    """Send the proxy's log to standard error if `log` is "json"."""
    if log == "json":
        shown = logging.StreamHandler(sys.stderr)
        shown.setFormatter(logging.Formatter("%(message)s"))
        logger = logging.getLogger("danshari.proxy")
        logger.addHandler(shown)
        logger.setLevel(logging.INFO)
        logger.propagate = False


@click.command("wrap", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_add_settings_options
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def wrap_command(config: Path | None, upstreams: tuple[str, ...], command: tuple[str, ...], **given: Any) -> None:
    """Run an agent behind a proxy of its own: danshari wrap -- claude "fix the tests".

    The proxy lives as long as the agent; nothing is written into the agent's files. The exit code is the agent's.
    Where a base URL was set before, requests go on to it.
    """
    from danshari.proxy.server import base_url_of, bind_socket, create_server
    from danshari.proxy.wrap import find_agent_profile, upstreams_from_environment

    if not command:
        from danshari.data.agents import load_agent_profiles

        raise ArgumentError(
            f"name what to run, such as `danshari wrap -- claude`; known: {', '.join(load_agent_profiles())}"
        )
    agent = find_agent_profile(command[0])
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
    variables = {name: value.format(base=base, port=base.rpartition(":")[2]) for name, value in agent.sets.items()}
    arguments = [part.format(base=base) for part in agent.arguments]
    try:
        code = _run_agent([command[0], *arguments, *command[1:]], {**os.environ, **variables})
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
        found = _fetch_status(f"{base}/status.json")
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


@click.command("status")
@click.option("--url", default="http://127.0.0.1:8484", show_default=True, help="The proxy's address.")
@click.option("--token", envvar="DANSHARI_PROXY_TOKEN", default="", help="Token, where the proxy asks for one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status_command(url: str, token: str, as_json: bool) -> None:
    """Show a running proxy's sessions: tokens before and after, edits, dollars."""
    found = _fetch_status(f"{url.rstrip('/')}/status.json", token)
    if as_json:
        emit_json(found)
        return
    shown = make_table("session", "client", "model", "requests", "tokens", "→", "edits", "faults", "$", "last decision")
    for row in found["sessions"]:
        shown.add_row(
            row["session"].removeprefix("proxy-"), row["client"] or "–", row["model"], str(row["requests"]),
            f"{row['before']:,.0f}", f"{row['after']:,.0f}", str(row["edits"]), str(row["faults"]),
            f"{row['dollars']:.4f}", (row["last"] or ["–"])[0],
        )  # fmt: skip
    out.print(shown)
    total = found["total"]
    out.print(
        f"{len(found['sessions'])} sessions, {total['requests']} requests, policy {found['policy']}, "
        f"{total['rescues']} rescues, {total['recalls']} recalls, ${total['dollars']:.4f}",
        style="dim", highlight=False,
    )  # fmt: skip


def _fetch_status(url: str, token: str = "") -> dict[str, Any]:
    """Fetch and parse a proxy's status; raises ArgumentError if none answers."""
    request = urllib.request.Request(url, headers={"x-danshari-token": token} if token else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        raise ArgumentError(
            f"{url} answered {error.code}: {error.read(200).decode('utf-8', 'replace').strip()}"
        ) from None
    except (OSError, ValueError) as error:
        raise ArgumentError(f"no proxy answers at {url} ({error}); start one with `danshari proxy`") from None
