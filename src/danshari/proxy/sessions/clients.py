"""What clients tell about themselves: their own session key, and whether they check the tools they offered."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from danshari import data
from danshari.core.items import hashed

SESSION_HEADER = "x-danshari-session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One row of `data/agents.toml`: how an agent is told to use the proxy, and how it is recognised."""

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


@cache
def agents() -> dict[str, Agent]:
    """Load the rows."""
    table = tomllib.loads(data.text("agents.toml"))
    rows = {}
    for name, row in table["agent"].items():
        row.update({key: tuple(row[key]) for key in ("arguments", "signs") if key in row})
        rows[name] = Agent(**{"name": name, "command": name, **row})
    return rows


@cache
def session_headers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Give the headers by which clients name their session, in order, and those that name a sub-agent of it."""
    table = tomllib.loads(data.text("agents.toml"))
    return (SESSION_HEADER, *table["session_headers"]), tuple(table["agent_headers"])


def agent_of(headers: Mapping[str, str]) -> Agent | None:
    """Recognise an agent by its user agent."""
    sign = headers.get("user-agent", "").lower()
    return next((a for a in agents().values() if any(sign.startswith(s.lower()) for s in a.signs)), None)


def key_of(headers: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Give the client's own key of its session and sub-agent; "" if it sends none."""
    named, parts = session_headers()
    agent = "".join(f" {headers[name]}" for name in parts if name in headers)
    return _own_key(headers, values, named) + agent


def _own_key(headers: Mapping[str, str], values: Mapping[str, Any], named: tuple[str, ...]) -> str:
    for name in named:
        if found := headers.get(name):
            return found
    metadata = values.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    if isinstance(user, str) and user:
        return _session_of(user)
    cache_key = values.get("prompt_cache_key")
    return cache_key if isinstance(cache_key, str) else ""


def _session_of(user: str) -> str:
    """Take the session out of Claude Code's `user_id`: a JSON text, or words joined by `_session_`."""
    if user.startswith("{"):
        try:
            return str(json.loads(user).get("session_id") or user)
        except (ValueError, AttributeError):
            return user
    return user.rpartition("_session_")[2]


def credential(headers: Mapping[str, str]) -> str:
    """Give a short hash of the credential, so that tenants never share a session; the credential is not kept."""
    sent = headers.get("authorization") or headers.get("x-api-key") or headers.get("api-key") or ""
    return hashed("credential", sent)[:8] if sent else ""
