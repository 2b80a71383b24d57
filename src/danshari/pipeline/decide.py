"""Which edits to commit: admission of new items, the planner's choice, forced compaction, bound thinking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.analysis.signals import Trigger
from danshari.core.edits import Drop, Edit, Effects, Replace, find_stale_reasoning, resolve_edits
from danshari.core.policy import Policy
from danshari.core.pricing import ModelInfo
from danshari.errors import PolicyError
from danshari.passes import ADMISSION_PASS, PASS_NAMES, PASSES, Pass
from danshari.passes.admit import admit
from danshari.pipeline.state import PipelineSettings
from danshari.pipeline.tracker import ConversationTrack
from danshari.planning.laws import Refusal, check_edit, is_protected, protected_head_end
from danshari.planning.planner import (
    choose_batch,
    choose_forced_batch,
    evaluation_trigger,
)
from danshari.planning.proposal import BatchPlan, Proposal, Situation


@dataclass(slots=True, kw_only=True)
class Decision:
    """The edits to commit, with the plan they come from and the proposals that a law refused."""

    edits: list[Edit] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    plan: BatchPlan = field(default_factory=BatchPlan)
    notes: list[str] = field(default_factory=list)


def admit_new_items(track: ConversationTrack, policy: Policy, since: int) -> list[Edit]:
    """Return the admission edits for the items from position `since` on.

    Items are handled one by one, because an item may refer to another that is shortened in the same batch.
    """
    if ADMISSION_PASS not in policy.passes:
        return []
    facts, effects = track.facts, track.effects
    newest, cleaned = facts.items[-1].id, replace(policy, elide=replace(policy.elide, margin=0.0))
    shown = Effects(texts=dict(effects.texts), gone=effects.gone)
    edits: list[Edit] = []
    for at in range(since, len(facts.items)):  # one by one: an item may depend on one that this very batch shortens
        found = admit(facts, shown, policy, at) if at not in effects.texts else None
        if found is None:
            continue
        edit = replace(found, seen=newest)
        if check_edit(edit, facts, cleaned) is None:
            shown.texts[at] = edit
            edits.append(edit)
    return edits


def collect_proposals(
    passes: Sequence[Pass],
    facts: Facts,
    effects: Effects,
    policy: Policy,
    *,
    force: bool,
    notes: list[str] | None = None,
) -> list[Proposal]:
    """Collect the proposals of some passes, one per item. Earlier (gentler) passes win.

    A proposal that refers to another item is skipped for the next one if that item is about to change too. A pass of
    the caller's own that fails is skipped with a line in `notes`: the other passes still keep the window.
    """
    found: dict[int, list[Proposal]] = {}
    notes = notes if notes is not None else []
    head = protected_head_end(facts, policy)
    for row in passes:
        ask = row.propose if row.name in PASSES else partial(_ask_own_pass, row, notes)
        for proposal in ask(facts, effects, policy, force):
            if proposal.at >= head and not is_protected(facts.items[proposal.at], policy):
                found.setdefault(proposal.at, []).append(proposal)
    return [next((p for p in options if p.needs not in found), options[-1]) for options in found.values()]


def _ask_own_pass(
    row: Pass, notes: list[str], facts: Facts, effects: Effects, policy: Policy, force: bool
) -> list[Proposal]:
    """Return what a pass of the caller's own proposes; nothing, and a note, if it fails or proposes what cannot be."""
    try:
        found = list(row.propose(facts, effects, policy, force))
        wrong = [p for p in found if not isinstance(p, Proposal) or not 0 <= p.at < len(facts.items)]
        why = f"it proposed {wrong[0]!r}, which is no Proposal for an item of this conversation" if wrong else ""
    except Exception as error:  # noqa: BLE001  (the caller's own code: what it raises must not cost the window)
        found, why = [], f"{type(error).__name__}: {error}"
    if why:
        notes.append(f"pass {row.name!r} was skipped: {why}")
    return [] if why else found


