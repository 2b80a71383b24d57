"""A summarizer that asks the client's own model: same upstream, same credentials, warm prompt cache."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from danshari.core.summary import Request
from danshari.errors import ModelError
from danshari.summarizers import Summarizer
from danshari.summarizers.endpoint import build_summary_body

PostBody = Callable[[bytes], Awaitable[tuple[int, bytes]]]
"""Sends a body where the client's own request goes, with its headers; gives status and answer."""


class ClientModel:
    """Asks the client's own model for a hand-over, through the request that is in flight.

    `post` holds the credentials, and is set only while a request is handled or a summary runs in the
    background.
    """

    def __init__(self, format_name: str) -> None:
        self._format = format_name
        self.post: PostBody | None = None
        self.model = ""

    def summarizer(self) -> Summarizer:
        """Return a Summarizer that asks this model."""
        return Summarizer(door=self._ask, same=True, name="the client's own model")

    async def _ask(self, request: Request) -> Any:
        """Send one summary request and return the parsed response.

        Raises ModelError if no client request is in flight, or the upstream does not answer 200 with JSON.
        """
        post = self.post
        if post is None:
            raise ModelError("no request is being answered whose credentials could be used")
        body = build_summary_body(request, self._format, self.model)  # type: ignore[arg-type]
        status, answer = await post(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        if status != 200:
            raise ModelError(f"the upstream answered {status}: {answer[:200].decode('utf-8', 'replace')}")
        try:
            return json.loads(answer)
        except ValueError:
            raise ModelError("the upstream answered no JSON") from None
