"""Hand-overs written by the client's own model: the same upstream, the same credentials, the warm prefix."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from danshari.core.summary import Request
from danshari.errors import ModelError
from danshari.summarizers import Summarizer
from danshari.summarizers.endpoint import body_of

Post = Callable[[bytes], Awaitable[tuple[int, bytes]]]
"""Sends a body where the client's own request goes, with its headers; gives status and answer."""


class Door:
    """Asks through the request that is being answered; what it needs for that is not kept longer than the request."""

    def __init__(self, format_name: str) -> None:
        self._format = format_name
        self.post: Post | None = None
        self.model = ""

    def summarizer(self) -> Summarizer:
        """Give it as the compactor takes it."""
        return Summarizer(door=self._ask, same=True, name="the client's own model")

    async def _ask(self, request: Request) -> Any:
        post = self.post
        if post is None:
            raise ModelError("no request is being answered whose credentials could be used")
        body = body_of(request, self._format, self.model)  # type: ignore[arg-type]
        status, answer = await post(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
        if status != 200:
            raise ModelError(f"the upstream answered {status}: {answer[:200].decode('utf-8', 'replace')}")
        try:
            return json.loads(answer)
        except ValueError:
            raise ModelError("the upstream answered no JSON") from None
