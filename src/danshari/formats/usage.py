"""Reported token usage in every provider's spelling."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from danshari.errors import ArgumentError
from danshari.formats import FORMATS
from danshari.formats.api import ProviderApi, TokenUsage


def read_usage(usage: Any, api: ProviderApi | None = None) -> TokenUsage:
    """Read a usage report: a number of input tokens, an SDK's object or dataclass, or its dict; None: nothing reported.

    The spelling of `api`, the conversation's own, is tried first. Raises ArgumentError if `usage` is nothing of this.
    """
    if isinstance(usage, int | float) and not isinstance(usage, bool):
        return TokenUsage(total=float(usage))
    if hasattr(usage, "model_dump"):
        usage = usage.model_dump()
    elif dataclasses.is_dataclass(usage) and not isinstance(usage, type):
        usage = dataclasses.asdict(usage)
    if usage is None:
        return TokenUsage()
    if not isinstance(usage, Mapping):
        raise ArgumentError(
            "usage must be a number of tokens, a usage object or its dict"
            + ("" if isinstance(usage, bool) else f", not {type(usage).__name__}")
        )
    if api is not None and (found := api.read_usage(usage)) is not None:
        return found
    others = (wire.api.read_usage(usage) for wire in FORMATS.values())
    return next((found for found in others if found is not None), TokenUsage())
