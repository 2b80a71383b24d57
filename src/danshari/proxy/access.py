"""Who may use the proxy: its token, and on loopback no web page, by whatever name it reached this machine."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from danshari.proxy.http.upstream import TOKEN_HEADER
from danshari.proxy.settings import Settings


def is_authorized(settings: Settings, headers: Mapping[str, str]) -> bool:
    """Return whether the headers carry the token, or none is required."""
    given = headers.get(TOKEN_HEADER, "")
    return not settings.token or hmac.compare_digest(given.encode(), settings.token.encode())


def refusal(settings: Settings, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Return status and text for a caller that may not use the proxy; None if it may.

    A proxy on loopback trusts what runs on this machine, so it refuses host names of elsewhere (DNS rebinding) and
    requests that a browser sends for a web page of elsewhere.
    """
    if not is_authorized(settings, headers):
        return 401, f"send this proxy's token as {TOKEN_HEADER}"
    if settings.is_public:
        return None
    host = headers.get("host", "")
    if host and not _is_near(settings, f"//{host}"):
        return (
            421,
            f"ask for this proxy as 127.0.0.1, not as {host}; the setting `hosts` allows more names",
        )
    origin = headers.get("origin", "")
    of_page = origin == "null" or (origin.startswith(("http://", "https://")) and not _is_near(settings, origin))
    if of_page or headers.get("sec-fetch-site") == "cross-site":
        return 403, f"web pages of elsewhere ({origin or 'cross-site'}) may not use this proxy"
    return None


def _is_near(settings: Settings, url: str) -> bool:
    """Return whether a URL's host is this machine, or one of the names that are allowed."""
    try:
        name = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost") or name in settings.host_names:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
