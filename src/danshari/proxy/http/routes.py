"""Which paths carry a conversation, in which format, and where requests go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from danshari.errors import ArgumentError
from danshari.summarizers.endpoint import PATHS

UPSTREAM_HEADER = "x-danshari-upstream"
NAMED = "/to/"
"""A path `/to/NAME/…` goes to the upstream of that name, as `/…`."""
DEFAULTS: Mapping[str, str] = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
EVERYTHING = "*"
"""Name of the upstream that takes whatever names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One path that carries a conversation."""

    suffix: str
    format: str
    vendor: str
    """Name of the upstream where none is named."""


ROUTES = (
    Route(suffix=PATHS["anthropic"], format="anthropic", vendor="anthropic"),
    Route(suffix=PATHS["openai-chat"], format="openai-chat", vendor="openai"),
    Route(suffix=PATHS["openai-responses"], format="openai-responses", vendor="openai"),
)


def route_of(method: str, path: str) -> Route | None:
    """Give the route of a request; None for paths that are passed through untouched."""
    if method != "POST":
        return None
    return next((route for route in ROUTES if path.rstrip("/").endswith(route.suffix)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a request goes: the upstream's name and the whole URL."""

    name: str
    url: str


def target_of(path: str, query: str, headers: Mapping[str, str], upstreams: Mapping[str, str]) -> Target:
    """Choose the upstream: by header, by path, by format, else the one for everything.

    Only upstreams from the configuration can be named; raises ArgumentError listing them for any other.
    """
    name = headers.get(UPSTREAM_HEADER, "")
    if not name and path.startswith(NAMED):
        name, _, rest = path.removeprefix(NAMED).partition("/")
        path = f"/{rest}"
    known = {**DEFAULTS, **upstreams}
    if name and name not in known:
        raise ArgumentError(f"there is no upstream {name!r}; known: {', '.join(sorted(known))}")
    name = name or (EVERYTHING if EVERYTHING in known else _vendor(path, headers))
    shown = urlsplit(known[name]).netloc if name == EVERYTHING else name
    return Target(name=shown, url=joined(known[name], path) + (f"?{query}" if query else ""))


def _vendor(path: str, headers: Mapping[str, str]) -> str:
    route = route_of("POST", path)
    if route is not None:
        return route.vendor
    return "anthropic" if "anthropic-version" in headers or "x-api-key" in headers else "openai"


def joined(base: str, path: str) -> str:
    """Join a base and a path; a version that both hold stands once."""
    base = base.rstrip("/")
    last = base.rpartition("/")[2]
    if last[:1] == "v" and last[1:2].isdigit() and path.startswith(f"/{last}/"):
        path = path.removeprefix(f"/{last}")
    return base + path
