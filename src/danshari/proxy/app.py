"""The application: the proxy's own pages, and everything else relayed."""

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
from danshari.proxy.indexer import Indexer
from danshari.proxy.observe.accounting import Accounts
from danshari.proxy.observe.metrics import Counts
from danshari.proxy.observe.status import status_of
from danshari.proxy.relay import Relay
from danshari.proxy.sessions.registry import Keepers


def create_app(settings: Settings | None = None) -> Starlette:
    """Make the ASGI application: `/healthz`, `/metrics`, `/status.json`, a page at `/`, the rest goes upstream."""
    settings = (settings or Settings()).checked()
    archive = archive_of(settings)
    keepers = Keepers(settings, archive)
    accounts = Accounts(Counts())
    relay = Relay(settings, keepers, accounts, Indexer(archive))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await relay.open()
        yield
        await relay.close()

    async def page(request: Request) -> Response:
        return guarded(request, HTMLResponse(data.text("proxy.html")))

    async def status(request: Request) -> Response:
        return guarded(request, JSONResponse(status_of(settings, keepers)))

    async def metrics(request: Request) -> Response:
        return guarded(request, Response(accounts.counts.text(keepers), media_type="text/plain; version=0.0.4"))

    async def health(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    def guarded(request: Request, response: Response) -> Response:
        """Own pages are for who may use the proxy: by token, or from this machine under this machine's name."""
        given = {**dict(request.headers), **dict(request.query_params)}
        if not relay.admits(given):
            return PlainTextResponse("send this proxy's token as x-danshari-token\n", status_code=401)
        name = request.url.hostname or ""
        if not settings.open and name not in ("127.0.0.1", "localhost", "::1", "testserver"):
            return PlainTextResponse("ask for this page by the address 127.0.0.1\n", status_code=421)
        return response

    app = Starlette(
        routes=[
            Route("/", page), Route("/healthz", health), Route("/metrics", metrics), Route("/status.json", status),
            Mount("/", app=relay),
        ],
        lifespan=lifespan,
    )  # fmt: skip
    app.state.relay, app.state.keepers, app.state.settings = relay, keepers, settings
    return app


def archive_of(settings: Settings) -> Archive:
    """Open the archive that the settings name."""
    if settings.archive == ":memory:":
        return SqliteArchive(":memory:", defer=True)
    return open_archive(settings.archive or None, defer=True)
