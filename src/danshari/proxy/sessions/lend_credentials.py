"""Let the summarizer use the in-flight client request's URL and credentials; they are dropped when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator

import aiohttp
from yarl import URL

from danshari.pipeline.summarize import Caller, current_caller
from danshari.proxy.body.outgoing import OutgoingRequest
from danshari.proxy.http.headers import decompress_beginning, upstream_headers
from danshari.proxy.http.request import ClientRequest
from danshari.proxy.http.routes import UpstreamTarget


@contextlib.asynccontextmanager
async def connect_client_model(
    client: aiohttp.ClientSession | None, call: ClientRequest, target: UpstreamTarget, sending: OutgoingRequest
) -> AsyncIterator[None]:
    """Let the session's summarizer send requests with the client's headers while the block runs.

    Does nothing if the session has no client model. Access is kept longer while a summary runs in the
    background.
    """
    keeper = sending.keeper
    door = keeper.door if keeper is not None else None
    if keeper is None or door is None or client is None:
        yield
        return
    headers = upstream_headers(call, sending)

    async def post(body: bytes) -> tuple[int, bytes]:
        async with client.post(URL(target.url, encoded=True), data=body, headers=headers) as answer:
            return answer.status, decompress_beginning(await answer.read(), answer.headers.get("content-encoding", ""))

    door.post, door.model = post, str(sending.body.values.get("model") or "") if sending.body else ""
    left = threading.Event()
    token = current_caller.set(Caller(loop=asyncio.get_running_loop(), gone=left.is_set))
    try:
        yield
    except asyncio.CancelledError:
        left.set()  # the summary is given up, so that its thread is free again
        raise
    finally:
        current_caller.reset(token)
        if keeper.compactor.pending is None:  # a summary in the background still needs them
            door.post = None
