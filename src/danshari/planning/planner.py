"""The planner: decides which proposed edits are committed now, by the provider's cache prices.

All amounts of money are in units: tokens times price multiplier, where 1 is one uncached input
token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from danshari.analysis.signals import Trigger
from danshari.core.policy import Policy
from danshari.core.pricing import cache_savings, rewrite_cost
from danshari.planning.proposal import BatchPlan, Pressure, Proposal, Situation


def grade_pressure(tokens: float, window: int, reserve: float, policy: Policy) -> Pressure:
    """Return how full the window is.

    hard: `tokens` reach `window` minus `reserve`. soft: they reach the soft line. warn: they reach 85 %
    of it.
    """
    soft = soft_line(window, policy)
    if tokens >= window - reserve:
        return "hard"
    if tokens >= soft:
        return "soft"
    return "warn" if tokens >= 0.85 * soft else "none"


def soft_line(window: int, policy: Policy) -> float:
    """Return the tokens from which the policy evaluates proposals under pressure."""
    return float(policy.commit.token_trigger or policy.commit.evaluate * policy.commit.active * window)


def evaluation_trigger(situation: Situation, policy: Policy) -> Trigger:
    """Return the reason to evaluate proposals now, or an empty string to leave the view unchanged."""
    if policy.commit.mode == "always":
        return "every round"
    if situation.pressure == "hard" or (situation.pressure == "soft" and policy.commit.mode == "trigger"):
        return "forced"
    if policy.commit.mode == "trigger":
        return ""
    if situation.cold:
        return "cold cache"
    if policy.commit.mode == "cold":
        return ""
    if situation.resting:
        return ""
    if situation.pressure == "soft" and situation.since_commit * 2 >= policy.commit.cooldown:
        return "soft line"
    if situation.signal and situation.since_commit * 2 >= policy.commit.cooldown:
        return situation.signal
    return "gain" if situation.since_commit >= policy.commit.cooldown else ""


def choose_batch(proposals: Iterable[Proposal], situation: Situation, policy: Policy, trigger: Trigger) -> BatchPlan:
    """Choose the batch of proposals with the best net earnings, or hold all of them.

    A batch takes every proposal from some position to the end, because an edit invalidates the cached
    prefix after it. With the trigger "every round" all proposals are taken; a batch that frees less than
    `policy.commit.least` tokens is held.
    """
    found = sorted(proposals, key=lambda p: p.at)
    if not found:
        return BatchPlan(trigger=trigger)
    if trigger == "every round":
        return BatchPlan(batch=tuple(found), trigger=trigger)
    best = _best_start(found, situation, policy)
    if best is None:
        return BatchPlan(held=tuple(found), trigger=trigger)
    start, earn, cost, faults = best
    chosen = BatchPlan(
        batch=tuple(found[start:]), held=tuple(found[:start]), earn=earn, cost=cost, faults=faults, trigger=trigger
    )
    if sum(p.freed for p in chosen.batch) < policy.commit.least and not situation.cold:
        return BatchPlan(held=tuple(found), earn=earn, cost=cost, faults=faults, trigger=trigger)
    return chosen


class BestStart(NamedTuple):
    """Where the best batch starts in the proposals, and its figures in units."""

    start: int
    earn: float
    cost: float
    faults: float


def _best_start(found: Sequence[Proposal], situation: Situation, policy: Policy) -> BestStart | None:
    """Return the start of the best batch, or None if no batch pays.

    For each start, net = earn - factor x cost - faults, all in units. `earn` is the freed tokens times
    the read price times the rounds expected to follow (plus their write price if the cache is cold).
    `cost` is the price of writing again the cached tokens after the first edit. `faults` sums, over the
    proposals, the chance that the item is needed again times one extra round: reading the whole view
    and writing the freed tokens. A batch must have net > 0, and cost + faults must not exceed
    `situation.purse`.
    """
    prices = situation.prices
    horizon = max(min(max(policy.commit.horizon, situation.rounds_seen), situation.rounds_left), 1.0)
    before = [0.0, *accumulate(situation.sizes)]
    sent_total = before[min(situation.sent, len(before) - 1)]
    total = before[-1]
    best: BestStart | None = None
    best_net = 0.0
    freed = freed_sent = faults = 0.0
    for start in range(len(found) - 1, -1, -1):
        proposal = found[start]
        freed += proposal.freed
        if proposal.at < situation.sent:
            freed_sent += proposal.freed
        faults += policy.commit.refetch * proposal.fault * (prices.read * total + prices.write * proposal.freed)
        after = max(sent_total - before[proposal.at] - freed_sent, 0.0) if proposal.at < situation.sent else 0.0
        cost = rewrite_cost(prices, after, cold=situation.cold)
        earn = cache_savings(prices, freed, horizon, cold=situation.cold)
        net = earn - policy.commit.factor * cost - faults
        if net > best_net and cost + faults <= situation.purse:
            best_net, best = net, BestStart(start, earn, cost, faults)
    return best


def choose_forced_batch(proposals: Iterable[Proposal], need: float) -> BatchPlan:
    """Take proposals in the given order until `need` tokens are freed."""
    batch: list[Proposal] = []
    freed = 0.0
    for proposal in proposals:
        if freed >= need:
            break
        batch.append(proposal)
        freed += proposal.freed
    return BatchPlan(batch=tuple(batch), trigger="forced")


def next_evaluation_turn(plan: BatchPlan, turn: int) -> int:
    """Return the turn at which held proposals are evaluated again: one turn later for every hundred of them."""
    return turn + len(plan.held) // 100
