"""The one place where a call's edits become lasting: staged on the view first, archived and kept at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from danshari.archive.base import Entry
from danshari.core.edits import Edit, Fold, Replace
from danshari.pipeline.decide import has_bound_thinking, strip_dead_thinking
from danshari.pipeline.state import Pipeline
from danshari.pipeline.tracker import archive_entries


@dataclass(slots=True, kw_only=True)
class Step:
    """The edits that one call has decided so far. They are shown already; `commit` makes them last."""

    edits: list[Edit] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.edits)


def stage(run: Pipeline, step: Step, edits: Sequence[Edit], *, batch: bool) -> None:
    """Append edits to the ledger and show them; they last once `commit` has archived their originals.

    A `batch` can be undone as a whole.
    """
    track, state = run.state.track, run.state
    if not edits or track is None:
        return
    written = tuple(_mask_edit(run, edit) for edit in edits)
    session = state.session
    state.session = session.commit(written, track.facts.turn) if batch else session.append(written)
    track.apply(written, state.session.ledger)
    step.edits += written


def commit(run: Pipeline, step: Step) -> list[Edit]:
    """Archive the originals of every staged edit and return the edits: from here on they last.

    If it fails, the caller takes the whole step back.
    """
    if step and run.state.track is not None:
        _archive_entries(run, archive_entries(run.state.track, step.edits))
    return step.edits


def _mask_edit(run: Pipeline, edit: Edit) -> Edit:
    """Mask secrets in the text that an edit writes, because the ledger is stored too."""
    if not run.settings.policy.recall.mask_archive or not isinstance(edit, Replace | Fold):
        return edit
    from danshari.pipeline.masking import mask_secrets  # the default masks nothing here

    return replace(edit, text=mask_secrets(edit.text))


def _archive_entries(run: Pipeline, entries: Sequence[Entry]) -> None:
    """Store originals under this session's name, with secrets masked if the policy asks for it."""
    if run.settings.policy.recall.mask_archive:
        from danshari.pipeline.masking import mask_secrets

        entries = [replace(entry, text=mask_secrets(entry.text), label=mask_secrets(entry.label)) for entry in entries]
    run.settings.archive.put(
        replace(
            entry,
            session=run.state.name,
            project=run.settings.project,
            importance=run.settings.policy.share(entry.tier),
        )
        for entry in entries
    )


def archive_all_originals(run: Pipeline) -> None:
    """Archive the originals of all committed edits again, under the session's present name."""
    if run.state.track is not None:
        _archive_entries(run, archive_entries(run.state.track, run.state.session.ledger))


def handle_bound_thinking(run: Pipeline, step: Step) -> list[str]:
    """Handle thinking blocks whose signed prefix changed; return the notes to show.

    They are removed, or, with `thinking = "hint"`, a request field will ask the provider to drop them.
    """
    track = run.state.track
    if track is None or not has_bound_thinking(track, run.settings.model):
        return []
    stripped, stuck = strip_dead_thinking(track, run.state.session.ledger)
    if run.settings.policy.thinking == "hint":
        run.state.hints = run.state.hints or bool(stripped) or stuck
        return []
    stage(run, step, stripped, batch=False)
    run.state.hints = stuck
    return ["the newest turn's thinking is bound to bytes that changed: send the hints along"] if stuck else []


def show_again(run: Pipeline, edits: Sequence[Edit], first: int) -> None:
    """Append edits that show items from position `first` on again as they were; their originals stay archived."""
    track = run.state.track
    assert track is not None
    run.state.session = run.state.session.append(tuple(edits))
    run.state.disturbed = first
    track.resolve(run.state.session.ledger)
    step = Step()
    handle_bound_thinking(run, step)
    commit(run, step)
