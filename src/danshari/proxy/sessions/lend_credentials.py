"""Lends the request that is being answered to the door by which a hand-over is asked of the client's own model."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator

import aiohttp
from yarl import URL

from danshari.pipeline.summarize import CALLER, Caller
from danshari.proxy.body.outgoing import Sending
from danshari.proxy.http.headers import forwarded, unpacked
from danshari.proxy.http.request import Call
from danshari.proxy.http.routes import Target


@contextlib.asynccontextmanager
async def lent(
    client: aiohttp.ClientSession | None, call: Call, target: Target, sending: Sending
) -> AsyncIterator[None]:
    """Let a hand-over be asked with the client's own headers while its request is decided on; then they are dropped."""
    keeper = sending.keeper
    door = keeper.door if keeper is not None else None
    if keeper is None or door is None or client is None:
        yield
        return
    headers = forwarded(call, sending)

    async def post(body: bytes) -> tuple[int, bytes]:
        async with client.post(URL(target.url, encoded=True), data=body, headers=headers) as answer:
            return answer.status, unpacked(await answer.read(), answer.headers.get("content-encoding", ""))

    door.post, door.model = post, str(sending.body.values.get("model") or "") if sending.body else ""
    left = threading.Event()
    token = CALLER.set(Caller(loop=asyncio.get_running_loop(), gone=left.is_set))
    try:
        yield
    except asyncio.CancelledError:
        left.set()  # the summary is given up, so that its thread is free again
        raise
    finally:
        CALLER.reset(token)
        if keeper.compactor.pending is None:  # a summary in the background still needs them
            door.post = None
