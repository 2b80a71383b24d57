"""The cheapest commit schedule with full knowledge of the future, as a lower bound for online planners.

Dynamic programming over commit times: no online planner that commits the same proposals in whole
batches can be cheaper. Costs follow the model of `PrefixCache`, in items instead of bytes.
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
from danshari.formats import find_format
from danshari.passes import GENTLE_PASSES
from danshari.passes.admit import admit
from danshari.pipeline.decide import collect_proposals
from danshari.replay.prompt_cache import DEFAULT_MODEL, request_boundaries
from danshari.sessions import RecordedSession


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSchedule:
    """Cost (units) of the cheapest schedule and of doing nothing, and the 1-based rounds of its commits."""

    cost: float
    untouched: float
    commits: tuple[int, ...]


def best_schedule(
    session: RecordedSession, policy: Policy, prices: Prices, *, model: str | None = None
) -> BestSchedule:
    """Return the cheapest commit rounds of one session for the proposals of a policy."""
    family = data.find_model(model or session.model or DEFAULT_MODEL).family
    wire = find_format(session.format)
    facts = Facts(data.load_tools(), data.load_estimator(family))
    items = wire.read(session.messages)
    sizes: list[float] = []
    untouched: list[float] = []
    eligible: dict[int, tuple[int, float]] = {}
    starts = [0]
    effects = Effects()
    for number, at in enumerate(request_boundaries(session, wire)):
        known = len(facts.items)
        facts.extend(i for i in items[known:] if i.at[0] < at)
        untouched += facts.tokens[known:]
        sizes += facts.tokens[known:]
        if "admit" in policy.passes:
            for place in range(max(known, facts.first_sight), len(facts.items)):
                if edit := admit(facts, effects, policy, place):
                    effects.texts[place] = edit
                    sizes[place] = facts.count.estimate_item("result", edit.text)
        for proposal in collect_proposals(GENTLE_PASSES, facts, effects, policy, force=False):
            freed = min(proposal.freed, max(sizes[proposal.at] - 30.0, 0.0))
            eligible.setdefault(proposal.at, (number, freed))
        starts.append(len(facts.items))
    cost, commits = _cheapest_commits(sizes, eligible, starts, prices)
    return BestSchedule(cost=cost, untouched=_cheapest_commits(untouched, {}, starts, prices)[0], commits=commits)


class _RequestCosts:
    """Prefix sums that price any range of requests in constant time."""

    def __init__(
        self, sizes: Sequence[float], eligible: dict[int, tuple[int, float]], starts: Sequence[int], prices: Prices
    ) -> None:
        """Build the prefix sums.

        `sizes` are tokens per item, `eligible` maps an item to (round from which it may be shortened,
        tokens freed), `starts` is the number of items in each request.
        """
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

    def price_requests(self, first: int, last: int, commit: int) -> float:
        """Return the cost of requests `first` to `last` if the latest commit was at round `commit` (-1: none).

        New tokens at the write price plus all older tokens that remain after the commit at the read price.
        """
        if last < first:
            return 0.0
        old = self._old[last + 1] - self._old[first] - self.saved[commit + 1][-1] * (last - first + 1)
        return self._new[last + 1] - self._new[first] + self.prices.read * max(old, 0.0)

    def price_commit(self, at: int, earlier: int, first: int) -> float:
        """Return the cost of the request at round `at` that commits what became eligible after round `earlier`.

        Tokens before the item `first` at the read price, all that follows it at the write price.
        """
        before = self.full[first] - self.saved[earlier + 1][first]
        shown = self.full[self.starts[at + 1]] - self.saved[at + 1][-1]
        return self.prices.read * before + self.prices.write * max(shown - before, 0.0)


def _cheapest_commits(
    sizes: Sequence[float], eligible: dict[int, tuple[int, float]], starts: Sequence[int], prices: Prices
) -> tuple[float, tuple[int, ...]]:
    """Return the least cost and its 1-based commit rounds.

    best[t] is the least cost of rounds 0 to t with the last commit at t: the minimum over the commit e
    before it of best[e] + cost of the requests between + cost of the committing request.
    """
    costs = _RequestCosts(sizes, eligible, starts, prices)
    last = costs.rounds - 1
    best: list[float] = []
    came: list[int] = []
    for at in range(costs.rounds):
        found, source, first = inf, -1, len(sizes)
        for earlier in range(at - 1, -2, -1):
            first = min([first, *costs.by_round[earlier + 1]])
            base = 0.0 if earlier < 0 else best[earlier]
            if first < len(sizes) and base < found:
                total = (
                    base + costs.price_requests(earlier + 1, at - 1, earlier) + costs.price_commit(at, earlier, first)
                )
                if total < found:
                    found, source = total, earlier
        best.append(found)
        came.append(source)
    options = [
        (costs.price_requests(0, last, -1), -1),
        *((best[t] + costs.price_requests(t + 1, last, t), t) for t in range(last + 1)),
    ]
    cost, commit = min(options)
    commits = []
    while commit >= 0:
        commits.append(commit + 1)
        commit = came[commit]
    return cost, tuple(reversed(commits))
