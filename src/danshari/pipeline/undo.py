"""Undoing edits: the last batch, or items that the user pins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from danshari.compaction import Compaction
from danshari.core.edits import Drop, Edit, Fold, Ledger, Restore, resolve_edits
from danshari.errors import ArgumentError
from danshari.pipeline.commit import show_again
from danshari.pipeline.decide import Decision
from danshari.pipeline.run import build_result, remember_source
from danshari.pipeline.state import Pipeline
from danshari.pipeline.tracker import ConversationTrack, edit_positions


def undo(run: Pipeline) -> Compaction:
    """Undo the last batch of edits. The undo is appended to the ledger, so replaying the ledger repeats it.

    Raises ArgumentError if no batch was committed or the messages were not read yet.
    """
    track = run.state.track
    if not run.state.session.batches:
        raise ArgumentError("nothing to undo: no batch was committed in this session")
    if track is None:
        raise ArgumentError("call compact with the messages once before undo (after load or a model switch)")
    start, end = run.state.session.batches[-1]
    ledger = run.state.session.ledger
    restore_items(
        run, track, [at for edit in ledger[start:end] for at in edit_positions(track, edit)], ledger[:start], "undo"
    )
    run.state.session = replace(run.state.session, batches=run.state.session.batches[:-1])
    if any(isinstance(edit, Fold) for edit in ledger[start:end]):
        run.state.session = replace(
            run.state.session, handovers=run.state.session.handovers[:-1], majors=run.state.session.majors[:-1]
        )
    result = build_result(
        run, run.state.source if run.settings.mode == "replace" else track.messages, [], Decision(), [], "none"
    )
    if run.settings.mode == "replace":
        remember_source(run, run.state.source, result)
    return result


def pin(run: Pipeline, texts: Sequence[str]) -> None:
    """Protect every item that contains one of `texts`, and restore those that were edited already."""
    run.settings.policy = replace(run.settings.policy, pinned=(*run.settings.policy.pinned, *texts))
    track = run.state.track
    if track is None:
        return
    items = track.facts.items
    edited = [at for at in {*track.effects.texts, *track.effects.gone} if items[at].kind != "reasoning"]
    found = [at for at in edited if any(text in items[at].text for text in texts)]
    restore_items(run, track, [*found, *_find_call_partners(track, found)], (), "pin")


def _find_call_partners(track: ConversationTrack, places: Sequence[int]) -> list[int]:
    """List the positions of calls and results that must return together with items that were removed."""
    facts, gone = track.facts, track.effects.gone
    calls = {facts.call_start(at) for at in places if at in gone} - {None}
    return [at for at in gone if facts.call_start(at) in calls]


def restore_items(
    run: Pipeline, track: ConversationTrack, places: Sequence[int], before: Ledger, by: Literal["undo", "pin", "recall"]
) -> None:
    """Show items as the ledger `before` showed them.

    Thinking whose prefix changes by this is handled too. `by` names the reason in the ledger: undo, pin or
    recall.
    """
    if not places:
        return
    items, wanted = track.facts.items, set(places)
    shown = resolve_edits(before, items, track.facts.index)
    edits: list[Edit] = []
    for at in sorted(wanted):
        edits.append(Restore(id=items[at].id, by=by, why=by, seen=items[-1].id, reason=by))
        if at in shown.texts:
            edits.append(replace(shown.texts[at], seen=items[-1].id))
    dropped = {id(edit): edit for at, edit in shown.gone.items() if at in wanted and isinstance(edit, Drop)}
    folded = [fold for start, (_, fold) in shown.folds.items() if start in wanted]
    edits += [replace(drop, seen=items[-1].id) for drop in dropped.values()]
    edits += [replace(fold, seen=items[-1].id) for fold in folded]
    show_again(run, edits, min(wanted))
