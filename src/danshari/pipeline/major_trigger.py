"""When a major compaction is due, and how it runs: at once, or with a summary made in the background."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from danshari.core.session import SessionState
from danshari.pipeline.decide import Decision, estimate_freed_tokens, has_bound_thinking
from danshari.pipeline.state import MajorResult, Pipeline
from danshari.planning.planner import soft_line

if TYPE_CHECKING:  # most calls make no major compaction, and its modules cost as much as all others together
    from danshari.handovers.ladder import SummaryOutcome
    from danshari.pipeline.major import HandoverDraft

_OUTSIZED_SHARE = 0.25
"""Share of the window from which a first request is no head: its paste becomes data."""
_REST_TURNS = 3
"""Turns after a major compaction that would have freed too little until the next is worked out."""
_MIN_REPLACED_SHARE = 0.3
"""Share of the view that a compaction the user asks for should replace, at the price of a shorter tail."""


def major_threshold(run: Pipeline) -> float:
    """Return the tokens above which a major compaction is due if gentler passes do not free enough.

    That is the policy's share `handover.above` of the usable window (window less reserve), and never less than the
    soft line.
    """
    usable = run.settings.model.window - run.settings.reserve
    soft = min(soft_line(run.settings.model.window, run.settings.policy), usable)
    return max(run.settings.policy.handover.above * usable, soft) if run.settings.policy.handover.above else soft


def maybe_compact_major(
    run: Pipeline, payload: Any, decision: Decision, *, force: bool, full: bool, focus: str, until: int
) -> MajorResult:
    """Make a major compaction if one is due now; otherwise return a result without edits.

    One is due if the user asked for it, a background summary is ready, or the view is too long. The view is
    too long if its tokens, less what the gentle edits of `decision` free, exceed `major_threshold`. With a
    `background` policy a summary is started once the view passes the soft line.
    """
    track = run.state.track
    assert track is not None
    if "summarize" not in run.settings.policy.passes:
        return MajorResult()
    if full:
        spent = _abandon_background(run)
        at = next((n for n, item in enumerate(track.facts.items) if item.at[0] >= until), -1) if until else -1
        made = compact_major(run, payload, why="asked for", asked=True, focus=focus, until=at)
        made.units += spent
        return made
    tokens = run.tokens(track)
    line = (
        min(major_threshold(run), soft_line(run.settings.model.window, run.settings.policy))
        if force
        else major_threshold(run)
    )
    freed = estimate_freed_tokens(track, decision.edits, run.state.session.ledger) if tokens > line else 0.0
    over = tokens - freed * run.state.session.calibration.ratio > line
    if run.state.pending is not None:
        return _use_background_summary(
            run, payload, over=over, hard=tokens > run.settings.model.window - run.settings.reserve
        )
    if over:
        return compact_major(run, payload, why=f"{tokens:,.0f} tokens, over {line:,.0f}", focus=focus)
    if (
        run.settings.policy.summary.background
        and run.inputs.summarizer is not None
        and tokens > soft_line(run.settings.model.window, run.settings.policy)
    ):
        run.state.pending = _start_background(run, payload)
    return MajorResult()


def compact_major(
    run: Pipeline, payload: Any, *, why: str, asked: bool = False, focus: str = "", until: int = -1
) -> MajorResult:
    """Make a major compaction now. The result has no edits if nothing can leave or too little would be freed."""
    from danshari.pipeline.summarize import NO_CALLER, current_caller, run_ladder

    found = draft_handover(run, why=why, asked=asked, focus=focus, until=until)
    if isinstance(found, MajorResult):
        return found
    if asked and found.why_futile(found.document):
        found = found.smaller_draft()
    if futile := found.why_futile(found.document):  # then no model's answer could make it worth its price
        run.state.futile_until = found.facts.turn + _REST_TURNS
        return MajorResult(notes=[*found.notes, futile])
    caller = current_caller.get() or NO_CALLER
    return found.finish(run_ladder(found.start_ladder(), found.summary_context(payload), run.inputs.summarizer, caller))


def draft_handover(
    run: Pipeline, *, why: str, asked: bool = False, focus: str = "", until: int = -1
) -> HandoverDraft | MajorResult:
    """Choose the span to replace and extract its document.

    Returns a `MajorResult` without edits, with the reason in its notes, if there is nothing to do.
    """
    from danshari.handovers.span import choose_handover_span
    from danshari.pipeline.major import HandoverDraft

    track, policy = run.state.track, run.settings.policy
    assert track is not None
    if not asked and track.facts.turn < run.state.futile_until:
        return MajorResult()
    if not asked and run.state.session.is_thrashing(track.facts.turn):
        note = "no major compaction: the context filled up again right after each of the last ones"
        return MajorResult(notes=[f"{note}; what stays verbatim is too large for this window"])
    if policy.thinking == "keep" and has_bound_thinking(track, run.settings.model):
        return MajorResult(notes=["no major compaction: the policy keeps thinking that is bound to what precedes it"])
    tail = policy.handover.tail * policy.commit.active * run.settings.model.window
    spans = [
        choose_handover_span(
            track.facts, policy, tail, track.effects, until=until, outsized=_OUTSIZED_SHARE * run.settings.model.window
        )
    ]
    if asked:  # then a tail that holds nearly everything is no reason to do nothing
        spans += [choose_handover_span(track.facts, policy, t, track.effects, until=until) for t in (tail / 4, 0.0)]
    worth = (s for s in spans if s and sum(track.sizes[at] for at in s.places) >= _MIN_REPLACED_SHARE * track.shown)
    span = next(worth, next((s for s in spans if s), None))
    if span is None:
        return MajorResult(notes=["no major compaction: nothing older than the newest round can leave"])
    return HandoverDraft(run=run, span=span, why=why, asked=asked, focus=focus)


def record_major(session: SessionState, major: MajorResult, turn: int) -> SessionState:
    """Record a major compaction in the session: its document, its cost, and whether the summarizer failed."""
    if major.units:
        session = replace(session, account=replace(session.account, spent=session.account.spent + major.units))
    if major.asked:
        session = replace(session, failures=0 if major.by_model else session.failures + 1)
    return session.record_major(major.document, turn) if major.document is not None else session


# ── in the background ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, kw_only=True)
class BackgroundSummary:
    """A summary being written in a background thread while the agent goes on.

    It covers the messages that were there when it started, and nothing later.
    """

    prepared: HandoverDraft
    thread: threading.Thread
    outcome: list[SummaryOutcome] = field(default_factory=list)


def _start_background(run: Pipeline, payload: Any) -> BackgroundSummary | None:
    """Start a background summary. Returns None if there is nothing to summarize."""
    from danshari.pipeline.summarize import NO_CALLER, Caller, current_caller, run_ladder

    found = draft_handover(run, why="in the background")
    if isinstance(found, MajorResult) or found.why_futile(found.document):
        return None
    ladder, scene, summarizer = found.start_ladder(), found.summary_context(payload), run.inputs.summarizer
    box: list[SummaryOutcome] = []
    caller = Caller(loop=(current_caller.get() or NO_CALLER).loop)  # nobody waits, so nobody gives up
    thread = threading.Thread(
        target=lambda: box.append(run_ladder(ladder, scene, summarizer, caller)),
        name="danshari-background",
        daemon=True,
    )
    thread.start()
    return BackgroundSummary(prepared=found, thread=thread, outcome=box)


def _abandon_background(run: Pipeline) -> float:
    """Abandon the background summary. Returns what its answers cost, in units (base input tokens)."""
    pending, run.state.pending = run.state.pending, None
    return pending.prepared.cost_in_base_tokens(pending.outcome[0].rungs) if pending and pending.outcome else 0.0


def _use_background_summary(run: Pipeline, payload: Any, *, over: bool, hard: bool) -> MajorResult:
    """Use the background summary if it is ready.

    At the hard line it is waited for, up to the policy's `summary.seconds`. If it does not come, or the
    conversation has changed, a new major compaction is made where one is due.
    """
    pending = run.state.pending
    assert pending is not None
    if hard:
        pending.thread.join(run.settings.policy.summary.seconds)
    if not pending.outcome and not hard:
        return MajorResult()
    if pending.outcome and pending.prepared.track is run.state.track:
        run.state.pending = None
        made: MajorResult = pending.prepared.finish(pending.outcome[0])
        return made
    note = "the background summary did not come"
    if pending.outcome:
        note = "the background summary was given up: the conversation is no longer the one it was made of"
    spent = _abandon_background(run)
    made = compact_major(run, payload, why=note) if over else MajorResult()
    made.notes.insert(0, note)
    made.units += spent
    return made
