"""`danshari proxy`: run the proxy."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from danshari.cli.shared.common import err
from danshari.cli.shared.proxies import add_settings_options, settings_from_options


@click.command("proxy")
@add_settings_options
@click.option("--host", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--log", type=click.Choice(["off", "json"]), default="json", show_default=True,
              help="One line a request on standard error, without content.")  # fmt: skip
def command(config: Path | None, upstreams: tuple[str, ...], log: str, **given: Any) -> None:
    """Serve as a proxy: point an agent's base URL at it.

    Every setting can also stand in the --config file or in an environment variable DANSHARI_PROXY_<NAME>. The page at
    / and `danshari status` show sessions and savings; /metrics is for Prometheus.
    """
    from danshari.data.agents import load_agent_profiles
    from danshari.proxy.server import base_url_of, bind_socket, serve

    settings = settings_from_options(config, upstreams, **given)
    _configure_logging(log)
    taken = bind_socket(settings)
    base = base_url_of(taken)

    def ready() -> None:
        err.print(
            f"danshari proxy at {base} · policy {settings.policy} · page {base}/ · stop with Ctrl-C",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
        for name, value in load_agent_profiles()["python"].environment(base).items():  # what every SDK reads
            err.print(f"  export {name}={value}", highlight=False)

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
