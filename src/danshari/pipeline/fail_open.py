"""Run one compaction so that an internal error never reaches the caller."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from danshari.compaction import Compaction
from danshari.errors import SummaryCancelled
from danshari.formats import Format
from danshari.pipeline.persist import claim_session, store_session
from danshari.pipeline.run import resolve_format, run_compaction
from danshari.pipeline.state import ConversationState, Pipeline

_log = logging.getLogger("danshari")


def compact_safely(
    run: Pipeline,
    payload: Any,
    *,
    force: bool = False,
    full: bool = False,
    sent: int | None = None,
    focus: str | None = None,
    until: int | None = None,
) -> Compaction:
    """Run one compaction, and fail open.

    After an error the conversation's state is what it was before the call. The view by the last good ledger is
    returned if the conversation is unchanged, else the caller's messages as they are. `Compaction.fault`
    holds the error. Raises FormatError for what is no list of messages.
    """
    wire, notes = resolve_format(run, payload)
    if isinstance(wire.messages(payload), str):
        return Compaction(messages=payload, format=wire.name, policy=run.settings.policy.name, notes=notes)
    before = replace(run.state, source=list(run.state.source), kept=list(run.state.kept))
    try:
        said = [*notes, *run.new_notes(), *filter(None, [claim_session(run)])]
        result = run_compaction(
            run, payload, wire, said, force=force, full=full, sent=sent, focus=focus, until=until or 0
        )
        if note := store_session(run):
            result = replace(result, notes=(*result.notes, note))
    except SummaryCancelled as gone:
        result = _fall_back(run, before, payload, wire, str(gone))
    except Exception as fault:  # noqa: BLE001  (the one place: an agent is never broken by us)
        _log.exception("danshari failed open")
        result = _fall_back(run, before, payload, wire, f"{type(fault).__name__}: {fault}")
    if _log.isEnabledFor(logging.INFO):
        _log.info("compaction", extra={"danshari": result.to_dict(texts=False)})
    return result


def _fall_back(run: Pipeline, before: ConversationState, payload: Any, wire: Format, fault: str) -> Compaction:
    """Take the call back; return the view by the last good ledger, or else the caller's own messages."""
    track = run.state.track
    run.state = replace(before, track=None)
    ledger, shown = before.session.ledger, payload
    if track is not None and list(wire.messages(payload)) == track.messages:
        track.resolve(ledger)
        shown = track.write(payload)
    changed = before.hints or (run.settings.model.binding and bool(ledger))
    return Compaction(
        messages=shown,
        format=wire.name,
        policy=run.settings.policy.name,
        model=run.settings.model.name,
        fault=fault,
        live=len(ledger) if shown is not payload else 0,
        hints=wire.hints() if changed else {},
    )
