"""One request of a client, as ASGI hands it over: its head, its body within limits, and what was answered so far."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from typing import Any

from danshari.proxy.http.errors import refusal
from danshari.proxy.http.routes import Route, route_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HOPS = frozenset((
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
))  # fmt: skip
"""Headers that concern one connection only (RFC 9110, 7.6.1)."""


class Gone(Exception):  # noqa: N818  (says what happened)
    """The client left."""


class TooLarge(Exception):  # noqa: N818
    """The body is larger than the limit."""


class Call:
    """One request being answered."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.method: str = scope["method"]
        self.path: str = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
        self.query: str = scope.get("query_string", b"").decode("latin-1")
        self.raw_headers: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in self.raw_headers}
        """By name in lower case; of a header sent twice, the last."""
        self.route: Route | None = route_of(self.method, self.path)
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
    def format(self) -> str:
        """The format in which errors are written."""
        return (
            self.route.format if self.route else "anthropic" if "anthropic-version" in self.headers else "openai-chat"
        )

    async def body(self, largest: int, seconds: float) -> bytes:
        """Read the whole body; raises TooLarge, Gone, TimeoutError."""
        told = self.headers.get("content-length", "")
        if told.isdecimal() and int(told) > largest:
            raise TooLarge
        parts: list[bytes] = []
        size = 0
        async with asyncio.timeout(seconds):
            async for part in self.parts():
                size += len(part)
                if size > largest:
                    raise TooLarge
                parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def parts(self) -> AsyncIterator[bytes]:
        """Give the body as it arrives; raises Gone if the client leaves."""
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.left = True
                raise Gone
            if part := message.get("body", b""):
                yield part
            more = message.get("more_body", False)
        self._whole.set()

    async def gone(self) -> None:
        """Return when the client has left after its body was read."""
        await self._whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the head of the answer."""
        self.status = status
        self._whole.set()  # what is not read of the body by now will not be
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self.extra]})

    async def write(self, chunk: bytes, *, more: bool = True) -> None:
        """Send bytes of the answer; waits while the client does not take them."""
        self._ended = not more
        await self._send({"type": "http.response.body", "body": chunk, "more_body": more})

    async def refuse(self, status: int, text: str) -> None:
        """Answer with an error of the proxy's own, in the provider's shape."""
        body = refusal(self.format, status, text)
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.start(status, head)
        await self.write(body, more=False)

    def note(self, name: str, value: object) -> None:
        """Add a header `x-danshari-NAME` to the answer."""
        text = str(value).encode("ascii", "replace").replace(b"\n", b" ").replace(b"\r", b" ")
        self.extra.append((f"x-danshari-{name}".encode(), text[:300]))


async def until_gone(call: Call, work: Coroutine[Any, Any, None]) -> None:
    """Run until done, or until the client leaves: then the upstream is left too. Raises Gone."""
    task, gone = asyncio.create_task(work), asyncio.create_task(call.gone())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Gone
        task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)
