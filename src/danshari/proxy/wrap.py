"""What `danshari wrap` needs to know of an agent: its row, and the upstreams the environment already sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from danshari.data.agents import AgentProfile, load_agent_profiles
from danshari.errors import ArgumentError
from danshari.formats import FORMATS


def find_agent_profile(command: str) -> AgentProfile:
    """Return the row of an agent by its command; raises ArgumentError if it has none."""
    name = PurePath(command).name.lower().removesuffix(".exe").removesuffix(".cmd")
    for agent in load_agent_profiles().values():
        if name == agent.command or (agent.command in ("python", "node") and name.startswith(agent.command)):
            return agent
    raise ArgumentError(
        f"{name!r} has no row; known: {', '.join(load_agent_profiles())}. "
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
