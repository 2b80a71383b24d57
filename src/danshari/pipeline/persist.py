"""A running conversation as JSON text and back, and as a session in an archive on disk.

An archived session is loaded when a compactor starts and stored after every call.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

from danshari.archive.base import SessionStore, entry_from_dict
from danshari.archive.in_memory import MemoryArchive
from danshari.core.edits import edit_to_dict
from danshari.core.session import SessionState, session_from_dict
from danshari.errors import ArchiveError, ArgumentError, SessionError, VersionError
from danshari.pipeline.commit import archive_all_originals
from danshari.pipeline.state import Pipeline

_log = logging.getLogger("danshari")
SAVE_FORMAT = 1
"""Format number of a saved conversation. The session in it has a number of its own, `SESSION_STATE_FORMAT`."""


def dump_conversation(run: Pipeline) -> str:
    """Write the state as JSON text. The archive is included only if it is in memory."""
    archive = run.settings.archive.to_dict() if isinstance(run.settings.archive, MemoryArchive) else None
    return json.dumps({**pack_state(run), "archive": archive}, ensure_ascii=False, default=_to_jsonable)


def pack_state(run: Pipeline, *, ledger: bool = True) -> dict[str, Any]:
    """Return the state as plain JSON values, without its archive, and without its ledger if `ledger` is False."""
    session = replace(run.state.session, ledger=run.state.session.ledger if ledger else ())
    wire = run.wire
    returned = run.state.returned
    return {
        "danshari": SAVE_FORMAT,
        "session": session.to_dict(),
        "mode": run.settings.mode,
        "source": list(map(wire.to_json, run.state.source)),
        "returned": returned if returned is None else list(map(wire.to_json, returned)),
        "pinned": list(run.settings.policy.pinned),
        "hints": run.state.hints,
        "kept": run.state.kept,
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
    run.settings.archive.put(entries)


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
    wire = run.wire
    source = list(map(wire.from_json, source))
    returned = returned if returned is None else list(map(wire.from_json, returned))
    run.state.session, run.state.track, run.settings.mode = session, None, mode
    run.state.source, run.state.returned, run.state.hints, run.state.kept = source, returned, hints, kept
    run.settings.policy = replace(
        run.settings.policy, pinned=tuple(dict.fromkeys((*run.settings.policy.pinned, *pinned)))
    )


def _check_version(stored: Any) -> None:
    """Raise VersionError if the state was saved by a newer format."""
    version = stored["danshari"]
    if not isinstance(version, int) or version > SAVE_FORMAT:
        raise VersionError(f"saved with format {version}, this danshari reads up to {SAVE_FORMAT}: upgrade it")


def _unreadable_error(error: Exception) -> SessionError:
    return SessionError(f"this is no saved danshari session: {type(error).__name__}: {error}")


def _to_jsonable(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)


# ── sessions in an archive ───────────────────────────────────────────────────────────────────────────────────────


def resume_session(run: Pipeline) -> None:
    """Load the session of this name, if the archive holds one.

    One that cannot be read starts anew under another name, and the log says so. Raises VersionError for a newer
    format, SessionError if it was stored in another mode.
    """
    archive = run.settings.archive
    if not run.state.name or not isinstance(archive, SessionStore):
        return
    if run.settings.mode == "replace" and not run.wire.can_store:
        raise ArgumentError(
            f"format {run.wire.name!r} cannot store its messages: give it to_json and from_json, or use view mode"
        )
    try:
        _take_up(run, archive)
    except _DamagedError as error:
        before = run.state.name
        _rename_session(run, archive)
        _log.warning("%s; session %r starts anew as %r", error, before, run.state.name)


class _DamagedError(SessionError):
    """What is stored of a session cannot be read."""


def _take_up(run: Pipeline, archive: SessionStore) -> None:
    """Load the stored session of this name; raises _DamagedError, with nothing changed, if it cannot be read."""
    name, mode = run.state.name, run.settings.mode
    found = archive.load_session(name)
    if found is None:
        return
    version, _, edits = found
    state = _read_state(name, found)
    if state.get("mode", mode) != mode:
        raise SessionError(f"session {name!r} was kept in {state['mode']} mode; this compactor has {mode} mode")
    try:
        unpack_state(run, state)
    except VersionError:
        raise
    except SessionError as error:
        raise _DamagedError(f"session {name!r} cannot be read: {error}") from None
    run.state.stored = (version, len(edits))


def load_stored_session(archive: SessionStore, name: str) -> SessionState | None:
    """Return a stored session, or None if there is none.

    Raises SessionError if it cannot be read, VersionError if a newer danshari wrote it.
    """
    found = archive.load_session(name)
    if found is None:
        return None
    state = _read_state(name, found)
    try:
        _check_version(state)
        return session_from_dict(state["session"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable_session(name, error) from None


def _read_state(name: str, found: tuple[int, str, list[str]]) -> dict[str, Any]:
    """Parse a stored session and put its ledger back in place."""
    _, body, edits = found
    try:
        state: dict[str, Any] = json.loads(body)
        state["session"]["ledger"] = [json.loads(edit) for edit in edits]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable_session(name, error) from None
    return state


def _unreadable_session(name: str, error: Exception) -> SessionError:
    if isinstance(error, SessionError):
        return error  # it says so already
    return _DamagedError(f"session {name!r} cannot be read: {type(error).__name__}: {error}")


def claim_session(run: Pipeline) -> str:
    """Check, before anything is archived, that no other process has stored this session since.

    If one has, this conversation continues under a new name and a note is returned, else "". A session never
    stored is checked by `store_session`.
    """
    archive = run.settings.archive
    if run.state.stored == (0, 0) or not run.state.name or not isinstance(archive, SessionStore):
        return ""
    return "" if archive.session_version(run.state.name) == run.state.stored[0] else _rename_session(run, archive)


def store_session(run: Pipeline) -> str:
    """Store the session. Returns a note if it had to continue under a new name, else "".

    That happens if another process has stored it since. The originals are then archived under the new name
    too.
    """
    archive, session = run.settings.archive, run.state.session
    if not run.state.name or not isinstance(archive, SessionStore):
        return ""
    if run.state.stored == (0, 0) and not (session.ledger or session.recalled or run.settings.mode == "replace"):
        return ""  # nothing to take up yet: what a provider was sent is the caller's own
    note = ""
    while not _save_once(run, archive):
        note = _rename_session(run, archive)
        archive_all_originals(run)
    return note


def store_recall(run: Pipeline) -> None:
    """Store the session after a recall; a full or read-only disk is logged, because the recall was answered."""
    try:
        store_session(run)
    except ArchiveError as error:
        _log.warning("a recall was answered, but what it taught could not be stored: %s", error)


def _rename_session(run: Pipeline, archive: SessionStore) -> str:
    """Move the session to the next free name (`name~2`, `name~3`, ...) and return a note about it."""
    before, number = run.state.name, 2
    while archive.session_version(f"{before}~{number}"):
        number += 1
    run.state.name, run.state.stored = f"{before}~{number}", (0, 0)
    return f"session {before!r} is written by another process too: this one goes on as {run.state.name!r}"


def _save_once(run: Pipeline, archive: SessionStore) -> bool:
    """Store the session once. Returns False if another process has stored a newer version."""
    version, kept = run.state.stored
    ledger = run.state.session.ledger
    state = pack_state(run, ledger=False)
    edits = [json.dumps(edit_to_dict(edit), ensure_ascii=True) for edit in ledger[kept:]]
    if not archive.save_session(
        run.state.name, version, json.dumps(state, ensure_ascii=True, default=str), edits, kept
    ):
        return False
    run.state.stored = (version + 1, len(ledger))
    return True
