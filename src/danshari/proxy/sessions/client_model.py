"""A summarizer that asks the client's own model: same upstream, same credentials, warm prompt cache."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from danshari.core.summary import Request
from danshari.errors import ModelError
from danshari.formats import Format
from danshari.pipeline.summarize import Caller, current_caller
from danshari.summarizers.base import Summarizer

PostBody = Callable[[bytes], Awaitable[tuple[int, bytes]]]
"""Sends a body where the client's own request goes, with its headers; gives status and answer."""


class ClientModel:
    """Asks the client's own model for a hand-over, through the request that is in flight.

    `post` holds the credentials, and is set only while a request is handled or a summary runs in the
    background.
    """

    def __init__(self, wire: Format) -> None:
        self._wire = wire
        self.post: PostBody | None = None
        self.model = ""

    def summarizer(self) -> Summarizer:
        """Return a Summarizer that asks this model."""
        return Summarizer(function=self._ask, same_model=True, name="the client's own model")

    async def _ask(self, request: Request) -> Any:
        """Send one summary request and return the parsed response.

        Raises ModelError if no client request is in flight, or the upstream does not answer 200 with JSON.
        """
        post = self.post
        if post is None:
            raise ModelError("no request is being answered whose credentials could be used")
        body = self._wire.api.summary_body(request, self.model)
        status, answer = await post(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        if status != 200:
            raise ModelError(f"the upstream answered {status}: {answer[:200].decode('utf-8', 'replace')}")
        try:
            return json.loads(answer)
        except ValueError:
            raise ModelError("the upstream answered no JSON") from None

    @contextlib.asynccontextmanager
    async def connected(self, post: PostBody, model: str, keep: Callable[[], bool]) -> AsyncIterator[None]:
        """Let summaries be asked through `post` while the block runs, and longer while `keep` says so.

        The event loop is made known to the pipeline, and a cancelled block gives a running summary up.
        """
        self.post, self.model = post, model
        left = threading.Event()
        token = current_caller.set(Caller(loop=asyncio.get_running_loop(), gone=left.is_set))
        try:
            yield
        except asyncio.CancelledError:
            left.set()  # the summary is given up, so that its thread is free again
            raise
        finally:
            current_caller.reset(token)
            if not keep():  # a summary in the background still needs the credentials
                self.post = None
