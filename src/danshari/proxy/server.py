"""Run the proxy on a local port until it is stopped."""

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
from danshari.proxy.http.server_protocol import WithoutUpgrades


class NotifyingServer(uvicorn.Server):
    """A uvicorn server that calls `ready` once it accepts requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, then call `ready`."""
        await super().startup(sockets)
        if self.started:
            self._ready()


def bind_socket(settings: Settings) -> socket.socket:
    """Bind the configured host and port; raises ArgumentError if that is impossible."""
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


def base_url_of(taken: socket.socket) -> str:
    """Return the base URL for clients of a bound socket."""
    host, port = taken.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host and host[0] != '[' else host}:{port}"


def create_server(
    settings: Settings, *, ready: Callable[[], None] = lambda: None, quiet: bool = False
) -> uvicorn.Server:
    """Create the server; `ready` is called once it accepts requests. `quiet` leaves the logs to the caller."""
    config = uvicorn.Config(
        create_app(settings), http=WithoutUpgrades, ws="none", log_level="warning",
        access_log=False, server_header=False, date_header=False,
        proxy_headers=False, timeout_graceful_shutdown=int(settings.drain_seconds), timeout_keep_alive=75,
        h11_max_incomplete_event_size=65_536, backlog=4096,
        log_config=None if quiet else uvicorn.config.LOGGING_CONFIG,
    )  # fmt: skip
    return NotifyingServer(config, ready)


def serve(settings: Settings, taken: socket.socket, *, ready: Callable[[], None] = lambda: None) -> None:
    """Serve on a bound socket until interrupted; running requests get `drain_seconds` to finish."""
    with contextlib.suppress(KeyboardInterrupt):  # raised again by the server once everything was let finish
        create_server(settings, ready=ready).run(sockets=[taken])
