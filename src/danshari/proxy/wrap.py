"""What `danshari wrap` needs to know of an agent: its row, and the upstreams the environment already sets."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from danshari.data.agents import AgentProfile, load_agent_profiles
from danshari.errors import ArgumentError
from danshari.formats import FORMATS


def find_agent_profile(command: str, given: Sequence[str] = ()) -> AgentProfile:
    """Return the profile of the agent that a command starts, with the variables that are `given` (`VAR={base}/v1`).

    Raises ArgumentError if none is known and none is given.
    """
    name = re.sub(r"\.(?:exe|cmd|bat)\Z", "", PurePath(command).name.lower())
    program = re.sub(r"\A(python|node)[0-9.]+\Z", r"\1", name)
    for agent in load_agent_profiles().values():
        if agent.command in (name, program):
            return set_variables(agent, given)
    if given:
        return set_variables(AgentProfile(name=name, command=name, sets={}), given)
    raise ArgumentError(
        f"unknown agent {name!r}; known: {', '.join(load_agent_profiles())}. "
        "For others name the variable: danshari wrap --set VARIABLE={base}/v1 -- COMMAND"
    )


def set_variables(agent: AgentProfile, given: Sequence[str]) -> AgentProfile:
    """Return the profile with variables that the user sets (`VAR={base}/v1`); raises ArgumentError for other texts."""
    sets = dict(agent.sets)
    for text in given:
        name, mark, value = text.partition("=")
        if not (mark and name.isidentifier() and "{base}" in value):
            raise ArgumentError(f"--set {text}: must be VARIABLE={{base}} or VARIABLE={{base}}/v1")
        sets[name] = value
    return replace(agent, sets=sets)


def check_wrappable(agent: AgentProfile) -> None:
    """Raise ArgumentError, with what to do, if the agent cannot be told its base URL by a run's own settings."""
    if agent.file and not agent.sets:
        place = agent.file.format(base="http://127.0.0.1:8484")
        raise ArgumentError(f"{agent.name} reads its base URL from its settings: run `danshari proxy` and set {place}")


def settings_that_win(agent: AgentProfile, home: Path, folder: Path, variables: Mapping[str, str]) -> list[str]:
    """Return sentences about settings of the user's that lead an agent past the proxy."""
    said = [
        f"{name} is set: requests go there, not through danshari"
        for name in agent.bypasses
        if variables.get(name, "").lower() not in ("", "0", "false")
    ]
    for text, key in agent.overrides.items():
        path = home / text[2:] if text.startswith("~/") else folder / text
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if re.search(key, path.read_text(encoding="utf-8"), re.MULTILINE):
                said.append(f"{path} sets where requests go, and wins over danshari")
    return said


def upstreams_from_environment(agent: AgentProfile, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the upstreams that are already set in the variables which `danshari wrap` overwrites."""
    found = {"*": agent.upstream} if agent.upstream else {}
    for name in agent.sets:
        apis = (wire.api for wire in FORMATS.values())
        vendor = next((api.vendor for api in apis if name.startswith(api.url_variables)), "")
        if vendor and (url := variables.get(name, "")):
            found[vendor] = url
    return found
