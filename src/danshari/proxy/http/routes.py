"""Map request paths to formats, and choose the upstream of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from danshari.errors import ArgumentError
from danshari.summarizers.endpoint import ENDPOINT_PATHS

UPSTREAM_HEADER = "x-danshari-upstream"
NAMED_UPSTREAM_PATH = "/to/"
"""A path `/to/NAME/…` goes to the upstream of that name, as `/…`."""
DEFAULT_UPSTREAMS: Mapping[str, str] = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
CATCH_ALL_UPSTREAM = "*"
"""Name of the upstream that takes whatever names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRoute:
    """An API path that carries a conversation."""

    suffix: str
    format: str
    vendor: str
    """Name of the upstream where none is named."""


API_ROUTES = (
    ApiRoute(suffix=ENDPOINT_PATHS["anthropic"], format="anthropic", vendor="anthropic"),
    ApiRoute(suffix=ENDPOINT_PATHS["openai-chat"], format="openai-chat", vendor="openai"),
    ApiRoute(suffix=ENDPOINT_PATHS["openai-responses"], format="openai-responses", vendor="openai"),
)


def find_route(method: str, path: str) -> ApiRoute | None:
    """Return the API route of a request; None for paths that are passed through unchanged."""
    if method != "POST":
        return None
    return next((route for route in API_ROUTES if path.rstrip("/").endswith(route.suffix)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamTarget:
    """The upstream of one request: its name and the full URL."""

    name: str
    url: str


def choose_upstream(path: str, query: str, headers: Mapping[str, str], upstreams: Mapping[str, str]) -> UpstreamTarget:
    """Choose the upstream: by header, else by path, else the catch-all, else by format.

    Only configured upstreams can be named; raises ArgumentError with the known names for any other.
    """
    name = headers.get(UPSTREAM_HEADER, "")
    if not name and path.startswith(NAMED_UPSTREAM_PATH):
        name, _, rest = path.removeprefix(NAMED_UPSTREAM_PATH).partition("/")
        path = f"/{rest}"
    known = {**DEFAULT_UPSTREAMS, **upstreams}
    if name and name not in known:
        raise ArgumentError(f"there is no upstream {name!r}; known: {', '.join(sorted(known))}")
    name = name or (CATCH_ALL_UPSTREAM if CATCH_ALL_UPSTREAM in known else _default_upstream(path, headers))
    shown = urlsplit(known[name]).netloc if name == CATCH_ALL_UPSTREAM else name
    return UpstreamTarget(name=shown, url=join_url(known[name], path) + (f"?{query}" if query else ""))


def _default_upstream(path: str, headers: Mapping[str, str]) -> str:
    """Return the provider that a path or its headers imply."""
    route = find_route("POST", path)
    if route is not None:
        return route.vendor
    return "anthropic" if "anthropic-version" in headers or "x-api-key" in headers else "openai"


def join_url(base: str, path: str) -> str:
    """Join a base URL and a path; a version segment such as `v1` that both contain is written once."""
    base = base.rstrip("/")
    last = base.rpartition("/")[2]
    if last[:1] == "v" and last[1:2].isdigit() and path.startswith(f"/{last}/"):
        path = path.removeprefix(f"/{last}")
    return base + path
