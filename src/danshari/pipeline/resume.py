"""Sessions in an archive that keeps them: taken up when a compactor begins, stored with every call."""

from __future__ import annotations

import json
from typing import Any

from danshari.archive.base import Sessions
from danshari.core.edits import edit_to_dict
from danshari.core.session import Session, session_from_dict
from danshari.errors import SessionError
from danshari.pipeline.persist import pack, unpack
from danshari.pipeline.run import Run


def resume(run: Run) -> None:
    """Take up the session of this name, if the archive holds one.

    Raises VersionError for a newer format, SessionError for what cannot be read or was kept in another mode.
    """
    archive = run.archive
    if not run.name or not isinstance(archive, Sessions):
        return
    found = archive.load_session(run.name)
    if found is None:
        return
    version, _, edits = found
    mode = run.mode
    state = _state(run.name, found)
    if state.get("mode", mode) != mode:
        raise SessionError(f"session {run.name!r} was kept in {state['mode']} mode; this compactor has {mode} mode")
    unpack(run, state)
    run.stored = (version, len(edits))


def stored_session(archive: Sessions, name: str) -> Session | None:
    """Give a stored session, or None; raises SessionError for what cannot be read."""
    found = archive.load_session(name)
    try:
        return session_from_dict(_state(name, found)["session"]) if found else None
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(name, error) from None


def _state(name: str, found: tuple[int, str, list[str]]) -> dict[str, Any]:
    """Read what was stored, its ledger put in place."""
    _, body, edits = found
    try:
        state: dict[str, Any] = json.loads(body)
        state["session"]["ledger"] = [json.loads(edit) for edit in edits]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(name, error) from None
    return state


def _unreadable(name: str, error: Exception) -> SessionError:
    return SessionError(f"session {name!r} cannot be read: {type(error).__name__}: {error}")


def claim(run: Run) -> str:
    """Before anything is archived: make sure that the session is still ours; else go on under a new name and say so.

    A session that was never stored is looked at when it first is (`store`).
    """
    archive = run.archive
    if run.stored == (0, 0) or not run.name or not isinstance(archive, Sessions):
        return ""
    return "" if archive.session_version(run.name) == run.stored[0] else _renamed(run, archive)


def store(run: Run) -> str:
    """Store the session; where another process stored it since, go on under a new name, originals included."""
    archive, session = run.archive, run.session
    if not run.name or not isinstance(archive, Sessions):
        return ""
    if run.stored == (0, 0) and not (session.ledger or session.recalled or run.mode == "replace"):
        return ""  # nothing to take up yet: what a provider was sent is the caller's own
    note = ""
    while not _save(run, archive):
        note = _renamed(run, archive)
        run.archive_again()
    return note


def _renamed(run: Run, archive: Sessions) -> str:
    before, number = run.name, 2
    while archive.session_version(f"{before}~{number}"):
        number += 1
    run.name, run.stored = f"{before}~{number}", (0, 0)
    return f"session {before!r} is written by another process too: this one goes on as {run.name!r}"


def _save(run: Run, archive: Sessions) -> bool:
    version, kept = run.stored
    ledger = run.session.ledger
    state = pack(run, ledger=False)
    edits = [json.dumps(edit_to_dict(edit), ensure_ascii=True) for edit in ledger[kept:]]
    if not archive.save_session(run.name, version, json.dumps(state, ensure_ascii=True, default=str), edits, kept):
        return False
    run.stored = (version + 1, len(ledger))
    return True
