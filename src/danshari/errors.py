"""Every error that danshari raises on purpose.

DanshariError
├── ArgumentError        a wrong argument: unknown policy, negative window, a value of the wrong type
│   └── PolicyError      a policy file or field that does not fit
├── FormatError          a payload in no known format, or mixed formats
├── SessionError         a file that is no recorded session, or a saved session that cannot be loaded
│   └── VersionError     saved by a newer danshari than this one
├── ModelError           a summarizer failed: raised, timed out, unreachable; compaction goes on
│   └── SummaryCancelled the caller cancelled the summary
├── RecallError          nothing in the archive under that id
├── ArchiveError         the archive's file cannot be created, read or written: read-only, full, locked
└── MissingExtra         an optional dependency is not installed (also an ImportError)

Unexpected *content* never raises: it passes through with a note in the `Compaction`.
"""

from __future__ import annotations


class DanshariError(Exception):
    """The root of all errors raised by danshari."""


class ArgumentError(DanshariError, ValueError):
    """A wrong argument. The message says what would be right."""


class PolicyError(ArgumentError):
    """A policy name, file or field that does not fit. The message names the field and its allowed values."""


class FormatError(DanshariError, ValueError):
    """The messages are in no format that danshari reads."""


class SessionError(DanshariError, ValueError):
    """A file or blob that is no session danshari can read."""


class VersionError(SessionError):
    """Stored data with a format number newer than this version understands."""


class ModelError(DanshariError, RuntimeError):
    """A summarizer gave no usable answer. A compaction catches it and goes on without a model."""


class SummaryCancelled(ModelError):  # noqa: N818  (says what happened)
    """The caller cancelled a summary, for example by cancelling its task. The compaction ends without one."""


class RecallError(DanshariError, LookupError):
    """The archive holds nothing under the given id."""


class ArchiveError(DanshariError, OSError):
    """The archive's file cannot be created, read or written. The message names the file and the reason."""


class MissingExtra(DanshariError, ImportError):  # noqa: N818  (says what it is)
    """An optional dependency is missing. The message holds the pip command that installs it."""

    def __init__(self, package: str, extra: str = "") -> None:
        how = (
            f"run: pip install 'danshari[{extra}]'"
            if extra
            else "a checkout of danshari holds it: pip install benchmarks/"
        )
        super().__init__(f"{package} is not installed; {how}")
