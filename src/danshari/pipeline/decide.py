"""From facts to edits: admission, weighing, force, and the care that bound thinking needs. Pure but for the track."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from danshari import data
from danshari.analysis.facts import Facts
from danshari.core.edits import Drop, Edit, Effects, Replace, dead_reasoning, resolve
from danshari.core.policy import Policy
from danshari.core.pricing import Model
from danshari.errors import PolicyError
from danshari.passes import NAMES, PASSES
from danshari.passes.admit import admit
from danshari.pipeline.tracker import Track
from danshari.planning.laws import Refusal, protected, refuse
from danshari.planning.planner import (
    Plan,
    Proposal,
    Situation,
    due,
    forced,
    plan,
)


@dataclass(slots=True)
class Decision:
    """Edits to commit, with the plan they came from."""

    edits: list[Edit] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    plan: Plan = field(default_factory=Plan)
    notes: list[str] = field(default_factory=list)


def admitted(track: Track, policy: Policy, since: int) -> list[Edit]:
    """Decide the admission edits for items from position `since` on."""
    if "admit" not in policy.passes:
        return []
    facts, effects = track.facts, track.effects
    newest, cleaned = facts.items[-1].id, replace(policy, margin=0.0)
    shown = Effects(texts=dict(effects.texts), gone=effects.gone)
    edits: list[Edit] = []
    for at in range(since, len(facts.items)):  # one by one: what an item leans on may be squeezed in this very batch
        found = admit(facts, shown, policy, at) if at not in effects.texts else None
        if found is None:
            continue
        edit = replace(found, seen=newest)
        if refuse(edit, facts, cleaned) is None:
            shown.texts[at] = edit
            edits.append(edit)
    return edits


def proposals(facts: Facts, effects: Effects, policy: Policy, *, force: bool) -> list[Proposal]:
    """Collect what the policy's passes propose; the gentler pass wins where two propose for one item.

    A proposal that points to a surviving item gives way to the next if that item is about to change too.
    """
    found: dict[int, list[Proposal]] = {}
    for name in policy.passes:
        if name in PASSES and (name != "evict" or force):
            for proposal in PASSES[name](facts, effects, policy, force):
                if not protected(facts.items[proposal.at], policy):
                    found.setdefault(proposal.at, []).append(proposal)
    return [next((p for p in options if p.needs not in found), options[-1]) for options in found.values()]


def decide(
    track: Track,
    policy: Policy,
    model: Model,
    situation: Situation,
    why: str,
    ledger: Sequence[Edit],
    *,
    last: bool = True,
) -> Decision:
    """Weigh the proposals of this moment and write the edits of the chosen batch.

    `last` says whether, under force, harsher stages may follow the gentle one (all placeholders, rounds dropped).
    """
    if not why:
        return Decision()
    facts = track.facts
    if policy.thinking == "keep" and binds(track, model):
        return Decision(notes=["no edit: the policy keeps thinking that is bound to what precedes it"])
    if why == "forced":
        return _forced(track, policy, situation, ledger, last=last)
    if binds(track, model) and not facts.closed() and policy.thinking != "hint":
        return Decision(notes=["edits wait for the end of the tool loop: its thinking is bound to what precedes it"])
    found = [_learned(p, facts, situation.learned) for p in proposals(facts, track.effects, policy, force=False)]
    chosen = plan(found, situation, policy, why)
    decision = Decision(plan=chosen)
    _write(chosen.batch, track, policy, decision)
    return decision


def _learned(proposal: Proposal, facts: Facts, learned: Mapping[str, float]) -> Proposal:
    """Weigh a fault by what recalls have taught about this kind of tool."""
    act = facts.act_at(proposal.at) if learned else None
    factor = learned.get(act.kind, 1.0) if act else 1.0
    return proposal if factor == 1.0 else replace(proposal, fault=factor * proposal.fault)


def _forced(track: Track, policy: Policy, situation: Situation, ledger: Sequence[Edit], *, last: bool) -> Decision:
    """Go through the stages, gentlest first, each seeing what the one before it did."""
    decision = Decision(plan=Plan(why="forced"))
    mild = replace(policy, passes=tuple(p for p in policy.passes if p != "evict"))
    evicting = replace(policy, passes=tuple(p for p in policy.passes if p == "evict"))
    effects, freed = track.effects, 0.0
    stages = (
        (mild, False, situation.need + situation.spare),
        (mild, True, situation.need),
        (evicting, True, situation.need),
    )
    for stage, force, need in stages if last else stages[:1]:
        if freed >= need:
            continue
        chosen = forced(proposals(track.facts, effects, stage, force=force), need - freed)
        before = len(decision.edits)
        _write(chosen.batch, track, policy, decision)
        if len(decision.edits) > before:
            effects = resolve([*ledger, *decision.edits], track.facts.items, track.facts.index)
        freed = sum(track.sizes) - _total(track, effects)
    return decision


def freed_by(track: Track, edits: Sequence[Edit], ledger: Sequence[Edit]) -> float:
    """Estimate the tokens that edits would free if they were committed now."""
    if not edits:
        return 0.0
    return sum(track.sizes) - _total(track, resolve([*ledger, *edits], track.facts.items, track.facts.index))


def _total(track: Track, effects: Effects) -> float:
    facts = track.facts
    total = 0.0
    for at, size in enumerate(track.sizes):
        if at in effects.gone:
            continue
        edit = effects.texts.get(at)
        total += (
            size
            if edit is None or edit is track.effects.texts.get(at)
            else facts.count.item(facts.items[at].kind, edit.text)
        )
    return total


def _write(batch: Iterable[Proposal], track: Track, policy: Policy, decision: Decision) -> None:
    facts = track.facts
    newest = facts.items[-1].id
    for proposal in batch:
        item = facts.items[proposal.at]
        if proposal.until >= 0:
            last = facts.items[proposal.until]
            edit: Edit = Drop(first=item.id, last=last.id, by=proposal.by, why=proposal.why, seen=newest)
        else:
            text = proposal.write()
            if text is None:
                continue
            edit = Replace(id=item.id, text=text, by=proposal.by, why=proposal.why, seen=newest)
            shown = track.effects.texts.get(proposal.at)
            if shown is not None and len(text) >= (1 - policy.margin) * len(shown.text):
                continue
        broken = refuse(edit, facts, policy)
        if broken is None:
            decision.edits.append(edit)
        else:
            decision.refused.append(broken)


def binds(track: Track, model: Model) -> bool:
    """Say whether the view holds thinking that the provider ties to what precedes it."""
    texts, gone = track.effects.texts, track.effects.gone
    return model.binding and any(
        i.bound and at not in texts and at not in gone for at, i in enumerate(track.facts.items)
    )


def strip_dead(track: Track, ledger: Sequence[Edit]) -> tuple[list[Edit], bool]:
    """Leave dead thinking out; also say whether some dead block had to stay (it belongs to the newest turn)."""
    facts = track.facts
    effects = resolve(ledger, facts.items, facts.index)
    dead = dead_reasoning(ledger, effects, facts.items, facts.index)
    newest = facts.items[-1].id
    edits: list[Edit] = [
        Replace(id=facts.items[at].id, text="", by="binding", why="its prefix changed", seen=newest)
        for at in dead
        if facts.items[at].turn < facts.turn or facts.closed()
    ]
    return edits, len(edits) < len(dead)


def weigh(policy: Policy, situation: Situation, *, force: bool) -> str:
    """Say why proposals are weighed now; `force` overrules the triggers."""
    if not situation.facts.items:
        return ""
    return "forced" if force and situation.need > 0 else due(situation, policy)


def with_known_passes(policy: Policy) -> Policy:
    """Refuse a policy that names a pass which does not exist."""
    known = dict.fromkeys((*NAMES, *PASSES))  # a pass of the caller's own is added to PASSES
    unknown = [name for name in policy.passes if name not in known]
    if unknown:
        raise PolicyError(f"policy {policy.name}: unknown pass {unknown[0]!r}; known: {', '.join(known)}")
    if policy.language and policy.language not in data.phrases():
        raise PolicyError(
            f"policy {policy.name}: language = {policy.language!r}; known: {', '.join(data.phrases())}, or empty"
        )
    return policy
