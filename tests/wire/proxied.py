"""A scripted upstream and the proxy on real sockets of this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from danshari.bench.upstream import ScriptedUpstream
from danshari.proxy.serving import address, listening, server_of
from danshari.proxy.settings import Settings


@contextmanager
def running(server: uvicorn.Server, taken: Any, up: threading.Event) -> Iterator[str]:
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    assert up.wait(20)
    try:
        yield address(taken)
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def upstream_at(app: ScriptedUpstream) -> Iterator[str]:
    up = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            up.set()

    config = uvicorn.Config(app, log_level="critical", access_log=False, timeout_keep_alive=75)
    with running(Server(config), listening(Settings(port=0)), up) as base:
        yield base


@contextmanager
def proxy_at(upstream: str, folder: Path | None = None, **settings: Any) -> Iterator[tuple[str, Any]]:
    """Give the proxy's address and its application."""
    up = threading.Event()
    archive = str(folder / "archive.db") if folder is not None else ":memory:"
    made = Settings(port=0, upstreams={"*": upstream}, archive=archive, drain_seconds=1, **settings)
    server = server_of(made, ready=up.set)
    with running(server, listening(made), up) as base:
        yield base, server.config.app
