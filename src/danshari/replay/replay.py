"""Replay one session under one of danshari's policies: requests, cost and edits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from danshari import data
from danshari.compaction import Compaction
from danshari.compactor import Compactor
from danshari.core.items import hash_strings
from danshari.core.policy import Policy
from danshari.core.pricing import Prices
from danshari.errors import ArgumentError
from danshari.replay.references import SessionNeeds, find_needs, outline_session
from danshari.replay.score import Tally, ViewScorer
from danshari.replay.simulate import (
    CompactFunction,
    Contender,
    ContenderSetting,
    PlayResult,
    play_session,
)
from danshari.sessions import RecordedSession


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """One request: tokens sent, tokens read from cache, cost in units of base input tokens, edits committed."""

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
class ReplayResult:
    """One session replayed under one policy and price vector."""

    session: str
    policy: str
    prices: Prices
    model: str = ""
    rounds: list[RoundResult] = field(default_factory=list)
    tally: Tally = field(default_factory=dict)
    """Measure → [kept, counted]; empty unless asked for."""
    milliseconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def cost(self) -> float:
        """The cost of all requests in units (tokens times price multiplier)."""
        return sum(r.cost for r in self.rounds)

    @property
    def tokens(self) -> float:
        """The input tokens of all requests."""
        return sum(r.tokens for r in self.rounds)

    @property
    def hit_rate(self) -> float:
        """The cached share of all input tokens."""
        return sum(r.cached for r in self.rounds) / self.tokens if self.tokens else 0.0

    @property
    def peak(self) -> float:
        """The tokens of the largest request."""
        return max((r.tokens for r in self.rounds), default=0.0)

    @property
    def rewrites(self) -> int:
        """The number of requests that changed bytes already sent."""
        return sum(r.batch for r in self.rounds)


def policy_contender(policy: str | Policy, *, name: str = "") -> Contender:
    """Return a contender that runs one of danshari's policies."""
    chosen = data.load_policy(policy)
    return Contender(
        name=name or chosen.name,
        about=f"danshari, policy {chosen.name}",
        start=partial(_start_policy, chosen),
        version=hash_strings(repr(chosen)),
        priced=chosen.commit.mode in ("gain", "cold"),
        budgeted=chosen.commit.mode != "always" and bool(chosen.passes),
        markup=("originalLength",),
    )


def _start_compactor(policy: Policy, setting: ContenderSetting) -> Compactor:
    """Start the compactor of one replayed session."""
    compactor = Compactor(
        policy,
        model=setting.model,
        window=setting.window,
        prices=setting.prices,
        format=setting.format,
        clock=lambda: setting.now,
    )
    if setting.window is None and (wide := _wider_window(setting.needs, compactor)):
        compactor.set_model(setting.model, window=wide)
    if setting.budget is not None:
        compactor.policy = _limit_policy(policy, setting.budget)
    return compactor


def _start_policy(
    policy: Policy, setting: ContenderSetting, *, watch: Callable[[Compactor, Compaction], None] | None = None
) -> CompactFunction:
    """Start a compactor for one session and return its compact function; `watch` is called with every result."""
    compactor = _start_compactor(policy, setting)

    def compact(messages: list[Any]) -> Sequence[Any]:
        result = compactor.compact(messages)
        if setting.budget is not None and result.after > setting.budget:
            result = compactor.compact(messages, force=True)
        setting.steps.append((len(result.edits), result.trigger if result.edits else ""))
        if result.fault:
            setting.faults.append(result.fault)
        if watch is not None:
            watch(compactor, result)
        shown: Sequence[Any] = result.messages
        return shown

    return compact


def _limit_policy(policy: Policy, budget: int) -> Policy:
    """Return the policy with the budget (tokens) as its token trigger."""
    return policy.with_fields(commit_token_trigger=budget, commit_release=0.15)


def _wider_window(needs: SessionNeeds, compactor: Compactor) -> int:
    """Return a window (tokens) that holds the whole recording if the model's does not, else 0.

    Some recordings store cut outputs in full and so exceed what their agent really sent.
    """
    total = needs.facts.total
    return int(1.5 * total) if total > 0.8 * compactor.model.window else 0


def replay(
    session: RecordedSession,
    policy: str | Policy,
    *,
    prices: Prices | None = None,
    model: str | None = None,
    window: int | None = None,
    idle: bool = False,
    check: bool = False,
    measure: bool = False,
) -> ReplayResult:
    """Replay one session under a policy.

    `check` tests every view against the rules of its format, `measure` counts which references stay
    visible, `idle` uses recorded times for cache expiry.
    """
    needs = find_needs(session) if measure else outline_session(session)
    played = play_session(
        needs,
        policy_contender(policy),
        prices=prices or _prices_of(session, model),
        model=model or "",
        window=window,
        idle=idle,
        check=check,
        scorer=ViewScorer(needs) if measure else None,
    )
    return _make_result(played, data.load_policy(policy).name, session.id, idle=idle)


def replay_until(
    session: RecordedSession,
    policy: str | Policy,
    number: int,
    *,
    prices: Prices | None = None,
    model: str | None = None,
    window: int | None = None,
    idle: bool = False,
) -> tuple[Compactor, Compaction]:
    """Replay a session as `replay` does, up to request `number` (from 1); return the compactor and its last result.

    Raises ArgumentError if the session has no such request.
    """
    needs, chosen = outline_session(session), data.load_policy(policy)
    if not 1 <= number <= len(needs.rounds):
        raise ArgumentError(f"{session.id} has requests 1 to {len(needs.rounds)}, no request {number}")
    seen: deque[tuple[Compactor, Compaction]] = deque(maxlen=1)
    start = partial(_start_policy, chosen, watch=lambda *found: seen.append(found))
    play_session(
        replace(needs, rounds=needs.rounds[:number]),
        replace(policy_contender(chosen), start=start),
        prices=prices or _prices_of(session, model),
        model=model or "",
        window=window,
        idle=idle,
        check=False,
    )
    return seen[0]


def _prices_of(session: RecordedSession, model: str | None) -> Prices:
    return data.find_model(model or session.model or None).prices


def _make_result(played: PlayResult, policy: str, session: str, *, idle: bool) -> ReplayResult:
    """Convert a played session to a `ReplayResult`."""
    setting, prices = played.setting, played.setting.prices
    found = ReplayResult(session=session, policy=policy, prices=prices, model=setting.model)
    for number, (sent, (edits, trigger)) in enumerate(zip(played.sent, setting.steps, strict=True), 1):
        found.rounds.append(
            RoundResult(
                number=number,
                tokens=sent.tokens,
                cached=sent.hit_tokens(prices, idle=idle),
                cost=sent.cost(prices, idle=idle),
                edits=edits,
                batch=sent.rewritten,
                trigger=trigger,
                problems=tuple(played.problems.get(number, ())),
            )
        )
    found.milliseconds, found.faults = sum(played.milliseconds), setting.faults
    if played.score is not None:
        found.tally = played.score.tally
    return found
