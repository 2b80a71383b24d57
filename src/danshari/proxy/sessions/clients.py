"""Recognise agents from request headers and find the session key that a client sends."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from danshari import data
from danshari.core.items import hash_strings

SESSION_HEADER = "x-danshari-session"


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


@cache
def load_agent_profiles() -> dict[str, AgentProfile]:
    """Load the known agents by name."""
    table = tomllib.loads(data.package_text("agents.toml"))
    rows = {}
    for name, row in table["agent"].items():
        row.update({key: tuple(row[key]) for key in ("arguments", "signs") if key in row})
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


def client_session_key(headers: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Return the client's own key for its session and sub-agent; "" if it sends none."""
    named, parts = session_headers()
    agent = "".join(f" {headers[name]}" for name in parts if name in headers)
    return _find_session_key(headers, values, named) + agent


def _find_session_key(headers: Mapping[str, str], values: Mapping[str, Any], named: tuple[str, ...]) -> str:
    """Return the session key from a header, `metadata.user_id` or `prompt_cache_key`; "" if there is none."""
    for name in named:
        if found := headers.get(name):
            return found
    metadata = values.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, Mapping) else None
    if isinstance(user, str) and user:
        return _session_from_user_id(user)
    cache_key = values.get("prompt_cache_key")
    return cache_key if isinstance(cache_key, str) else ""


def _session_from_user_id(user: str) -> str:
    """Extract the session from Claude Code's `user_id`: JSON, or text with `_session_` before the id."""
    if user.startswith("{"):
        try:
            return str(json.loads(user).get("session_id") or user)
        except (ValueError, AttributeError):
            return user
    return user.rpartition("_session_")[2]


def credential_hash(headers: Mapping[str, str]) -> str:
    """Return a short hash of the credential, which keeps tenants' sessions apart; the credential is not stored."""
    sent = headers.get("authorization") or headers.get("x-api-key") or headers.get("api-key") or ""
    return hash_strings("credential", sent)[:8] if sent else ""
