"""Checks of the benchmark's own measures against independent data.

Three checks: the simulated cache against reported usage, lost references against real repeated
reads, and the score over masking windows against published solve rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from danshari.formats.usage import read_usage
from danshari.replay.prompt_cache import PRICE_VECTORS
from danshari.replay.references import find_needs
from danshari.replay.score import ViewScorer
from danshari.replay.simulate import play_session
from danshari.replay.visibility import VisibleLines
from danshari.sessions import RecordedSession
from danshari_bench.compactions import CompactionRecord
from danshari_bench.comparison.contenders import OFF_CONTENDER
from danshari_bench.comparison.plan import convert_session
from danshari_bench.peers.baselines import masking_contender

SOLVED_BY_WINDOW = {10: 30, 20: 28, 29: 32, 43: 32, 50: 32, 54: 38, 58: 44, 72: 44, 86: 40}
"""Window in events → percent solved: OpenHands with Gemini 2.5 Flash, 50 SWE-bench Verified tasks, masking (auxiliary
data of arXiv 2508.21433; without masking 40 %)."""
CACHE_LIFETIMES = (300.0, 3600.0)
"""Seconds a provider keeps a prefix: the two times to live that Anthropic sells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCheck:
    """One session: the cached share of its input tokens as simulated and as reported by the provider."""

    session: str
    requests: int
    simulated: Mapping[float, float]
    """Time to live → share."""
    reported: float
    floor: float
    """Tokens of system prompt and tools, from the first report."""
    compacted: bool


def check_cache(session: RecordedSession) -> CacheCheck | None:
    """Compare the simulated cache with reported usage; None if fewer than five requests reported usage."""
    needs = find_needs(session)
    sent = play_session(needs, OFF_CONTENDER, prices=PRICE_VECTORS[".10"], check=False).sent
    pairs = []
    for request, r in zip(sent, needs.rounds, strict=True):
        total, cached = (
            read_usage(session.usages.get(r.cut) or {}).total,
            read_usage(session.usages.get(r.cut) or {}).cached,
        )
        if total and total > 50:
            pairs.append((request, total, cached))
    if len(pairs) < 5:
        return None
    floor = max(pairs[0][1] - pairs[0][0].tokens, 0.0)
    shares = {}
    for ttl in CACHE_LIFETIMES:
        hits = whole = 0.0
        for n, (request, _, _) in enumerate(pairs):
            cold = n > 0 and request.gap is not None and request.gap > ttl
            hits += 0.0 if cold else request.cached + (floor if n else 0.0)
            whole += request.tokens + floor
        shares[ttl] = hits / whole
    return CacheCheck(
        session=session.id,
        requests=len(pairs),
        simulated=shares,
        reported=sum(c for _, _, c in pairs) / sum(t for _, t, _ in pairs),
        floor=floor,
        compacted=session.compacted,
    )


@dataclass(slots=True, kw_only=True)
class RereadCheck:
    """One real compaction: the references its summary lost, and what the agent then looked up again."""

    record: str
    lost: int
    supported: int
    calls: int
    lookups: int
    """Reads and searches of a file that had been seen before."""
    lost_looked_up: int
    """Lost references whose first use was such a look-up, or came after one of the same file."""
    supported_looked_up: int


def count_rereads(record: CompactionRecord) -> RereadCheck:
    """Count lost references and look-ups in the calls after one compaction."""
    session = RecordedSession(id=record.id, source="", format="anthropic", messages=[*record.before, *record.after])
    needs = find_needs(session, pinned=False)
    facts, sight = needs.facts, VisibleLines(needs)
    sight.update([{"role": "user", "content": record.summary}])
    last = max((n for n, item in enumerate(facts.items) if item.at[0] < len(record.before)), default=-1)
    known = {facts.file_key(a) for at, a in facts.acts.items() if at <= last and a.path}
    made = RereadCheck(
        record=record.id, lost=0, supported=0, calls=0, lookups=0, lost_looked_up=0, supported_looked_up=0
    )
    used: set[str] = set()
    for r in needs.rounds:
        if r.cut < len(record.before) or r.items >= len(facts.items):
            continue
        turn = facts.items[r.items].turn
        acts = [a for at, a in facts.acts.items() if at >= r.items and facts.items[at].turn == turn]
        again = [a for a in acts if a.kind in ("read", "search") and facts.file_key(a) in known]
        made.calls += len(acts)
        made.lookups += len(again)
        for reference in r.references:
            if reference.place > last or reference.atom in used:
                continue
            used.add(reference.atom)
            if sight.atom_visibility(reference.atom, reference.held) == "supported":
                made.supported += 1
                made.supported_looked_up += bool(again)
            else:
                made.lost += 1
                made.lost_looked_up += bool(again)
    return made


def sweep_windows(session: RecordedSession) -> dict[int, list[float]]:
    """Return masking window (events) → [actions with all references visible, actions] for one session."""
    needs = find_needs(convert_session(session, "openai-chat"))
    found = {}
    for events in SOLVED_BY_WINDOW:
        scorer = ViewScorer(needs)
        play_session(needs, masking_contender(events), prices=PRICE_VECTORS[".10"], check=False, scorer=scorer)
        found[events] = scorer.score.tally.get("sar", [0.0, 0.0])
    return found


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Spearman's rank correlation, or None for fewer than three pairs or no variation.

    Ties share their mean rank.
    """
    if len(pairs) < 3:
        return None
    xs, ys = (_mean_ranks([p[side] for p in pairs]) for side in (0, 1))
    n = len(pairs)
    mean = (n + 1) / 2
    above = sum((x - mean) * (y - mean) for x, y in zip(xs, ys, strict=True))
    below = (sum((x - mean) ** 2 for x in xs) * sum((y - mean) ** 2 for y in ys)) ** 0.5
    return above / below if below else None


def _mean_ranks(values: Sequence[float]) -> list[float]:
    order = sorted(values)
    return [(order.index(v) + 1 + len(order) - order[::-1].index(v)) / 2 for v in values]


def pool_window_counts(rows: Iterable[Mapping[int, Sequence[float]]]) -> dict[int, list[float]]:
    """Add counts by window."""
    sums: dict[int, list[float]] = {}
    for row in rows:
        for events, (kept, n) in row.items():
            pair = sums.setdefault(events, [0.0, 0.0])
            pair[0] += kept
            pair[1] += n
    return sums
