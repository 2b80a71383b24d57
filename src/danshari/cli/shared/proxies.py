"""Options of commands that start a proxy, and asking a running one for its status."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click

from danshari.cli.shared.common import PATH_TYPE
from danshari.errors import ArgumentError
from danshari.proxy.settings import Settings, load_settings, parse_upstream


def add_settings_options(command: Any) -> Any:
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


def settings_from_options(config: Path | None, upstreams: tuple[str, ...], **given: Any) -> Settings:
    """Load the settings from the options of a command."""
    return load_settings(config, {**given, "upstreams": dict(map(parse_upstream, upstreams))})


def fetch_status(url: str, token: str = "") -> dict[str, Any]:
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
