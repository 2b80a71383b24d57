"""Cumulative replay: the policy runs round by round as it would live, and a byte-exact prefix cache prices it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.bench.measures import Support, Watch
from danshari.compactor import Compactor
from danshari.core.facts import Facts
from danshari.core.policy import Policy
from danshari.core.prices import Prices
from danshari.core.tokens import Estimator
from danshari.formats import Format, named
from danshari.sessions import Recorded

VECTORS: dict[str, Prices] = {
    ".10": Prices(read=0.10, write=1.25),
    ".05": Prices(read=0.05, write=1.25),
    ".025": Prices(read=0.025, write=1.25),
    ".02": Prices(read=0.02, write=1.0),
}
"""Price vectors of the benchmarks: cache read .10/.05/.025 with write 1.25, and read .02 with write 1.0."""
DEFAULT_MODEL = "claude-opus-4-5"
"""Model assumed where a recording names none (the compaction records come from Claude Code of that time)."""


@dataclass(slots=True, kw_only=True)
class Round:
    """One request: tokens sent, of those read from the cache, cost in units of base input tokens, edits committed."""

    number: int
    tokens: float
    cached: float
    cost: float
    edits: int
    batch: bool
    """Whether already sent bytes were rewritten."""
    trigger: str
    problems: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Replayed:
    """One session under one policy and price vector."""

    session: str
    policy: str
    prices: Prices
    model: str = ""
    rounds: list[Round] = field(default_factory=list)
    support: Support = field(default_factory=Support)
    milliseconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def cost(self) -> float:
        """Units (tokens times multiplier) of all requests."""
        return sum(r.cost for r in self.rounds)

    @property
    def tokens(self) -> float:
        """Input tokens of all requests."""
        return sum(r.tokens for r in self.rounds)

    @property
    def hit_rate(self) -> float:
        """Cached share of all input tokens."""
        return sum(r.cached for r in self.rounds) / self.tokens if self.tokens else 0.0

    @property
    def peak(self) -> float:
        """Tokens of the largest request."""
        return max((r.tokens for r in self.rounds), default=0.0)

    @property
    def rewrites(self) -> int:
        """Requests that changed bytes an earlier one had sent."""
        return sum(r.batch for r in self.rounds)


class PrefixCache:
    """A provider's prompt cache over the byte prefix of the last request."""

    def __init__(self, format: Format, count: Estimator, prices: Prices) -> None:  # noqa: A002
        self._format, self._count, self._prices = format, count, prices
        self._last: list[Any] = []
        self._sizes: dict[int, tuple[Any, float]] = {}

    def size(self, message: Any) -> float:
        """Estimate the tokens of one message; equal objects are counted once."""
        known = self._sizes.get(id(message))
        if known is None:
            pieces = self._format.split(message)
            known = (message, sum(self._count.item(p.kind, p.text, p.weight) for p in pieces))
            self._sizes[id(message)] = known
        return known[1]

    def send(self, messages: Sequence[Any], *, cold: bool = False) -> tuple[float, float, float, bool]:
        """Price one request: (tokens, cached tokens, cost in units, whether earlier bytes changed)."""
        sizes = [self.size(m) for m in messages]
        total = sum(sizes)
        same = 0
        for old, new in zip(self._last, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        cached = sum(sizes[:same])
        rewritten = same < len(self._last)
        if rewritten and same < len(messages):
            cached += sizes[same] * _common(self._last[same], messages[same])
        self._last = list(messages)
        if cold or cached < self._prices.minimum:
            cached = 0.0
        cost = self._prices.read * cached + self._prices.write * (total - cached)
        return total, cached, cost, rewritten


def _common(old: Any, new: Any) -> float:
    a, b = json.dumps(old, ensure_ascii=False), json.dumps(new, ensure_ascii=False)
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return same / max(len(b), 1)


def cuts(session: Recorded, format: Format) -> Iterator[int]:  # noqa: A002
    """Give the message indices at which a request went out: before every assistant turn but a leading one."""
    before: Any = None
    for at, message in enumerate(session.messages):
        if at and format.begins_turn(message, before):
            yield at
        before = message


def replay(
    session: Recorded,
    policy: str | Policy,
    *,
    prices: Prices | None = None,
    model: str | None = None,
    window: int | None = None,
    idle: bool = False,
    check: bool = False,
    measure: bool = False,
) -> Replayed:
    """Run one session under a policy; `check` tests every view against its format's rules, `measure` counts support."""
    format = named(session.format)  # noqa: A001
    name = model or session.model or DEFAULT_MODEL
    now = [0.0]
    compactor = Compactor(policy, model=name, window=window, prices=prices, format=session.format, clock=lambda: now[0])
    if window is None and (wide := _widened(session, format, compactor)):
        compactor.set_model(name, window=wide)
    used = compactor.model.prices
    cache = PrefixCache(format, data.estimator(compactor.model.family), used)
    found = Replayed(session=session.id, policy=compactor.policy.name, prices=used, model=name)
    watch = Watch(compactor) if measure else None
    last_time: float | None = None
    for at in cuts(session, format):
        if idle and at in session.times:
            now[0] = session.times[at]
        cold = idle and last_time is not None and now[0] - last_time > used.ttl
        last_time = now[0]
        started = time.perf_counter()
        result = compactor.compact(session.messages[:at])
        found.milliseconds += 1000 * (time.perf_counter() - started)
        tokens, cached, cost, rewritten = cache.send(result.messages, cold=cold)
        problems = _new_problems(format, session.messages[:at], result.messages) if check else ()
        found.rounds.append(
            Round(
                number=len(found.rounds) + 1,
                tokens=tokens,
                cached=cached,
                cost=cost,
                edits=len(result.edits),
                batch=rewritten,
                trigger=result.trigger if result.edits else "",
                problems=problems,
            )
        )
        if result.fault:
            found.faults.append(result.fault)
        if watch is not None:
            watch.action(session.messages[at], found.support)
    return found


def _widened(session: Recorded, format: Format, compactor: Compactor) -> int:  # noqa: A002
    """Give a window that holds the whole recording where the model's would not, so that doing nothing is possible.

    Such recordings hold more than their agent really sent (cut outputs are stored whole); 0 where all is well.
    """
    facts = Facts(data.tools(), data.estimator(compactor.model.family))
    facts.extend(format.read(session.messages))
    return int(1.5 * facts.total) if facts.total > 0.8 * compactor.model.window else 0


def _new_problems(format: Format, source: Sequence[Any], shown: Sequence[Any]) -> tuple[str, ...]:  # noqa: A002
    """List rules the view breaks that the caller's own messages did not."""
    problems = format.check(shown)
    if not problems:
        return ()
    known = {(p.rule, p.text) for p in format.check(source)}
    return tuple(str(p) for p in problems if (p.rule, p.text) not in known)
