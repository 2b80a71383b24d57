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
from danshari.proxy.access import refusal
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
        return restrict_access(settings, request, HTMLResponse(data.package_text("proxy.html")))

    async def status(request: Request) -> Response:
        return restrict_access(
            settings, request, JSONResponse(proxy_status(settings, sessions, recorder.metrics.reasons))
        )

    async def metrics(request: Request) -> Response:
        return restrict_access(
            settings, request, Response(recorder.metrics.render(sessions), media_type="text/plain; version=0.0.4")
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


def restrict_access(settings: Settings, request: Request, response: Response) -> Response:
    """Return the response only to callers that may use the proxy; a token may stand in the URL too."""
    refused = refusal(settings, {**dict(request.query_params), **dict(request.headers)})
    return PlainTextResponse(f"{refused[1]}\n", status_code=refused[0]) if refused else response


def open_proxy_archive(settings: Settings) -> Archive:
    """Open the archive that the settings name; it indexes in the background."""
    if settings.archive == ":memory:":
        return SqliteArchive(":memory:", defer=True)
    return open_archive(settings.archive or None, defer=True)
