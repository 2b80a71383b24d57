"""The table of agents: how each is pointed at the proxy, and how it is recognised by its requests."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from danshari import data

SESSION_HEADER = "x-danshari-session"
"""Header by which any client can name its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProfile:
    """One row of `data/agents.toml`: how an agent is pointed at the proxy, and how it is recognised."""

    name: str
    command: str
    sets: Mapping[str, str]
    """Environment variable → value; `{base}` and `{port}` stand for the proxy's."""
    arguments: tuple[str, ...] = ()
    """Put before the user's own arguments."""
    signs: tuple[str, ...] = ()
    """Beginnings of its `user-agent`."""
    checks_tools: bool = False
    """Whether it refuses tools that it did not offer itself, so that no recall tool may be offered."""
    note: str = ""
    bypasses: tuple[str, ...] = ()
    """Variables that, if set, lead its requests elsewhere."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings file (`~/…` or in the working folder) → pattern of what in it wins over variables and arguments."""
    file: str = ""
    """Where an agent that reads no variable is told its base URL, and how; `{base}` stands for it."""
    upstream: str = ""
    """Where its requests go if nothing else is said; empty: to the provider of their format."""

    def environment(self, base: str) -> dict[str, str]:
        """Return the variables that point the agent at a proxy of this address."""
        return {name: value.format(base=base, port=base.rpartition(":")[2]) for name, value in self.sets.items()}


@cache
def load_agent_profiles() -> dict[str, AgentProfile]:
    """Load the known agents by name."""
    table = tomllib.loads(data.package_text("agents.toml"))
    rows = {}
    for name, row in table["agent"].items():
        row.update({key: tuple(row[key]) for key in ("arguments", "signs", "bypasses") if key in row})
        rows[name] = AgentProfile(**{"name": name, "command": name, **row})
    return rows


@cache
def session_headers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of session key headers, in order of preference, and those of sub-agent headers."""
    table = tomllib.loads(data.package_text("agents.toml"))
    return (SESSION_HEADER, *table["session_headers"]), tuple(table["agent_headers"])


def detect_agent(headers: Mapping[str, str]) -> AgentProfile | None:
    """Return the agent whose user-agent prefix matches; None if none does."""
    sign = headers.get("user-agent", "").lower()
    return next((a for a in load_agent_profiles().values() if any(sign.startswith(s.lower()) for s in a.signs)), None)
