"""What `danshari wrap` sets for an agent, and what it takes over from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from danshari.errors import ArgumentError
from danshari.proxy.sessions.clients import Agent, agents


def row_of(command: str) -> Agent:
    """Give an agent's row by its command; raises ArgumentError for one that has none."""
    name = PurePath(command).name.lower().removesuffix(".exe").removesuffix(".cmd")
    for agent in agents().values():
        if name == agent.command or (agent.command in ("python", "node") and name.startswith(agent.command)):
            return agent
    raise ArgumentError(
        f"{name!r} has no row; known: {', '.join(agents())}. For others run `danshari proxy` and set their base URL"
    )


def environment(agent: Agent, variables: Mapping[str, str]) -> dict[str, str]:
    """Give the upstreams that the user had set by the very variables that are about to be set."""
    found = {}
    for name in agent.sets:
        if url := variables.get(name, ""):
            vendor = "anthropic" if name.startswith("ANTHROPIC") else "openai"
            found[vendor] = url
    return found
