"""One session under one of danshari's policies: what would have been sent, at what price, with which edits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.core.items import hashed
from danshari.core.policy import Policy
from danshari.core.pricing import Prices
from danshari.replay.references import Needs, needs_of, outline_of
from danshari.replay.score import Scorer, Tally
from danshari.replay.simulate import (
    Compact,
    Contender,
    Played,
    Setting,
    play,
)
from danshari.sessions import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
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
    tally: Tally = field(default_factory=dict)
    """Measure → [kept, counted]; empty unless asked for."""
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


def contender(policy: str | Policy, *, name: str = "") -> Contender:
    """Make a contender of one of danshari's policies."""
    chosen = data.load_policy(policy)
    return Contender(
        name=name or chosen.name,
        about=f"danshari, policy {chosen.name}",
        start=partial(_start, chosen),
        version=hashed(repr(chosen)),
        priced=chosen.commit in ("gain", "cold"),
        budgeted=chosen.commit != "always" and bool(chosen.passes),
        markup=("originalLength",),
    )


def _start(policy: Policy, setting: Setting) -> Compact:
    engine = Compactor(
        policy,
        model=setting.model,
        window=setting.window,
        prices=setting.prices,
        format=setting.format,
        clock=lambda: setting.now,
    )
    if setting.window is None and (wide := _widened(setting.needs, engine)):
        engine.set_model(setting.model, window=wide)
    if setting.budget is not None:
        engine.policy = _within(policy, setting.budget)

    def compact(messages: list[Any]) -> Sequence[Any]:
        result = engine.compact(messages)
        if setting.budget is not None and result.after > setting.budget:
            result = engine.compact(messages, force=True)
        setting.steps.append((len(result.edits), result.trigger if result.edits else ""))
        if result.fault:
            setting.faults.append(result.fault)
        shown: Sequence[Any] = result.messages
        return shown

    return compact


def _within(policy: Policy, budget: int) -> Policy:
    """Bend a policy so that it stays below a budget: the budget is its soft line."""
    return replace(policy, token_trigger=budget, release=0.15)


def _widened(needs: Needs, engine: Compactor) -> int:
    """Give a window that holds the whole recording where the model's would not, so that doing nothing is possible.

    Such recordings hold more than their agent really sent (cut outputs are stored whole); 0 where all is well.
    """
    total = needs.facts.total
    return int(1.5 * total) if total > 0.8 * engine.model.window else 0


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
    needs = needs_of(session) if measure else outline_of(session)
    played = play(
        needs,
        contender(policy),
        prices=prices or data.model(model or session.model or None).prices,
        model=model or "",
        window=window,
        idle=idle,
        check=check,
        scorer=Scorer(needs) if measure else None,
    )
    return _replayed(played, data.load_policy(policy).name, session.id, idle=idle)


def _replayed(played: Played, policy: str, session: str, *, idle: bool) -> Replayed:
    setting, prices = played.setting, played.setting.prices
    found = Replayed(session=session, policy=policy, prices=prices, model=setting.model)
    for number, (sent, (edits, trigger)) in enumerate(zip(played.sent, setting.steps, strict=True), 1):
        found.rounds.append(
            Round(
                number=number,
                tokens=sent.tokens,
                cached=sent.hit(prices, idle=idle),
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
