"""danshari keeps the context an LLM agent sends small, valid and sufficient, at a price that survives the cache."""

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
from danshari.version import __version__

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
