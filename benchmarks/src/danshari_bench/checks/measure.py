"""Attempts to prove the measure wrong: its cache against bills, its lost references against real re-reads, its slope.

Each check gives the figures whatever they are, and says what these recordings cannot decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from danshari.formats.usage import cached_tokens, input_tokens
from danshari.replay.prompt_cache import VECTORS
from danshari.replay.references import needs_of
from danshari.replay.score import Scorer
from danshari.replay.simulate import play
from danshari.replay.visibility import Sight
from danshari.sessions import Recorded
from danshari_bench.compactions import Record
from danshari_bench.comparison.contenders import OFF
from danshari_bench.comparison.plan import in_format
from danshari_bench.peers.baselines import masking

SWEEP = {10: 30, 20: 28, 29: 32, 43: 32, 50: 32, 54: 38, 58: 44, 72: 44, 86: 40}
"""Window in events → percent solved: OpenHands with Gemini 2.5 Flash, 50 SWE-bench Verified tasks, masking (auxiliary
data of arXiv 2508.21433; without masking 40 %)."""
TTLS = (300.0, 3600.0)
"""Seconds a provider keeps a prefix: the two times to live that Anthropic sells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """One session: cached share of input as simulated and as the provider reported it."""

    session: str
    requests: int
    simulated: Mapping[float, float]
    """Time to live → share."""
    reported: float
    floor: float
    """Tokens of system prompt and tools, from the first report."""
    compacted: bool


def billed(session: Recorded) -> Billed | None:
    """Hold the simulated cache against the reported one; None where fewer than five requests reported usage."""
    needs = needs_of(session)
    sent = play(needs, OFF, prices=VECTORS[".10"], check=False).sent
    pairs = []
    for request, r in zip(sent, needs.rounds, strict=True):
        total, cached = input_tokens(session.usages.get(r.cut) or {}), cached_tokens(session.usages.get(r.cut) or {})
        if total and total > 50:
            pairs.append((request, total, cached))
    if len(pairs) < 5:
        return None
    floor = max(pairs[0][1] - pairs[0][0].tokens, 0.0)
    shares = {}
    for ttl in TTLS:
        hits = whole = 0.0
        for n, (request, _, _) in enumerate(pairs):
            cold = n > 0 and request.gap is not None and request.gap > ttl
            hits += 0.0 if cold else request.cached + (floor if n else 0.0)
            whole += request.tokens + floor
        shares[ttl] = hits / whole
    return Billed(
        session=session.id,
        requests=len(pairs),
        simulated=shares,
        reported=sum(c for _, _, c in pairs) / sum(t for _, t, _ in pairs),
        floor=floor,
        compacted=session.compacted,
    )


@dataclass(slots=True, kw_only=True)
class Reread:
    """One real compaction: what its own summary lost, and what the agent then looked up again."""

    record: str
    lost: int
    supported: int
    calls: int
    lookups: int
    """Reads and searches of a file that had been seen before."""
    lost_looked_up: int
    """Lost references whose first use was such a look-up, or came after one of the same file."""
    supported_looked_up: int


def reread(record: Record) -> Reread:
    """Count losses and look-ups in the calls after one compaction."""
    session = Recorded(id=record.id, source="", format="anthropic", messages=[*record.before, *record.after])
    needs = needs_of(session, pinned=False)
    facts, sight = needs.facts, Sight(needs)
    sight.update([{"role": "user", "content": record.summary}])
    last = max((n for n, item in enumerate(facts.items) if item.at[0] < len(record.before)), default=-1)
    known = {facts.place(a) for at, a in facts.acts.items() if at <= last and a.path}
    made = Reread(record=record.id, lost=0, supported=0, calls=0, lookups=0, lost_looked_up=0, supported_looked_up=0)
    used: set[str] = set()
    for r in needs.rounds:
        if r.cut < len(record.before) or r.items >= len(facts.items):
            continue
        turn = facts.items[r.items].turn
        acts = [a for at, a in facts.acts.items() if at >= r.items and facts.items[at].turn == turn]
        again = [a for a in acts if a.kind in ("read", "search") and facts.place(a) in known]
        made.calls += len(acts)
        made.lookups += len(again)
        for reference in r.references:
            if reference.place > last or reference.atom in used:
                continue
            used.add(reference.atom)
            if sight.sighting(reference.atom, reference.held) == "supported":
                made.supported += 1
                made.supported_looked_up += bool(again)
            else:
                made.lost += 1
                made.lost_looked_up += bool(again)
    return made


def swept(session: Recorded) -> dict[int, list[float]]:
    """Give window → [actions with all they needed, actions] for OpenHands' masking on one session."""
    needs = needs_of(in_format(session, "openai-chat"))
    found = {}
    for events in SWEEP:
        scorer = Scorer(needs)
        play(needs, masking(events), prices=VECTORS[".10"], check=False, scorer=scorer)
        found[events] = scorer.score.tally.get("sar", [0.0, 0.0])
    return found


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Give Spearman's rank correlation; ties share their mean rank; None for fewer than three pairs or no variation."""
    if len(pairs) < 3:
        return None
    xs, ys = (_ranks([p[side] for p in pairs]) for side in (0, 1))
    n = len(pairs)
    mean = (n + 1) / 2
    above = sum((x - mean) * (y - mean) for x, y in zip(xs, ys, strict=True))
    below = (sum((x - mean) ** 2 for x in xs) * sum((y - mean) ** 2 for y in ys)) ** 0.5
    return above / below if below else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(values)
    return [(order.index(v) + 1 + len(order) - order[::-1].index(v)) / 2 for v in values]


def pooled_shares(rows: Iterable[Mapping[int, Sequence[float]]]) -> dict[int, list[float]]:
    """Add counts by window."""
    sums: dict[int, list[float]] = {}
    for row in rows:
        for events, (kept, n) in row.items():
            pair = sums.setdefault(events, [0.0, 0.0])
            pair[0] += kept
            pair[1] += n
    return sums
