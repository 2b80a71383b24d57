"""Every error danshari raises on purpose.

DanshariError
├── ArgumentError        a wrong argument: unknown policy, negative window, a value of the wrong type
│   └── PolicyError      a policy file or field that does not fit
├── FormatError          a payload in no format we know, or mixed formats
├── SessionError         a file that is no recorded session, or a saved session we cannot load
│   └── VersionError     saved by a newer danshari than this one
├── ModelError           a summarizer failed: raised, timed out, could not be reached; the ladder goes on without it
│   └── GivenUp          the caller gave the summary up
├── RecallError          nothing in the archive under that id
├── ArchiveError         the archive's file cannot be made, read or written: read-only, full, locked
└── MissingExtra         an optional dependency is not installed (also an ImportError)

Odd *content* never raises: it passes through with a note in the `Compaction`.
"""

from __future__ import annotations


class DanshariError(Exception):
    """The root of all errors raised by danshari."""


class ArgumentError(DanshariError, ValueError):
    """The caller passed something that cannot be right; the message says what would be."""


class PolicyError(ArgumentError):
    """A policy name, file or field that does not fit; the message names the field and its allowed values."""


class FormatError(DanshariError, ValueError):
    """The messages are in no format danshari reads."""


class SessionError(DanshariError, ValueError):
    """A file or blob that is no session danshari can read."""


class VersionError(SessionError):
    """Stored data with a format number newer than this version understands."""


class ModelError(DanshariError, RuntimeError):
    """A summarizer gave no usable answer; a compaction catches it and goes on without a model."""


class GivenUp(ModelError):  # noqa: N818  (says what happened)
    """The caller gave a summary up (a cancelled task); the compaction ends without one."""


class RecallError(DanshariError, LookupError):
    """The archive holds nothing under the given id."""


class ArchiveError(DanshariError, OSError):
    """The archive's file cannot be made, read or written; the message says which and why."""


class MissingExtra(DanshariError, ImportError):  # noqa: N818  (says what it is)
    """An optional dependency is missing; the message holds the pip line that installs it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'danshari[{extra}]'")