def passes_in_force(policy: Policy, table: Mapping[str, Pass]) -> list[Pass]:
    """Return the passes to ask, in order: those that the policy names, with the caller's own after the gentle ones.

    A pass of last resort comes at the end. The caller's own passes are asked whatever the policy names.
    """
    names = [name for name in policy.passes if name in table]
    for row in (row for name, row in table.items() if name not in PASSES and name not in policy.passes):
        harsh = (at for at, name in enumerate(names) if table[name].last_resort)
        names.insert(len(names) if row.last_resort else next(harsh, len(names)), row.name)
    return [table[name] for name in names]


def decide_edits(
    track: ConversationTrack,
    settings: PipelineSettings,
    policy: Policy,
    situation: Situation,
    trigger: Trigger,
    ledger: Sequence[Edit],
    *,
    last: bool = True,
) -> Decision:
    """Return the edits of the batch that the planner chooses now, empty if `trigger` is empty.

    `policy` is the one in force for this call. `last` matters under force only: False stops after the gentle stage,
    True goes on to placeholders and dropped rounds.
    """
    if not trigger:
        return Decision()
    facts, model = track.facts, settings.model
    passes = passes_in_force(policy, settings.passes)
    if policy.thinking == "keep" and has_bound_thinking(track, model):
        return Decision(notes=["no edit: the policy keeps thinking that is bound to what precedes it"])
    if trigger == "forced":
        return _decide_forced(track, passes, policy, situation, ledger, last=last)
    if has_bound_thinking(track, model) and not facts.is_tool_loop_closed() and policy.thinking != "hint":
        return Decision(notes=["edits wait for the end of the tool loop: its thinking is bound to what precedes it"])
    gentle = [p for p in passes if not p.last_resort]
    decision = Decision()
    proposals = collect_proposals(gentle, facts, track.effects, policy, force=False, notes=decision.notes)
    found = [_apply_recall_factor(p, facts, situation.learned) for p in proposals]
    chosen = decision.plan = choose_batch(found, situation, policy, trigger)
    _write_edits(chosen.batch, track, policy, decision)
    return decision


def _apply_recall_factor(proposal: Proposal, facts: Facts, learned: Mapping[str, float]) -> Proposal:
    """Multiply a proposal's re-fetch cost by the factor that recalls of this tool kind have led to."""
    act = facts.act_at(proposal.at) if learned else None
    factor = learned.get(act.kind, 1.0) if act else 1.0
    return proposal if factor == 1.0 else replace(proposal, fault=factor * proposal.fault)


def _decide_forced(
    track: ConversationTrack,
    passes: Sequence[Pass],
    policy: Policy,
    situation: Situation,
    ledger: Sequence[Edit],
    *,
    last: bool,
) -> Decision:
    """Free the tokens needed, in three stages, each of which sees the effects of the one before.

    The stages are gentle proposals, forced proposals of the same passes, and the passes of last resort.
    """
    decision = Decision(plan=BatchPlan(trigger="forced"))
    mild = [p for p in passes if not p.last_resort]
    harsh = [p for p in passes if p.last_resort]
    effects, freed = track.effects, 0.0
    stages = (
        (mild, False, situation.need + situation.spare),
        (mild, True, situation.need),
        (harsh, True, situation.need),
    )
    for stage, force, need in stages if last else stages[:1]:
        if freed >= need:
            continue
        found = collect_proposals(stage, track.facts, effects, policy, force=force, notes=decision.notes)
        chosen = choose_forced_batch(found, need - freed)
        before = len(decision.edits)
        _write_edits(chosen.batch, track, policy, decision)
        if len(decision.edits) > before:
            effects = resolve_edits([*ledger, *decision.edits], track.facts.items, track.facts.index)
        freed = sum(track.sizes) - _view_tokens(track, effects)
    decision.notes = list(dict.fromkeys(decision.notes))  # a pass that fails does so in every stage
    return decision


