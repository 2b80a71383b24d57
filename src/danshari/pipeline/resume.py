"""Sessions in an archive on disk: loaded when a compactor starts, stored after every call."""

from __future__ import annotations

import json
from typing import Any

from danshari.archive.base import SessionStore
from danshari.core.edits import edit_to_dict
from danshari.core.session import SessionState, session_from_dict
from danshari.errors import SessionError
from danshari.pipeline.persist import pack_state, unpack_state
from danshari.pipeline.run import Pipeline


def resume_session(run: Pipeline) -> None:
    """Load the session of this name, if the archive holds one.

    Raises VersionError for a newer format, SessionError if it cannot be read or was stored in another mode.
    """
    archive = run.archive
    if not run.name or not isinstance(archive, SessionStore):
        return
    found = archive.load_session(run.name)
    if found is None:
        return
    version, _, edits = found
    mode = run.mode
    state = _read_state(run.name, found)
    if state.get("mode", mode) != mode:
        raise SessionError(f"session {run.name!r} was kept in {state['mode']} mode; this compactor has {mode} mode")
    unpack_state(run, state)
    run.stored = (version, len(edits))


def load_stored_session(archive: SessionStore, name: str) -> SessionState | None:
    """Return a stored session, or None if there is none. Raises SessionError if it cannot be read."""
    found = archive.load_session(name)
    try:
        return session_from_dict(_read_state(name, found)["session"]) if found else None
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable_error(name, error) from None


def _read_state(name: str, found: tuple[int, str, list[str]]) -> dict[str, Any]:
    """Parse a stored session and put its ledger back in place."""
    _, body, edits = found
    try:
        state: dict[str, Any] = json.loads(body)
        state["session"]["ledger"] = [json.loads(edit) for edit in edits]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable_error(name, error) from None
    return state


def _unreadable_error(name: str, error: Exception) -> SessionError:
    return SessionError(f"session {name!r} cannot be read: {type(error).__name__}: {error}")


def claim_session(run: Pipeline) -> str:
    """Check, before anything is archived, that no other process has stored this session since.

    If one has, this conversation continues under a new name and a note is returned, else "". A session never
    stored is checked by `store_session`.
    """
    archive = run.archive
    if run.stored == (0, 0) or not run.name or not isinstance(archive, SessionStore):
        return ""
    return "" if archive.session_version(run.name) == run.stored[0] else _rename_session(run, archive)


def store_session(run: Pipeline) -> str:
    """Store the session. Returns a note if it had to continue under a new name, else "".

    That happens if another process has stored it since. The originals are then archived under the new name
    too.
    """
    archive, session = run.archive, run.session
    if not run.name or not isinstance(archive, SessionStore):
        return ""
    if run.stored == (0, 0) and not (session.ledger or session.recalled or run.mode == "replace"):
        return ""  # nothing to take up yet: what a provider was sent is the caller's own
    note = ""
    while not _save_once(run, archive):
        note = _rename_session(run, archive)
        run.archive_all_originals()
    return note


def _rename_session(run: Pipeline, archive: SessionStore) -> str:
    """Move the session to the next free name (`name~2`, `name~3`, ...) and return a note about it."""
    before, number = run.name, 2
    while archive.session_version(f"{before}~{number}"):
        number += 1
    run.name, run.stored = f"{before}~{number}", (0, 0)
    return f"session {before!r} is written by another process too: this one goes on as {run.name!r}"


def _save_once(run: Pipeline, archive: SessionStore) -> bool:
    """Store the session once. Returns False if another process has stored a newer version."""
    version, kept = run.stored
    ledger = run.session.ledger
    state = pack_state(run, ledger=False)
    edits = [json.dumps(edit_to_dict(edit), ensure_ascii=True) for edit in ledger[kept:]]
    if not archive.save_session(run.name, version, json.dumps(state, ensure_ascii=True, default=str), edits, kept):
        return False
    run.stored = (version + 1, len(ledger))
    return True
