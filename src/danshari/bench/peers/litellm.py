"""litellm.compress: stubs ranked by BM25 over a trigger; the retrieval tool it also returns is not used here."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

import litellm


def start(budget: int | None, _: Any) -> Callable[[list[Any]], list[Any]]:
    """The budget is its trigger (default 200,000 tokens)."""

    def compact(messages: list[Any]) -> list[Any]:
        # it fails on content None, the usual form beside tool calls
        given = [{**m, "content": ""} if m.get("content") is None else m for m in messages]
        shown = litellm.compress(given, "gpt-4o", compression_trigger=budget or 200_000)["messages"]
        return [{**m, "content": None} if m.get("content") == "" and m.get("tool_calls") else m for m in shown]

    return compact
