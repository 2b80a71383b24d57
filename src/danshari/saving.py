"""A running conversation as JSON text and back, with a format number."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from danshari.archive.base import Entry, MemoryArchive
from danshari.core.session import session_from_dict
from danshari.errors import SessionError, VersionError
from danshari.running import Run

FORMAT = 1
"""Format number of a saved conversation."""


def dump(run: Run) -> str:
    """Write a run; the archive is included only if it lives in memory."""
    archive = run.archive.to_dict() if isinstance(run.archive, MemoryArchive) else None
    stored = {
        "danshari": FORMAT,
        "session": run.session.to_dict(),
        "mode": run.mode,
        "source": run.source,
        "returned": run.returned,
        "archive": archive,
        "pinned": list(run.policy.pinned),
        "hints": run.hints,
        "kept": run.kept,
    }
    return json.dumps(stored, ensure_ascii=False, default=_jsonable)


def restore(run: Run, saved: str | bytes) -> None:
    """Put a saved conversation into `run`; nothing is changed if it cannot be read."""
    try:
        stored = json.loads(saved)
        version = stored["danshari"]
        if not isinstance(version, int) or version > FORMAT:
            raise VersionError(f"saved with format {version}, this danshari reads up to {FORMAT}: upgrade it")
        session = session_from_dict(stored["session"])
        entries = [Entry(**entry) for entry in stored["archive"] or ()]
        mode, source, returned = stored["mode"], stored["source"], stored["returned"]
        pinned, hints, kept = tuple(stored["pinned"]), bool(stored["hints"]), list(stored["kept"])
    except VersionError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise SessionError(f"this is no saved danshari session: {type(error).__name__}: {error}") from None
    run.session, run.track, run.mode = session, None, mode
    run.source, run.returned, run.hints, run.kept = source, returned, hints, kept
    run.policy = replace(run.policy, pinned=tuple(dict.fromkeys((*run.policy.pinned, *pinned))))
    run.archive.put(entries)


def _jsonable(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)
