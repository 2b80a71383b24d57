"""What `danshari wrap` needs to know of an agent: its row, and the upstreams the environment already sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from danshari.data.agents import AgentProfile, load_agent_profiles
from danshari.errors import ArgumentError
from danshari.formats import FORMATS


def find_agent_profile(command: str) -> AgentProfile:
    """Return the profile of the agent that a command starts; raises ArgumentError if none is known."""
    name = re.sub(r"\.(?:exe|cmd|bat)\Z", "", PurePath(command).name.lower())
    program = re.sub(r"\A(python|node)[0-9.]+\Z", r"\1", name)
    for agent in load_agent_profiles().values():
        if agent.command in (name, program):
            return agent
    raise ArgumentError(
        f"unknown agent {name!r}; known: {', '.join(load_agent_profiles())}. "
        "For others run `danshari proxy` and set their base URL"
    )


def upstreams_from_environment(agent: AgentProfile, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the upstreams that are already set in the variables which `danshari wrap` overwrites."""
    found = {}
    for name in agent.sets:
        apis = (wire.api for wire in FORMATS.values())
        vendor = next((api.vendor for api in apis if name.startswith(api.url_variables)), "")
        if vendor and (url := variables.get(name, "")):
            found[vendor] = url
    return found
