"""Adapter for litellm.compress: stubs ranked by BM25; its retrieval tool is not used."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import litellm

LITELLM_TRIGGER = 30_000
"""Tokens."""


def start(budget: int | None, _: Any) -> Callable[[list[Any]], list[Any]]:
    """Start with a trigger that the recordings reach; the default of 200,000 tokens would do nothing here."""
    del budget

    def compact(messages: list[Any]) -> list[Any]:
        # it fails on content None, the usual form beside tool calls
        given = [{**m, "content": ""} if m.get("content") is None else m for m in messages]
        shown = litellm.compress(given, "gpt-4o", compression_trigger=LITELLM_TRIGGER)["messages"]
        return [{**m, "content": None} if m.get("content") == "" and m.get("tool_calls") else m for m in shown]

    return compact
