"""One call of a conversation, step by step: read, admit, decide, commit, write.

This module takes no lock, handles no errors and saves nothing. `compactor` adds those.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from danshari import data
from danshari.analysis.signals import read_signals
from danshari.compaction import Compaction, HeldProposal
from danshari.core.edits import Edit
from danshari.core.policy import Policy
from danshari.formats import Format, detect_format
from danshari.passes import ADMISSION_PASS, HANDOVER_PASS
from danshari.passes.newest import reduce_newest
from danshari.pipeline.commit import Step, commit, handle_bound_thinking, stage
from danshari.pipeline.decide import (
    Decision,
    admit_new_items,
    decide_edits,
    find_trigger,
)
from danshari.pipeline.major_trigger import maybe_compact_major, record_major
from danshari.pipeline.state import MajorResult, Pipeline
from danshari.pipeline.tracker import (
    ConversationTrack,
    edit_positions,
    have_same_pieces,
)
from danshari.planning.laws import check_edit
from danshari.planning.planner import (
    grade_pressure,
    next_evaluation_turn,
    soft_line,
)
from danshari.planning.proposal import Situation

_FOREVER_SECONDS = 1e12
"""Seconds that no session waited: the mark of a cache that cannot hold anything."""
_REDUCING_TRIES = 3
"""Times that the newest results are reduced: how many tokens a shortened text has is known afterwards only."""


class StepPlan(NamedTuple):
    """What was decided beyond first sight."""

    decision: Decision
    major: MajorResult


def resolve_format(run: Pipeline, payload: Any) -> tuple[Format, tuple[str, ...]]:
    """Return the format of `payload`, and notes about what is unusual in it.

    The format is detected until the conversation holds a tool call, then kept.
    """
    if run.settings.wire is not None:
        return run.settings.wire, ()
    if run.state.track is not None and run.state.track.facts.call_turns:
        return run.state.track.format, ()
    return detect_format(payload)


def run_compaction(
    run: Pipeline,
    payload: Any,
    wire: Format,
    notes: list[str],
    *,
    force: bool = False,
    full: bool = False,
    sent: int | None = None,
    focus: str | None = None,
    until: int = 0,
) -> Compaction:
    """Run one compaction: read the new messages, admit them, decide on edits, commit them, write the view.

    `sent` is the number of messages already cached by the provider, None if this session tracks that itself.
    `until` is the number of messages that a forced major compaction may replace, 0 for no limit. `notes` is
    extended in place.
    """
    given = wire.messages(payload)
    messages = _restore_source(run, wire, given)
    until += len(messages) - len(given) if until else 0  # in replace mode the caller counts the messages it holds
    track = _follow(run, messages, wire, notes)
    notes += track.note_unread()
    facts = track.facts
    if not facts.items:
        return build_result(run, payload, [], Decision(), notes, "none")
    sent_items = _count_sent_items(run, track, sent)
    step = Step()
    since = facts.first_sight if sent is None else sent_items
    stage(run, step, admit_new_items(track, _admission_policy(run), since), batch=False)
    if step:
        handle_bound_thinking(run, step)
    _account_earlier_rounds(run, track, sent_items)
    situation = _build_situation(run, track, sent_items, force=force)
    plan = _decide(run, step, payload, situation, force=force, full=full, focus=focus or "", until=until)
    notes += plan.decision.notes
    if step or run.state.hints:
        notes += handle_bound_thinking(run, step)
    if situation.pressure == "hard":
        _note_if_too_long(run, track, notes)
    edits = commit(run, step)
    result = build_result(run, payload, edits, plan.decision, notes, situation.pressure, plan.major)
    if sent is None:
        _account_request(run, track, result, situation)
    if run.settings.mode == "replace":
        remember_source(run, messages, result)
    return result


def _decide(
    run: Pipeline, step: Step, payload: Any, situation: Situation, *, force: bool, full: bool, focus: str, until: int
) -> StepPlan:
    """Decide on edits and stage them: gentle ones first, then a major compaction if those free too little.

    Under force, a second and harsher round of edits follows if the view is still too long.
    """
    settings, state, turn = run.settings, run.state, situation.facts.turn
    track = state.track
    assert track is not None
    trigger = find_trigger(settings.policy, situation, force=force) if not full else ""
    policy = settings.policy
    if focus and not full:
        policy = replace(policy, pinned=(*policy.pinned, focus))
    able = HANDOVER_PASS in policy.passes
    decision = decide_edits(track, settings, policy, situation, trigger, state.session.ledger, last=not able)
    major = maybe_compact_major(run, payload, decision, force=force, full=full, focus=focus, until=until)
    if major.edits:
        plan = replace(decision.plan, trigger=trigger or "asked")
        decision = Decision(edits=list(major.edits), refused=decision.refused, plan=plan)
    decision.notes += major.notes
    stage(run, step, decision.edits, batch=True)
    state.session = record_major(state.session, major, turn)
    if able and trigger == "forced":
        left = _build_situation(run, track, situation.sent, force=force)
        if left.need > 0:
            harsh = decide_edits(track, settings, policy, left, trigger, state.session.ledger)
            stage(run, step, harsh.edits, batch=True)
    decision.notes += _reduce_newest(run, step, situation, force=force)
    if trigger:
        state.session = replace(state.session, rest_until=next_evaluation_turn(decision.plan, turn))
    return StepPlan(decision, major)


def _reduce_newest(run: Pipeline, step: Step, situation: Situation, *, force: bool) -> list[str]:
    """Reduce the newest results evenly if the view would be refused as too long whatever else is done; tell it."""
    track, policy = run.state.track, run.settings.policy
    assert track is not None
    exact = replace(policy, elide=replace(policy.elide, margin=0.0))  # a little may be what is missing
    reduced: set[str] = set()
    for _ in range(_REDUCING_TRIES if ADMISSION_PASS in policy.passes else 0):
        if run.tokens(track) <= run.settings.model.window - run.settings.reserve:
            break
        left = _build_situation(run, track, situation.sent, force=force)
        newest = track.facts.items[-1].id
        found = reduce_newest(track.facts, track.effects, track.sizes, left.need, policy)
        edits = [replace(edit, seen=newest) for edit in found]
        edits = [edit for edit in edits if check_edit(edit, track.facts, exact) is None]
        stage(run, step, edits, batch=True)
        reduced.update(edit.id for edit in edits)
    if not reduced:
        return []
    return [f"the newest messages alone exceed the window: {len(reduced)} reduced to fit, recallable"]


def count_inputs(run: Pipeline, tools: Any, system: Any) -> None:
    """Estimate the tokens that precede the messages: tool schemas and the system prompt."""
    changed = (tools, system) != (run.inputs.tools, run.inputs.system)
    run.inputs.tools, run.inputs.system = tools, system
    if changed:
        recount_inputs(run)


def recount_inputs(run: Pipeline) -> None:
    """Estimate the tokens of tool schemas and system prompt again, by the present tokenizer family."""
    inputs, count = run.inputs, data.load_estimator(run.settings.family)
    texts = [v if isinstance(v, str) else json.dumps(v, default=str) for v in (inputs.tools, inputs.system) if v]
    inputs.floor = sum(count(text) for text in texts)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────


def _restore_source(run: Pipeline, wire: Format, messages: Sequence[Any]) -> Sequence[Any]:
    """Return the full source history in replace mode, where the caller holds the view that was returned last.

    The caller's messages are compared with that view. If all of them match, or a leading part of them, that
    part is replaced by the source messages behind it. Otherwise the caller's messages are returned as they
    are.
    """
    if run.settings.mode == "view" or run.state.returned is None:
        return messages
    same = 0
    for old, new in zip(run.state.returned, messages, strict=False):
        if old is not new and old != new and not have_same_pieces(wire, old, new):
            break
        same += 1
    if same == len(run.state.returned):
        return [*run.state.source, *messages[same:]]
    if not same or len(run.state.kept) != len(run.state.returned):
        return messages
    return [*run.state.source[: run.state.kept[same - 1] + 1], *messages[same:]]


def remember_source(run: Pipeline, source: Sequence[Any], result: Compaction) -> None:
    """Store the source messages behind the view returned to the caller (replace mode)."""
    track = run.state.track
    assert track is not None
    run.state.source, run.state.returned = list(source), list(track.format.messages(result.messages))
    kept = track.surviving_indices()
    origins = run.state.origins
    run.state.kept = [kept[at] for at in origins] if kept and origins is not None else kept


def _follow(run: Pipeline, messages: Sequence[Any], wire: Format, notes: list[str]) -> ConversationTrack:
    """Read the new messages, or all of them anew if they do not continue the history read so far.

    Notes are added for edits that no longer apply and for an unknown model.
    """
    track = run.state.track
    if track is None or track.format is not wire or not track.follow(messages, run.state.session.ledger):
        track = ConversationTrack(
            wire, data.load_tools(), data.load_estimator(run.settings.family), scorer=run.settings.policy.elide.scorer
        )
        track.follow(messages, run.state.session.ledger)
        track.resolve(run.state.session.ledger)
    run.state.track = track
    if track.effects.void:
        notes.append(f"{len(track.effects.void)} edits rest: this history does not hold what they changed")
    model = run.settings.model
    if not model.known:
        notes.append(f"unknown model {model.name or '(none given)'}: window {model.window:,} tokens is assumed")
    return track


def _count_sent_items(run: Pipeline, track: ConversationTrack, sent: int | None) -> int:
    """Count the leading items that were part of an earlier request."""
    items = track.facts.items
    if sent is not None:
        return next((at for at, item in enumerate(items) if item.at[0] >= sent), len(items))
    if run.state.session.served and run.state.session.served == items[0].id:
        return min(run.state.session.sent, len(items))
    return track.facts.first_sight


def _admission_policy(run: Pipeline) -> Policy:
    """Return the policy with its admission limit capped at a quarter of the window.

    `admit.any_over` is in characters, the window in tokens. At 4 characters a token, a quarter of the window has
    as many characters as the window has tokens.
    """
    policy, window = run.settings.policy, run.settings.model.window
    if policy.admit.any_over <= window:  # 0: no limit
        return policy
    return replace(policy, admit=replace(policy.admit, any_over=window))


def _account_earlier_rounds(run: Pipeline, track: ConversationTrack, sent: int) -> None:
    """Add the estimated cost of the rounds before this compactor joined the session to its account."""
    if not run.state.session.served and sent:
        turns = track.facts.items[sent - 1].turn
        account = run.state.session.account.record_earlier_cost(
            sum(track.facts.tokens[:sent]), turns, run.settings.model.prices
        )
        run.state.session = replace(run.state.session, account=account)


# ── weighing ─────────────────────────────────────────────────────────────────────────────────────────────


def _build_situation(run: Pipeline, track: ConversationTrack, sent: int, *, force: bool) -> Situation:
    """Collect the figures that the planner decides by.

    - `rounds_left`: free tokens below the hard line divided by the average growth in tokens per round.
    - `cold`: nothing was sent, the cache does not exist or has expired, or the view is below the minimum
      that the provider caches.
    - `need`: estimated tokens above the line to reach, divided by the calibration ratio. The line is the
      soft line under force or with `commit.mode = "trigger"`, else the hard line, which is the window less the
      reserve.
    - `purse`: units (base input tokens) that a commit may risk, infinite while nothing was sent.
    - `spare`: further tokens to free under force, so that the next forced compaction is not due at once.
    """
    session, policy, window, turn = run.state.session, run.settings.policy, run.settings.model.window, track.facts.turn
    tokens, hard = run.tokens(track), window - run.settings.reserve
    line = min(soft_line(window, policy), hard) if force or policy.commit.mode == "trigger" else hard
    prices = run.settings.model.prices
    waited = run.settings.clock() - session.last_call if session.last_call is not None else 0.0
    run.state.signals = read_signals(
        track.facts,
        reported=session.calibration.reported,
        idle=waited if 0 < waited < _FOREVER_SECONDS else 0.0,
    )
    growth = max(track.facts.total / max(turn, 1), 1.0)
    return Situation(
        facts=track.facts,
        sizes=track.sizes,
        sent=sent,
        prices=prices,
        cold=sent == 0 or not prices.ttl or waited > prices.ttl or 0 < tokens < prices.minimum,
        rounds_seen=turn,
        rounds_left=max((hard - tokens) / growth, 0.0),
        purse=session.account.risk_budget(policy.commit.purse) if sent else math.inf,
        since_commit=turn - session.commit_turn if session.commit_turn >= 0 else turn,
        signal=run.state.signals.trigger(policy),
        learned=dict(session.learned),
        resting=turn < session.rest_until,
        pressure=grade_pressure(tokens, window, run.settings.reserve, policy),
        need=max(tokens - line, 0.0) / session.calibration.ratio,
        spare=policy.commit.release * policy.commit.active * window,
    )


def _note_if_too_long(run: Pipeline, track: ConversationTrack, notes: list[str]) -> None:
    """Add a note if even the compacted view does not fit the window, with the figures."""
    shown, window = run.tokens(track), run.settings.model.window
    floor, reserve = run.inputs.floor, run.settings.reserve
    if floor + reserve >= window:
        notes.append(
            f"cannot fit: the fixed floor alone is {floor + reserve:,.0f} tokens (system prompt and "
            f"tools {floor:,.0f}, kept for the answer {reserve:,.0f}), the window holds {window:,}"
        )
    elif shown > window - reserve:
        fixed = f", of them {floor:,.0f} system prompt and tools" if floor else ""
        notes.append(
            f"cannot fit: {shown:,.0f} tokens remain{fixed}, the window holds {window:,} less {reserve:,.0f} "
            "for the answer; what the agent wrote last and the user's words are never cut"
        )


# ── the end of a call ────────────────────────────────────────────────────────────────────────────────────────────


def _account_request(run: Pipeline, track: ConversationTrack, result: Compaction, situation: Situation) -> None:
    """Add the request about to be sent to the session's account.

    The cached part ends at the first position that was changed and had been sent before.
    """
    facts, session = track.facts, run.state.session
    places = [p for e in result.edits for p in edit_positions(track, e)[:1] if p < situation.sent]
    places += [run.state.disturbed] if run.state.disturbed is not None else []
    run.state.disturbed = None
    unchanged = sum(track.sizes[: min(places)]) if places else session.account.shown
    account = session.account.record_request(
        facts.total, track.shown, unchanged, run.settings.model.prices, cold=situation.cold
    )
    run.state.session = replace(
        session, served=facts.items[0].id, sent=len(facts.items), last_call=run.settings.clock(), account=account
    )


# ── the result ───────────────────────────────────────────────────────────────────────────────────────────


def build_result(
    run: Pipeline,
    payload: Any,
    edits: Sequence[Edit],
    decision: Decision,
    notes: Sequence[str],
    pressure: str,
    major: MajorResult | None = None,
) -> Compaction:
    """Write the view and collect the `Compaction`."""
    track, chosen, money = run.state.track, decision.plan, run.settings.model.prices.dollars
    assert track is not None
    after = run.tokens(track)
    written = track.write_mended(run.source_payload(payload, track), run.settings.policy.mend)
    run.state.origins = written.origins
    return Compaction(
        messages=written.payload,
        mended=written.mends,
        format=track.format.name,
        policy=run.settings.policy.name,
        model=run.settings.model.name,
        before=round(after + max(track.facts.total - track.shown, 0.0)),  # sums drift by 1e-12
        after=round(after),
        edits=tuple(edits),
        live=len(track.effects.texts) + len(track.effects.gone),
        held=tuple(HeldProposal(id=track.facts.items[p.at].id, by=p.by, why=p.why, freed=p.freed) for p in chosen.held),
        refused=tuple(decision.refused),
        trigger=chosen.trigger,
        pressure=pressure,
        earn=money(chosen.earn),
        cost=money(chosen.cost + chosen.faults + (major.units if major else 0.0)),
        handover=major.document if major else None,
        rungs=major.rungs if major else (),
        survived=major.survived if major else (),
        hints=track.format.hints() if run.state.hints else {},
        signals=run.state.signals,
        notes=(*notes, *written.notes),
    )
