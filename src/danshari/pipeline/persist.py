"""A running conversation as JSON text and back, with a format number."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from danshari.archive.base import entry_from_dict
from danshari.archive.in_memory import MemoryArchive
from danshari.core.session import session_from_dict
from danshari.errors import SessionError, VersionError
from danshari.pipeline.run import Run

FORMAT = 1
"""Format number of a saved conversation."""


def dump(run: Run) -> str:
    """Write a run; the archive is included only if it lives in memory."""
    archive = run.archive.to_dict() if isinstance(run.archive, MemoryArchive) else None
    return json.dumps({**pack(run), "archive": archive}, ensure_ascii=False, default=_jsonable)


def pack(run: Run, *, ledger: bool = True) -> dict[str, Any]:
    """Give a run as plain values, without its archive; on demand without its ledger."""
    session = replace(run.session, ledger=run.session.ledger if ledger else ())
    return {
        "danshari": FORMAT,
        "session": session.to_dict(),
        "mode": run.mode,
        "source": run.source,
        "returned": run.returned,
        "pinned": list(run.policy.pinned),
        "hints": run.hints,
        "kept": run.kept,
    }


def restore(run: Run, saved: str | bytes) -> None:
    """Put a saved conversation into `run`; nothing is changed if it cannot be read."""
    try:
        stored = json.loads(saved)
        _check_version(stored)
        entries = [entry_from_dict(entry) for entry in stored["archive"] or ()]
    except VersionError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from None
    unpack(run, stored)
    run.archive.put(entries)


def unpack(run: Run, stored: Any) -> None:
    """Put the values of `pack` into `run`; nothing is changed if they do not fit."""
    try:
        _check_version(stored)
        session = session_from_dict(stored["session"])
        mode, source, returned = stored["mode"], stored["source"], stored["returned"]
        pinned, hints, kept = tuple(stored["pinned"]), bool(stored["hints"]), list(stored["kept"])
    except VersionError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from None
    run.session, run.track, run.mode = session, None, mode
    run.source, run.returned, run.hints, run.kept = source, returned, hints, kept
    run.policy = replace(run.policy, pinned=tuple(dict.fromkeys((*run.policy.pinned, *pinned))))


def _check_version(stored: Any) -> None:
    version = stored["danshari"]
    if not isinstance(version, int) or version > FORMAT:
        raise VersionError(f"saved with format {version}, this danshari reads up to {FORMAT}: upgrade it")


def _unreadable(error: Exception) -> SessionError:
    return SessionError(f"this is no saved danshari session: {type(error).__name__}: {error}")


def _jsonable(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)
