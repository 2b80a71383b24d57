"""Summarizers: any callable, any endpoint that speaks a known format, other providers by an extra.

Names are imported on first use: an endpoint needs an HTTP client, which costs more than a compaction.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from danshari.summarizers.base import Summarizer, SummarizerFunction, as_reply, as_summarizer, call_summarizer
    from danshari.summarizers.endpoint import endpoint
    from danshari.summarizers.providers import provider

__all__ = ["Summarizer", "SummarizerFunction", "as_reply", "as_summarizer", "call_summarizer", "endpoint", "provider"]
_MODULES = {"endpoint": "endpoint", "provider": "providers"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'danshari.summarizers' has no attribute {name!r}")
    value = getattr(import_module(f"danshari.summarizers.{_MODULES.get(name, 'base')}"), name)
    globals()[name] = value
    return value
