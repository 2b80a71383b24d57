"""Which HTTP proxy stands before an upstream, by the environment; `.netrc` is not read, for it holds credentials."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass


class Gates:
    """The environment's proxies, as they were at the start."""

    def __init__(self) -> None:
        self._known = getproxies()
        self._by_place = lru_cache(maxsize=64)(self._of)

    def of(self, url: str) -> str | None:
        """Give the proxy before a URL; None if there is none."""
        parts = urlsplit(url)
        return self._by_place(parts.scheme, parts.hostname or "") if self._known else None

    def _of(self, scheme: str, host: str) -> str | None:
        if not host or proxy_bypass(host):
            return None
        return self._known.get(scheme) or self._known.get("all")
