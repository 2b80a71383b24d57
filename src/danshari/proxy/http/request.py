"""One client request as ASGI delivers it: head, size-limited body, and the response sent so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from typing import Any

from danshari.formats import FORMATS, Format

AsgiScope = MutableMapping[str, Any]
AsgiReceive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]
CONNECTION_HEADERS = frozenset((
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
))  # fmt: skip
"""Headers that concern one connection only (RFC 9110, 7.6.1)."""


UPGRADE_HEADER = "x-danshari-upgrade"
"""Header under which the server tells what other protocol a client offered to speak."""


class ClientGone(Exception):  # noqa: N818  (says what happened)
    """The client disconnected."""


class BodyTooLarge(Exception):  # noqa: N818
    """The request body is larger than the limit."""


def find_request_format(method: str, path: str) -> Format | None:
    """Return the format of a request to a model by its path; None for any other request."""
    return next((w for w in FORMATS.values() if method == "POST" and w.api.matches_path(path)), None)


class ClientRequest:
    """One client request and the response to it."""

    def __init__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        """Read the head of an ASGI request; the body is read later."""
        self._receive, self._send = receive, send
        self.method: str = scope["method"]
        self.path: str = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
        self.query: str = scope.get("query_string", b"").decode("latin-1")
        self.raw_headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in self.raw_headers}
        """By name in lower case; of a header sent twice, the last."""
        self.wire: Format | None = find_request_format(self.method, self.path)
        """The format of a request to a model; None for requests that are passed through unread."""
        self.status = 0
        """Status that was answered; 0: nothing yet."""
        self.extra: list[tuple[bytes, bytes]] = []
        """The proxy's own headers for the answer."""
        self._ended = False
        self._whole = asyncio.Event()
        """Set once the body was read."""
        self.left = False
        """Whether the client left before that."""

    @property
    def implied_format(self) -> Format:
        """The format of the request, else that of the provider whose headers it has; errors are written in it."""
        others = (wire for wire in FORMATS.values() if wire.api.claims_request(self.headers, self.path))
        return self.wire or next(others, FORMATS["openai-chat"])

    @property
    def named_headers(self) -> list[tuple[str, str]]:
        """Every header with its name in lower case, repeated ones too."""
        return [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in self.raw_headers]

    @property
    def wants_websocket(self) -> bool:
        """Whether the client asks to go on with web sockets."""
        return "websocket" in (self.headers.get("upgrade") or self.headers.get(UPGRADE_HEADER) or "").lower()

    @property
    def has_body(self) -> bool:
        """Whether the request has a body."""
        return "content-length" in self.headers or "transfer-encoding" in self.headers

    async def body(self, largest: int, seconds: float) -> bytes:
        """Read the whole body, of at most `largest` bytes, within `seconds`.

        Raises BodyTooLarge, ClientGone or TimeoutError.
        """
        told = self.headers.get("content-length", "")
        if told.isdecimal() and int(told) > largest:
            raise BodyTooLarge
        parts: list[bytes] = []
        size = 0
        async with asyncio.timeout(seconds):
            async for part in self.parts():
                size += len(part)
                if size > largest:
                    raise BodyTooLarge
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raises ClientGone if the client disconnects."""
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.left = True
                raise ClientGone
            if part := message.get("body", b""):
                yield part
            more = message.get("more_body", False)
        self._whole.set()

    async def wait_for_disconnect(self) -> None:
        """Return once the client disconnects after its body was read."""
        await self._whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the status and headers of the response."""
        self.status = status
        self._whole.set()  # what is not read of the body by now will not be
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self.extra]})

    async def write(self, chunk: bytes, *, more: bool = True) -> None:
        """Send bytes of the response body; waits while the client does not read."""
        self._ended = not more
        await self._send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def refuse(self, status: int, text: str) -> None:
        """Respond with an error of the proxy's own, in the provider's format."""
        body = self.implied_format.api.render_error(status, f"danshari: {text}")
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.start(status, head)
        await self.write(body, more=False)

    def add_header(self, name: str, value: object) -> None:
        """Add a header `x-danshari-NAME` to the response; the value is cut to 300 ASCII characters."""
        text = str(value).encode("ascii", "replace").replace(b"\n", b" ").replace(b"\r", b" ")
        self.extra.append((f"x-danshari-{name}".encode(), text[:300]))


async def run_until_disconnect(request: ClientRequest, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it is done or the client disconnects, then cancel it and raise ClientGone."""
    task, gone = asyncio.create_task(work), asyncio.create_task(request.wait_for_disconnect())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
