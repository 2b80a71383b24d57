"""Replay a recorded session through a contender, request by request.

A contender is any function from messages to messages. It is started anew for every session and gets
the full history before every request. What it returns is priced, checked, and scored against what
the agent did next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.core.pricing import Prices
from danshari.formats import Format
from danshari.formats.base import as_plain_value
from danshari.replay.prompt_cache import DEFAULT_MODEL, PrefixCache, SimulatedRequest
from danshari.replay.references import SessionNeeds
from danshari.replay.score import SessionScore, ViewScorer

CompactFunction = Callable[[list[Any]], Sequence[Any]]
"""Full history → what would be sent."""


@dataclass(slots=True, kw_only=True)
class ContenderSetting:
    """What a contender is told about its session, and what it reports back."""

    format: str
    model: str
    prices: Prices
    needs: SessionNeeds
    budget: int | None = None
    """Tokens it should stay below; None: its own default."""
    window: int | None = None
    now: float = 0.0
    """Seconds, as recorded; stands still where nothing was."""
    calls: list[tuple[int, int]] = field(default_factory=list)
    """Characters in and out of every model call it made."""
    faults: list[str] = field(default_factory=list)
    steps: list[tuple[int, str]] = field(default_factory=list)
    """Edits committed and trigger of every round, from contenders that say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """One contender of the comparison and how to start it."""

    name: str
    about: str
    start: Callable[[ContenderSetting], CompactFunction]
    format: str = ""
    """Wire format it needs; empty: any."""
    priced: bool = False
    """Whether its views depend on the price vector."""
    budgeted: bool = False
    """Whether it heeds a token budget."""
    version: str = ""
    markup: tuple[str, ...] = ()
    """Identifier-like words of its own templates, which are no inventions."""


@dataclass(slots=True, kw_only=True)
class PlayResult:
    """One session replayed through one contender."""

    sent: list[SimulatedRequest] = field(default_factory=list)
    problems: dict[int, list[str]] = field(default_factory=dict)
    """Round → rules its view broke that the recording did not."""
    milliseconds: list[float] = field(default_factory=list)
    setting: ContenderSetting
    score: SessionScore | None = None

    def cost(self, prices: Prices, *, idle: bool = False, floor: float = 0.0) -> float:
        """Return the cost of all requests in units (tokens times price multiplier)."""
        return sum(s.cost(prices, idle=idle, floor=floor) for s in self.sent)


def play_session(
    needs: SessionNeeds,
    contender: Contender,
    *,
    prices: Prices,
    model: str = "",
    window: int | None = None,
    budget: int | None = None,
    idle: bool = False,
    check: bool = True,
    scorer: ViewScorer | None = None,
) -> PlayResult:
    """Replay one session through a contender.

    A contender that raises is recorded as a fault, and the unchanged history is sent instead.
    """
    session, wire = needs.session, needs.format
    name = model or session.model or DEFAULT_MODEL
    setting = ContenderSetting(
        format=session.format, model=name, prices=prices, needs=needs, budget=budget, window=window
    )
    played = PlayResult(setting=setting, score=scorer.score if scorer else None)
    cache = PrefixCache(wire, data.load_estimator(data.find_model(name).family))
    compact = _start_safely(contender, setting)
    checker = ViewChecker(wire)
    before: float | None = None
    for r in needs.rounds:
        now = session.times.get(r.cut)
        if idle and now is not None:
            setting.now = now
        source = session.messages[: r.cut]
        started = time.perf_counter()
        view = compact(source)
        played.milliseconds.append(1000 * (time.perf_counter() - started))
        gap = now - before if now is not None and before is not None else None
        before = now if now is not None else before
        sent = cache.send(view, gap=gap)
        played.sent.append(sent)
        if check and view is not source and (problems := checker(source, view)):
            played.problems[r.number] = problems
        if scorer is not None:
            scorer.score_round(r, view, rewritten=sent.rewritten)
    return played


def _start_safely(contender: Contender, setting: ContenderSetting) -> CompactFunction:
    """Start a contender so that no exception of it stops the run."""
    try:
        inner = contender.start(setting)
    except (Exception, SystemExit) as fault:  # noqa: BLE001  (a contender's fault is a result)
        setting.faults.append(f"start: {type(fault).__name__}: {fault}")
        return lambda messages: messages

    def compact(messages: list[Any]) -> Sequence[Any]:
        try:
            view = inner(messages)
        except (Exception, SystemExit) as fault:  # noqa: BLE001
            setting.faults.append(f"{type(fault).__name__}: {fault}"[:300])
            return messages
        if not isinstance(view, Sequence) or isinstance(view, str) or not view:
            setting.faults.append(f"returned {type(view).__name__} instead of messages")
            return messages
        return view

    return compact


class ViewChecker:
    """Checks views against the rules of their format, from the first changed turn on.

    A rule concerns one message, its neighbours, or the calls and results of one turn, so turns before
    the first change keep their verdict. After an invalid view the next one is checked in full.
    """

    def __init__(self, wire: Format) -> None:
        self._wire = wire
        self._last: Sequence[Any] = ()
        self._good = False

    def __call__(self, source: Sequence[Any], shown: Sequence[Any]) -> list[str]:
        """Return the rules that the view breaks and the caller's own messages did not."""
        start = self._turn_of_change(shown) if self._good else 0
        self._last = shown
        tail = [self._wire.user_message("…"), *shown[start:]] if start else shown
        self._good = not self._wire.check(tail)
        return [] if self._good else new_problems(self._wire, source, shown)

    def _turn_of_change(self, shown: Sequence[Any]) -> int:
        """Return the start of the turn that holds the message before the first changed one."""
        same = 0
        for old, new in zip(self._last, shown, strict=False):
            if old is not new:
                break
            same += 1
        at = max(same - 1, 0)
        while at > 0:
            message, before = as_plain_value(shown[at]), as_plain_value(shown[at - 1])
            if isinstance(message, Mapping) and self._wire.begins_turn(message, before):
                return at
            at -= 1
        return 0


def new_problems(wire: Format, source: Sequence[Any], shown: Sequence[Any]) -> list[str]:
    """Return the rules that the view breaks and the caller's own messages did not."""
    problems = wire.check(shown)
    if not problems:
        return []
    known = {(p.rule, p.text) for p in wire.check(source)}
    return [str(p) for p in problems if (p.rule, p.text) not in known]
