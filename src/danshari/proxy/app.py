"""The Starlette application: the proxy's own pages, and a mount that relays every other path."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from danshari.archive.base import Archive
from danshari.archive.location import open_archive
from danshari.archive.sqlite import SqliteArchive
from danshari.errors import MissingExtra
from danshari.proxy.settings import Settings

try:
    import aiohttp as _aiohttp  # noqa: F401
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
    from starlette.routing import Mount, Route
except ImportError as missing:
    raise MissingExtra(missing.name or "starlette", "proxy") from None

from danshari import data
from danshari.proxy.indexer import BackgroundIndexer
from danshari.proxy.observe.accounting import UsageRecorder
from danshari.proxy.observe.metrics import ProxyMetrics
from danshari.proxy.observe.status import proxy_status
from danshari.proxy.relay import Relay
from danshari.proxy.sessions.registry import SessionRegistry


def create_app(settings: Settings | None = None) -> Starlette:
    """Create the ASGI application.

    It serves `/healthz`, `/metrics`, `/status.json` and a page at `/`; every other path goes upstream.
    """
    settings = (settings or Settings()).validate()
    archive = open_proxy_archive(settings)
    sessions = SessionRegistry(settings, archive)
    recorder = UsageRecorder(ProxyMetrics())
    relay = Relay(settings, sessions, recorder, BackgroundIndexer(archive))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await relay.open()
        yield
        await relay.close()

    async def page(request: Request) -> Response:
        return restrict_access(relay, request, HTMLResponse(data.package_text("proxy.html")))

    async def status(request: Request) -> Response:
        return restrict_access(relay, request, JSONResponse(proxy_status(settings, sessions)))

    async def metrics(request: Request) -> Response:
        return restrict_access(
            relay, request, Response(recorder.metrics.render(sessions), media_type="text/plain; version=0.0.4")
        )

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    app = Starlette(
        routes=[
            Route("/", page), Route("/healthz", health), Route("/metrics", metrics), Route("/status.json", status),
            Mount("/", app=relay),
        ],
        lifespan=lifespan,
    )  # fmt: skip
    app.state.relay, app.state.sessions, app.state.settings = relay, sessions, settings
    return app


def restrict_access(relay: Relay, request: Request, response: Response) -> Response:
    """Return the response only to callers that may see the proxy's own pages.

    The token is checked where one is set. A proxy on loopback also requires a loopback host name in the URL, against
    DNS rebinding.
    """
    if not relay.is_authorized({**dict(request.headers), **dict(request.query_params)}):
        return PlainTextResponse("send this proxy's token as x-danshari-token\n", status_code=401)
    name = request.url.hostname or ""
    if not relay.settings.is_public and name not in ("127.0.0.1", "localhost", "::1", "testserver"):
        return PlainTextResponse("ask for this page by the address 127.0.0.1\n", status_code=421)
    return response


def open_proxy_archive(settings: Settings) -> Archive:
    """Open the archive that the settings name; it indexes in the background."""
    if settings.archive == ":memory:":
        return SqliteArchive(":memory:", defer=True)
    return open_archive(settings.archive or None, defer=True)
