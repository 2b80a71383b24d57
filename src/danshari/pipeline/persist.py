"""A running conversation as JSON text and back, with a format number."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from danshari.archive.base import entry_from_dict
from danshari.archive.in_memory import MemoryArchive
from danshari.core.session import session_from_dict
from danshari.errors import SessionError, VersionError
from danshari.pipeline.run import Pipeline

SAVE_FORMAT = 1
"""Format number of a saved conversation."""


def dump_conversation(run: Pipeline) -> str:
    """Write the state as JSON text. The archive is included only if it is in memory."""
    archive = run.archive.to_dict() if isinstance(run.archive, MemoryArchive) else None
    return json.dumps({**pack_state(run), "archive": archive}, ensure_ascii=False, default=_to_jsonable)


def pack_state(run: Pipeline, *, ledger: bool = True) -> dict[str, Any]:
    """Return the state as plain JSON values, without its archive, and without its ledger if `ledger` is False."""
    session = replace(run.session, ledger=run.session.ledger if ledger else ())
    return {
        "danshari": SAVE_FORMAT,
        "session": session.to_dict(),
        "mode": run.mode,
        "source": run.source,
        "returned": run.returned,
        "pinned": list(run.policy.pinned),
        "hints": run.hints,
        "kept": run.kept,
    }


def load_saved(run: Pipeline, saved: str | bytes) -> None:
    """Load a saved conversation into `run`. Raises SessionError, with nothing changed, if it cannot be read."""
    try:
        stored = json.loads(saved)
        _check_version(stored)
        entries = [entry_from_dict(entry) for entry in stored["archive"] or ()]
    except VersionError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable_error(error) from None
    unpack_state(run, stored)
    run.archive.put(entries)


def unpack_state(run: Pipeline, stored: Any) -> None:
    """Load the values of `pack_state` into `run`.

    Raises SessionError, with nothing changed, if they do not fit.
    """
    try:
        _check_version(stored)
        session = session_from_dict(stored["session"])
        mode, source, returned = stored["mode"], stored["source"], stored["returned"]
        pinned, hints, kept = tuple(stored["pinned"]), bool(stored["hints"]), list(stored["kept"])
    except VersionError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable_error(error) from None
    run.session, run.track, run.mode = session, None, mode
    run.source, run.returned, run.hints, run.kept = source, returned, hints, kept
    run.policy = replace(run.policy, pinned=tuple(dict.fromkeys((*run.policy.pinned, *pinned))))


def _check_version(stored: Any) -> None:
    """Raise VersionError if the state was saved by a newer format."""
    version = stored["danshari"]
    if not isinstance(version, int) or version > SAVE_FORMAT:
        raise VersionError(f"saved with format {version}, this danshari reads up to {SAVE_FORMAT}: upgrade it")


def _unreadable_error(error: Exception) -> SessionError:
    return SessionError(f"this is no saved danshari session: {type(error).__name__}: {error}")


def _to_jsonable(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)