def estimate_freed_tokens(track: ConversationTrack, edits: Sequence[Edit], ledger: Sequence[Edit]) -> float:
    """Estimate the tokens that `edits` would free if they were committed now."""
    if not edits:
        return 0.0
    return sum(track.sizes) - _view_tokens(
        track, resolve_edits([*ledger, *edits], track.facts.items, track.facts.index)
    )


def _view_tokens(track: ConversationTrack, effects: Effects) -> float:
    """Estimate the tokens of the view that `effects` describe."""
    facts = track.facts
    total = 0.0
    for at, size in enumerate(track.sizes):
        if at in effects.gone:
            continue
        edit = effects.texts.get(at)
        total += (
            size
            if edit is None or edit is track.effects.texts.get(at)
            else facts.count.estimate_item(facts.items[at].kind, edit.text)
        )
    return total


def _write_edits(batch: Iterable[Proposal], track: ConversationTrack, policy: Policy, decision: Decision) -> None:
    """Turn proposals into edits and add them to `decision`.

    A proposal is skipped if it writes nothing or shortens a replaced text by less than the policy's margin.
    One that breaks a law is added to `decision.refused`.
    """
    facts = track.facts
    newest = facts.items[-1].id
    for proposal in batch:
        item = facts.items[proposal.at]
        told: dict[str, Any] = {"by": proposal.by, "why": proposal.why, "reason": proposal.reason, "seen": newest}
        if proposal.until >= 0:
            last = facts.items[proposal.until]
            edit: Edit = Drop(first=item.id, last=last.id, **told)
        else:
            text = proposal.write()
            if text is None:
                continue
            edit = Replace(id=item.id, text=text, **told)
            shown = track.effects.texts.get(proposal.at)
            if shown is not None and len(text) >= (1 - policy.elide.margin) * len(shown.text):
                continue
        broken = check_edit(edit, facts, policy)
        if broken is None:
            decision.edits.append(edit)
        else:
            decision.refused.append(broken)


def has_bound_thinking(track: ConversationTrack, model: ModelInfo) -> bool:
    """Return whether the view holds thinking that the provider binds to the messages before it."""
    texts, gone = track.effects.texts, track.effects.gone
    return model.binding and any(
        i.bound and at not in texts and at not in gone for at, i in enumerate(track.facts.items)
    )


def strip_dead_thinking(track: ConversationTrack, ledger: Sequence[Edit]) -> tuple[list[Edit], bool]:
    """Return edits that remove thinking whose prefix changed, and whether some of it has to stay.

    Thinking of the newest turn stays while its tool loop is open.
    """
    facts = track.facts
    effects = resolve_edits(ledger, facts.items, facts.index)
    dead = find_stale_reasoning(ledger, effects, facts.items, facts.index)
    newest = facts.items[-1].id
    edits: list[Edit] = [
        Replace(id=facts.items[at].id, text="", by="binding", reason="thinking", why="its prefix changed", seen=newest)
        for at in dead
        if facts.items[at].turn < facts.turn or facts.is_tool_loop_closed()
    ]
    return edits, len(edits) < len(dead)


def find_trigger(policy: Policy, situation: Situation, *, force: bool) -> Trigger:
    """Return why proposals are considered now, empty if they are not. `force` overrides the triggers."""
    if not situation.facts.items:
        return ""
    return "forced" if force and situation.need > 0 else evaluation_trigger(situation, policy)


def validate_policy(policy: Policy, passes: Mapping[str, Pass] = PASSES) -> Policy:
    """Return the policy. Raises PolicyError if it names an unknown pass or language."""
    known = dict.fromkeys((*PASS_NAMES, *passes))
    unknown = [name for name in policy.passes if name not in known]
    if unknown:
        raise PolicyError(f"policy {policy.name}: unknown pass {unknown[0]!r}; known: {', '.join(known)}")
    if policy.handover.language and policy.handover.language not in data.load_phrases():
        raise PolicyError(
            f"policy {policy.name}: language = {policy.handover.language!r}; known: {', '.join(data.load_phrases())}, "
            "or empty"
        )
    return policy
