"""Sessions in an archive that keeps them: taken up when a compactor begins, stored with every call."""

from __future__ import annotations

import json
from dataclasses import replace

from danshari.archive.base import Sessions
from danshari.compaction import Compaction
from danshari.core.edits import edit_to_dict
from danshari.running import Run
from danshari.saving import pack, unpack


def resume(run: Run) -> None:
    """Take up the session of this name, if the archive holds one; raises VersionError for a newer format."""
    archive = run.archive
    if not run.name or not isinstance(archive, Sessions):
        return
    found = archive.load_session(run.name)
    if found is None:
        return
    version, body, edits = found
    state = json.loads(body)
    state["session"]["ledger"] = [json.loads(edit) for edit in edits]
    unpack(run, state)
    run.stored = (version, len(edits))


def stored(run: Run, result: Compaction) -> Compaction:
    """Store the session before its request is sent; where another process stores it too, go on under a new name."""
    archive = run.archive
    if not run.name or not isinstance(archive, Sessions):
        return result
    version, kept = run.stored
    if _save(run, archive, version, kept):
        return result
    before, number = run.name, 2
    while archive.load_session(f"{before}~{number}") is not None:
        number += 1
    run.name = f"{before}~{number}"
    _save(run, archive, 0, 0)
    note = f"session {before!r} is written by another process too: this one goes on as {run.name!r}"
    return replace(result, notes=(*result.notes, note))


def _save(run: Run, archive: Sessions, version: int, kept: int) -> bool:
    ledger = run.session.ledger
    state = pack(run, ledger=False)
    edits = [json.dumps(edit_to_dict(edit), ensure_ascii=True) for edit in ledger[kept:]]
    if not archive.save_session(run.name, version, json.dumps(state, ensure_ascii=True, default=str), edits, kept):
        return False
    run.stored = (version + 1, len(ledger))
    return True
