"""Adapter for headroom-ai without its text model, which would need a download."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HEADROOM_TELEMETRY", "off")

from headroom import compress


def start(_: int | None, __: Any) -> Callable[[list[Any]], list[Any]]:
    """Return a function that compresses the previous result, frozen, together with the new messages."""
    seen = 0
    state: list[Any] = []

    def compact(messages: list[Any]) -> list[Any]:
        nonlocal seen, state
        frozen = len(state)
        work = [*state, *messages[seen:]]
        result = compress(
            work, model="gpt-4o", model_limit=200_000, kompress_model="disabled", frozen_message_count=frozen
        )
        state, seen = list(result.messages), len(messages)
        return list(state)

    return compact
