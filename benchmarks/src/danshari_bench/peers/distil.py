"""Adapters for distil-llm: its library call and its OpenAI proxy adapter, both stateless."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

os.environ.setdefault("DISTIL_HOME", tempfile.mkdtemp(prefix="distil-"))
os.environ.setdefault("DISTIL_NO_TELEMETRY", "1")

from distil import compress_messages
from distil.adapters.openai import compress_chat_completions


def library(_: int | None, __: Any) -> Callable[[list[Any]], list[Any]]:
    """Start the library call."""
    return lambda messages: list(compress_messages(messages).messages)


def proxy(_: int | None, __: Any) -> Callable[[list[Any]], list[Any]]:
    """Start the proxy adapter."""
    return lambda messages: list(compress_chat_completions(messages, persist=False)[0])
