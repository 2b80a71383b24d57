"""Choose the HTTP proxy for an upstream from the environment variables.

`.netrc` is not read, because it holds credentials.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


class EnvironmentProxies:
    """The HTTP proxies named by the environment when the proxy started."""

    def __init__(self) -> None:
        self._known = getproxies()
        self._by_place = lru_cache(maxsize=64)(self._find_proxy)

    def proxy_for(self, url: str) -> str | None:
        """Return the URL of the HTTP proxy for an upstream URL; None if there is none."""
        parts = urlsplit(url)
        return self._by_place(parts.scheme, parts.hostname or "") if self._known else None

    def _find_proxy(self, scheme: str, host: str) -> str | None:
        """Look the proxy up by scheme, after the exceptions of `no_proxy`."""
        if not host or proxy_bypass(host):
            return None
        return self._known.get(scheme) or self._known.get("all")
