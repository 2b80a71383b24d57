"""When a major compaction is due, and how it runs: at once, or in the background with a swap when it is ready."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

from danshari.core.session import Session
from danshari.handovers.ladder import Outcome
from danshari.handovers.span import span_of
from danshari.pipeline.decide import Decision, binds, freed_by
from danshari.pipeline.major import Major, Prepared
from danshari.pipeline.state import Standing
from danshari.pipeline.summarize import (
    CALLER,
    NOBODY,
    Caller,
    driven,
)
from danshari.planning.planner import soft_line

_OUTSIZED = 0.25
"""Share of the window from which a first request is no head: its paste becomes data."""
_REST = 3
"""Turns after a major compaction that would have freed too little until the next is worked out."""
_WORTH = 0.3
"""Share of the view that a compaction the user asks for should replace, at the price of a shorter tail."""


def line_of(run: Standing) -> float:
    """Give the tokens above which a major compaction is due where gentler passes do not suffice."""
    usable = run.model.window - run.reserve
    soft = min(soft_line(run.model.window, run.policy), usable)
    return max(run.policy.major * usable, soft) if run.policy.major else soft


def of_moment(
    run: Standing, payload: Any, decision: Decision, *, force: bool, full: bool, focus: str, until: int
) -> Major:
    """Make a major compaction if one is asked for, ready, or due because the gentler edits would leave too much."""
    track = run.track
    assert track is not None
    if "summarize" not in run.policy.passes:
        return Major()
    if full:
        spent = _given_up(run)
        at = next((n for n, item in enumerate(track.facts.items) if item.at[0] >= until), -1) if until else -1
        made = compact_major(run, payload, why="asked for", asked=True, focus=focus, until=at)
        made.units += spent
        return made
    tokens = run.tokens(track)
    line = min(line_of(run), soft_line(run.model.window, run.policy)) if force else line_of(run)
    freed = freed_by(track, decision.edits, run.session.ledger) if tokens > line else 0.0
    over = tokens - freed * run.session.calibration.ratio > line
    if run.pending is not None:
        return _swap(run, payload, over=over, hard=tokens > run.model.window - run.reserve)
    if over:
        return compact_major(run, payload, why=f"{tokens:,.0f} tokens, over {line:,.0f}", focus=focus)
    if run.policy.background and run.means.summarizer is not None and tokens > soft_line(run.model.window, run.policy):
        run.pending = _started(run, payload)
    return Major()


def compact_major(
    run: Standing, payload: Any, *, why: str, asked: bool = False, focus: str = "", until: int = -1
) -> Major:
    """Make the Fold of this moment; without edits where nothing can leave or nothing would be gained."""
    found = prepared(run, why=why, asked=asked, focus=focus, until=until)
    if isinstance(found, Major):
        return found
    if futile := found.futile(found.document):  # then no model's answer could make it worth its price
        run.futile_until = found.facts.turn + _REST
        return Major(notes=[*found.notes, futile])
    caller = CALLER.get() or NOBODY
    return found.finished(driven(found.ladder(), found.scene(payload), run.means.summarizer, caller))


def prepared(run: Standing, *, why: str, asked: bool = False, focus: str = "", until: int = -1) -> Prepared | Major:
    """Choose the span and work the document out; a `Major` without edits says why there is nothing to do."""
    track, policy = run.track, run.policy
    assert track is not None
    if not asked and track.facts.turn < run.futile_until:
        return Major()
    if not asked and run.session.thrashes(track.facts.turn):
        note = "no major compaction: the context filled up again right after each of the last ones"
        return Major(notes=[f"{note}; what stays verbatim is too large for this window"])
    if policy.thinking == "keep" and binds(track, run.model):
        return Major(notes=["no major compaction: the policy keeps thinking that is bound to what precedes it"])
    tail = policy.keep_tail * policy.active * run.model.window
    spans = [span_of(track.facts, policy, tail, track.effects, until=until, outsized=_OUTSIZED * run.model.window)]
    if asked:  # then a tail that holds nearly everything is no reason to do nothing
        spans += [span_of(track.facts, policy, t, track.effects, until=until) for t in (tail / 4, 0.0)]
    worth = (s for s in spans if s and sum(track.sizes[at] for at in s.places) >= _WORTH * track.shown)
    span = next(worth, next((s for s in spans if s), None))
    if span is None:
        return Major(notes=["no major compaction: nothing older than the newest round can leave"])
    return Prepared(run=run, span=span, why=why, asked=asked, focus=focus)


def booked(session: Session, major: Major, turn: int) -> Session:
    """Note a major compaction in the session: its document, its cost, and how its summarizer did."""
    if major.units:
        session = replace(session, account=replace(session.account, spent=session.account.spent + major.units))
    if major.asked:
        session = replace(session, failures=0 if major.by_model else session.failures + 1)
    return session.major(major.document, turn) if major.document is not None else session


# ── in the background ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A summary being written while the agent goes on; it stands for what was sent, and for nothing after."""

    prepared: Prepared
    thread: threading.Thread
    outcome: list[Outcome] = field(default_factory=list)


def _started(run: Standing, payload: Any) -> Waiting | None:
    found = prepared(run, why="in the background")
    if isinstance(found, Major) or found.futile(found.document):
        return None
    ladder, scene, summarizer = found.ladder(), found.scene(payload), run.means.summarizer
    box: list[Outcome] = []
    caller = Caller(loop=(CALLER.get() or NOBODY).loop)  # nobody waits, so nobody gives up
    thread = threading.Thread(
        target=lambda: box.append(driven(ladder, scene, summarizer, caller)), name="danshari-background", daemon=True
    )
    thread.start()
    return Waiting(prepared=found, thread=thread, outcome=box)


def _given_up(run: Standing) -> float:
    """Let a background summary go; give what its answers cost, in units."""
    pending, run.pending = run.pending, None
    return pending.prepared.units(pending.outcome[0].rungs) if pending and pending.outcome else 0.0


def _swap(run: Standing, payload: Any, *, over: bool, hard: bool) -> Major:
    """Take the finished summary; wait for it only at the hard line, and go on without it if it does not come."""
    pending = run.pending
    assert pending is not None
    if hard:
        pending.thread.join(run.policy.summary_seconds)
    if not pending.outcome and not hard:
        return Major()
    if pending.outcome and pending.prepared.track is run.track:
        run.pending = None
        made: Major = pending.prepared.finished(pending.outcome[0])
        return made
    note = "the background summary did not come"
    if pending.outcome:
        note = "the background summary was given up: the conversation is no longer the one it was made of"
    spent = _given_up(run)
    made = compact_major(run, payload, why=note) if over else Major()
    made.notes.insert(0, note)
    made.units += spent
    return made
