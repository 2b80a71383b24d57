"""舍 (micro_compact): old results become telling lines or placeholders; old arguments lose what is on disk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial

from danshari.analysis.facts import Facts
from danshari.analysis.tiers import tier_of
from danshari.core.edits import Effects, Replace
from danshari.core.placeholder import is_ours
from danshari.core.policy import Policy
from danshari.planning.planner import Proposal
from danshari.shorten.arguments import short_arguments, stand_in
from danshari.shorten.reread import leaned_on
from danshari.shorten.text import squeeze

_STAND_IN = 260
"""Characters that a placeholder takes, for the planner's estimate."""
_KEPT_KINDS = {"skill", "plan", "agent", "ask"}
_FRESH = 3
"""What was recalled stays this many times the rounds that other results stay."""


def elide(facts: Facts, effects: Effects, policy: Policy, force: bool) -> Iterator[Proposal]:
    """Propose short forms of results and arguments older than the policy keeps whole."""
    recent = facts.recent_from(min(policy.keep_rounds, 1) if force else policy.keep_rounds)
    files = set() if force else _kept_files(facts, policy)
    limit = min(policy.max_length, 200) if force else policy.max_length
    texts, gone, items = effects.texts, effects.gone, facts.items
    for at in facts.weighty[: bisect_left(facts.weighty, facts.before(recent))]:
        if at in gone or (at in texts and _done(texts[at], force)):
            continue
        item = items[at]
        if len(item.text) <= limit or is_ours(item.text):
            continue
        if item.kind == "result":
            proposal = _result(facts, effects, at, policy, force, files, recent)
        else:
            proposal = _arguments(facts, at, policy, force)
        if proposal is not None:
            yield proposal


def _done(edit: Replace, force: bool) -> bool:
    """Say whether an item was shortened already; admitted ones may be once more, and any but placeholders by force."""
    return edit.by != "admit" and not (force and not edit.text.startswith("{"))


def _kept_files(facts: Facts, policy: Policy) -> set[str]:
    count = policy.keep_files
    return set(list(facts.touched)[-count:]) if count else set()


def _result(
    facts: Facts, effects: Effects, at: int, policy: Policy, force: bool, files: set[str], recent: int
) -> Proposal | None:
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    literal = policy.placeholder == "seed"
    if not literal and not force and kind in _KEPT_KINDS:
        return None
    if kind == "recall" and not literal and facts.items[at].turn >= facts.recent_from(_FRESH * policy.keep_rounds):
        return None
    if act and kind == "read" and not literal and (facts.place(act) in files or leaned_on(facts, effects, at, recent)):
        return None
    size = len(facts.items[at].text)
    earlier = effects.texts.get(at)
    shown = len(earlier.text) if earlier else size
    share = policy.share(tier_of(facts, at))
    if share >= 1 and not force:
        return None
    budget = 0 if force or size <= policy.squeeze_over else int(share * size)
    if earlier is not None and budget >= 0.6 * shown:
        budget = 0 if kind in ("list", "search") else -1
    if budget < 0:
        return None
    left = max(budget + 150, _STAND_IN) if budget else _STAND_IN
    freed = facts.tokens[at] * max(shown - left, 0) / max(size, 1)
    if freed <= 0 or left > (1 - policy.margin) * shown:
        return None if not literal else _proposal(facts, at, policy, freed, 0)
    return _proposal(facts, at, policy, freed, budget)


def _proposal(facts: Facts, at: int, policy: Policy, freed: float, budget: int) -> Proposal:
    write: Callable[[], str | None] = partial(stand_in, facts, at, policy)
    if budget:
        note = "the file was changed since" if facts.stale(at) else ""
        write = partial(_telling, facts, at, budget, note, policy)
    act = facts.act_at(at)
    fault = 1.0 if not act or act.kind != "read" else 0.5 if facts.stale(at) else 2.0
    return Proposal(at=at, freed=freed, by="elide", why="old result", write=write, fault=fault)


def _telling(facts: Facts, at: int, budget: int, note: str, policy: Policy) -> str | None:
    text = squeeze(facts, at, budget, policy, note=note, now=len(facts.items) - 1)
    return text if text is not None else stand_in(facts, at, policy)


def _arguments(facts: Facts, at: int, policy: Policy, force: bool) -> Proposal | None:
    if policy.arguments in ("none", "replaced") and not force:
        return None
    act = facts.acts[at]
    write: Callable[[], str | None]
    if policy.placeholder == "seed":
        write = partial(stand_in, facts, at, policy)
    elif act.kind in _KEPT_KINDS:
        return None
    elif policy.arguments == "all" or force:
        write = partial(short_arguments, facts, at, policy, everything=True)
    elif at in facts.on_disk and act.kind == "write":
        write = partial(short_arguments, facts, at, policy)
    else:
        return None
    size = len(facts.items[at].text)
    freed = facts.tokens[at] * max(size - _STAND_IN, 0) / size
    return Proposal(at=at, freed=freed, by="elide", why="old arguments", write=write)
