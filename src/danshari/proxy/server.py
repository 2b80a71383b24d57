"""Runs the proxy on a port of this machine until it is told to stop."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from danshari.errors import ArgumentError, MissingExtra
from danshari.proxy.settings import Settings

try:
    import uvicorn
except ImportError:
    raise MissingExtra("uvicorn", "proxy") from None

from danshari.proxy.app import create_app


class Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, then say so."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def listening(settings: Settings) -> socket.socket:
    """Take the port; raises ArgumentError if it cannot be had."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((settings.host, settings.port))
    except OSError as error:
        made.close()
        why = error.strerror or str(error)
        raise ArgumentError(
            f"{settings.host}:{settings.port} cannot be listened on: {why}; --port 0 takes any"
        ) from None
    return made


def address(taken: socket.socket) -> str:
    """Give the base URL that clients use."""
    host, port = taken.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{port}"


def server_of(settings: Settings, *, ready: Callable[[], None] = lambda: None) -> uvicorn.Server:
    """Make the server; `ready` is called once it answers."""
    config = uvicorn.Config(
        create_app(settings), log_level="warning", access_log=False, server_header=False, date_header=False,
        proxy_headers=False, timeout_graceful_shutdown=int(settings.drain_seconds), timeout_keep_alive=75,
        h11_max_incomplete_event_size=65_536, backlog=4096,
    )  # fmt: skip
    return Server(config, ready)


def serve(settings: Settings, taken: socket.socket, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until interrupted; running requests are let finish for `drain_seconds`."""
    with contextlib.suppress(KeyboardInterrupt):  # raised again by the server once everything was let finish
        server_of(settings, ready=ready).run(sockets=[taken])
