"""Adapter for furl-ctx: compress() on the full chat history each time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

os.environ.setdefault("FURL_HOME", tempfile.mkdtemp(prefix="furl-"))

from furl_ctx import compress


def start(_: int | None, __: Any) -> Callable[[list[Any]], list[Any]]:
    """Start at the documented defaults."""
    return lambda messages: list(compress(messages, model="gpt-4o", model_limit=200_000).messages)
