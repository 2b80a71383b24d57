"""Keep an LLM agent's context small, valid and sufficient, at a cost that counts the prompt cache.

Public names are imported on first use, so `import danshari` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from danshari.version import __version__

if TYPE_CHECKING:
    from danshari.archive.base import Entry, Filters, Passage
    from danshari.archive.location import open_archive
    from danshari.compaction import Compaction
    from danshari.compactor import Compactor, compact
    from danshari.core.handover import Handover
    from danshari.core.policy import Policy
    from danshari.core.pricing import Prices
    from danshari.core.summary import Reply, Request
    from danshari.errors import (
        ArchiveError,
        ArgumentError,
        DanshariError,
        FormatError,
        MissingExtra,
        ModelError,
        PolicyError,
        RecallError,
        SessionError,
        VersionError,
    )
    from danshari.formats import convert
    from danshari.pipeline.handover import handover, handover_text
    from danshari.summarizers import Summarizer, endpoint, provider

__all__ = [
    "ArchiveError",
    "ArgumentError",
    "Compaction",
    "Compactor",
    "DanshariError",
    "Entry",
    "Filters",
    "FormatError",
    "Handover",
    "MissingExtra",
    "ModelError",
    "Passage",
    "Policy",
    "PolicyError",
    "Prices",
    "RecallError",
    "Reply",
    "Request",
    "SessionError",
    "Summarizer",
    "VersionError",
    "__version__",
    "compact",
    "convert",
    "endpoint",
    "handover",
    "handover_text",
    "open_archive",
    "provider",
]

_EXPORT_MODULES = {
    "Entry": "archive.base",
    "Filters": "archive.base",
    "Passage": "archive.base",
    "open_archive": "archive.location",
    "Compaction": "compaction",
    "Compactor": "compactor",
    "compact": "compactor",
    "Policy": "core.policy",
    "Prices": "core.pricing",
    "convert": "formats",
    "Handover": "core.handover",
    "Reply": "core.summary",
    "Request": "core.summary",
    "Summarizer": "summarizers",
    "endpoint": "summarizers",
    "provider": "summarizers",
    "handover": "pipeline.handover",
    "handover_text": "pipeline.handover",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use. Raises AttributeError if it is not in `__all__`."""
    if name not in __all__:
        raise AttributeError(f"module 'danshari' has no attribute {name!r}")
    value = getattr(import_module(f"danshari.{_EXPORT_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the module's names, the ones not imported yet included."""
    return sorted({*globals(), *__all__})
