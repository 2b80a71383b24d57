"""danshari keeps the context an LLM agent sends small, valid and sufficient, at a price that survives the cache.

Names are imported on first use, so that `import danshari` costs an agent's start-up next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from danshari.version import __version__

if TYPE_CHECKING:
    from danshari.compaction import Compaction
    from danshari.compactor import Compactor, compact
    from danshari.core.policy import Policy
    from danshari.core.prices import Prices
    from danshari.errors import (
        ArgumentError,
        DanshariError,
        FormatError,
        MissingExtra,
        PolicyError,
        RecallError,
        SessionError,
        VersionError,
    )
    from danshari.formats import convert

__all__ = [
    "ArgumentError",
    "Compaction",
    "Compactor",
    "DanshariError",
    "FormatError",
    "MissingExtra",
    "Policy",
    "PolicyError",
    "Prices",
    "RecallError",
    "SessionError",
    "VersionError",
    "__version__",
    "compact",
    "convert",
]

_HOMES = {
    "Compaction": "compaction",
    "Compactor": "compactor",
    "compact": "compactor",
    "Policy": "core.policy",
    "Prices": "core.prices",
    "convert": "formats",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'danshari' has no attribute {name!r}")
    value = getattr(import_module(f"danshari.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
