"""The offline-optimal commit schedule: given what a policy could shorten and when, the cheapest rounds to commit at.

A dynamic programme over commit times that knows the whole future; no online planner can be cheaper with the same
proposals committed in whole batches. It prices what the planner's own batches cost (`PrefixCache`'s model, in items).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf

from danshari import data
from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.policy import Policy
from danshari.core.pricing import Prices
from danshari.formats import named
from danshari.passes.admit import admit
from danshari.pipeline.decide import proposals
from danshari.replay.prompt_cache import DEFAULT_MODEL, cuts
from danshari.sessions import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """Cost in units of the cheapest schedule, of doing nothing, and the rounds it commits at (1-based)."""

    cost: float
    untouched: float
    commits: tuple[int, ...]


def best_schedule(session: Recorded, policy: Policy, prices: Prices, *, model: str | None = None) -> Best:
    """Find the cheapest commit rounds for one session."""
    family = data.model(model or session.model or DEFAULT_MODEL).family
    wire = named(session.format)
    facts = Facts(data.tools(), data.estimator(family))
    items = wire.read(session.messages)
    sizes: list[float] = []
    untouched: list[float] = []
    eligible: dict[int, tuple[int, float]] = {}
    starts = [0]
    effects = Effects()
    for number, at in enumerate(cuts(session, wire)):
        known = len(facts.items)
        facts.extend(i for i in items[known:] if i.at[0] < at)
        untouched += facts.tokens[known:]
        sizes += facts.tokens[known:]
        if "admit" in policy.passes:
            for place in range(max(known, facts.first_sight), len(facts.items)):
                if edit := admit(facts, effects, policy, place):
                    effects.texts[place] = edit
                    sizes[place] = facts.count.item("result", edit.text)
        for proposal in proposals(facts, effects, policy, force=False):
            freed = min(proposal.freed, max(sizes[proposal.at] - 30.0, 0.0))
            eligible.setdefault(proposal.at, (number, freed))
        starts.append(len(facts.items))
    cost, commits = _programme(sizes, eligible, starts, prices)
    return Best(cost=cost, untouched=_programme(untouched, {}, starts, prices)[0], commits=commits)


class _Costs:
    """Sums that let any stretch of requests be priced at once."""

    def __init__(
        self, sizes: Sequence[float], eligible: dict[int, tuple[int, float]], starts: Sequence[int], prices: Prices
    ) -> None:
        self.prices = prices
        self.rounds = len(starts) - 1
        self.full = [0.0, *accumulate(sizes)]
        self.starts = starts
        self.by_round: list[list[int]] = [[] for _ in range(self.rounds)]
        for place, (number, _) in eligible.items():
            self.by_round[number].append(place)
        self.saved = [[0.0] * (len(sizes) + 1)]
        freed = [0.0] * len(sizes)
        for batch in self.by_round:
            for place in batch:
                freed[place] = eligible[place][1]
            self.saved.append([0.0, *accumulate(freed)] if batch else self.saved[-1])
        self._new = [0.0, *accumulate(prices.write * (self.full[b] - self.full[a]) for a, b in pairwise(starts))]
        self._old = [0.0, *accumulate(self.full[a] for a in starts[:-1])]

    def reading(self, first: int, last: int, commit: int) -> float:
        """Price requests `first` to `last` after a commit at round `commit` (-1: none) and before any other."""
        if last < first:
            return 0.0
        old = self._old[last + 1] - self._old[first] - self.saved[commit + 1][-1] * (last - first + 1)
        return self._new[last + 1] - self._new[first] + self.prices.read * max(old, 0.0)

    def committing(self, at: int, earlier: int, first: int) -> float:
        """Price the request of round `at` that commits what became eligible after round `earlier`, from `first` on."""
        before = self.full[first] - self.saved[earlier + 1][first]
        shown = self.full[self.starts[at + 1]] - self.saved[at + 1][-1]
        return self.prices.read * before + self.prices.write * max(shown - before, 0.0)


def _programme(
    sizes: Sequence[float], eligible: dict[int, tuple[int, float]], starts: Sequence[int], prices: Prices
) -> tuple[float, tuple[int, ...]]:
    """Minimise over commit rounds: best[t] is the cost of rounds 0 to t with the last commit at t."""
    costs = _Costs(sizes, eligible, starts, prices)
    last = costs.rounds - 1
    best: list[float] = []
    came: list[int] = []
    for at in range(costs.rounds):
        found, source, first = inf, -1, len(sizes)
        for earlier in range(at - 1, -2, -1):
            first = min([first, *costs.by_round[earlier + 1]])
            base = 0.0 if earlier < 0 else best[earlier]
            if first < len(sizes) and base < found:
                total = base + costs.reading(earlier + 1, at - 1, earlier) + costs.committing(at, earlier, first)
                if total < found:
                    found, source = total, earlier
        best.append(found)
        came.append(source)
    options = [
        (costs.reading(0, last, -1), -1),
        *((best[t] + costs.reading(t + 1, last, t), t) for t in range(last + 1)),
    ]
    cost, commit = min(options)
    commits = []
    while commit >= 0:
        commits.append(commit + 1)
        commit = came[commit]
    return cost, tuple(reversed(commits))
