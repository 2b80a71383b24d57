"""Adapter for cliffcompaction: its proxy engine in process; it finds earlier replacements by prefix hash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cliffcompaction.config import Config
from cliffcompaction.dialects.openai_chat import DIALECT
from cliffcompaction.engine import Engine


def start(budget: int | None, _: Any) -> Callable[[list[Any]], list[Any]]:
    """Start an engine; the budget is its threshold (default 200,000 tokens by characters / 4)."""
    engine = Engine(Config(threshold_tokens=budget) if budget else Config())
    return lambda messages: list(engine.prepare({"messages": messages}, DIALECT).outgoing_body()["messages"])
