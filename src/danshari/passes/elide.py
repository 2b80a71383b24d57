"""舍 (micro_compact): shorten old results to telling lines or placeholders, and old arguments.

Arguments lose the values whose text is on disk by now.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial

from danshari.analysis.facts import Facts
from danshari.analysis.tiers import tier_of
from danshari.core.edits import Effects, Replace
from danshari.core.placeholder import has_kept_lines, is_compacted_text
from danshari.core.policy import Policy
from danshari.planning.proposal import Proposal
from danshari.shorten.arguments import shorten_arguments, write_placeholder
from danshari.shorten.reread import has_dependent_read
from danshari.shorten.text import squeeze

_MIN_LINES_TEXT = 1_500
"""Characters; old results up to this become placeholders, longer ones keep telling lines."""
_PLACEHOLDER_SIZE = 260
"""Characters that a placeholder takes, for the planner's estimate."""
_KEPT_KINDS = {"skill", "plan", "agent", "ask"}
_RECALL_FACTOR = 3
"""What was recalled stays this many times the rounds that other results stay."""


def elide(facts: Facts, effects: Effects, policy: Policy, force: bool) -> Iterator[Proposal]:
    """Propose short forms of results and arguments older than the policy keeps whole."""
    recent = facts.recent_from(min(policy.elide.keep_rounds, 1) if force else policy.elide.keep_rounds)
    files = set() if force else _recent_files(facts, policy)
    limit = min(policy.elide.max_length, 200) if force else policy.elide.max_length
    texts, gone, items = effects.texts, effects.gone, facts.items
    for at in facts.weighty[: bisect_left(facts.weighty, facts.turn_start(recent))]:
        if at in gone or (at in texts and _is_shortened(texts[at], force)):
            continue
        item = items[at]
        if len(item.text) <= limit or is_compacted_text(item.text):
            continue
        if item.kind == "result":
            proposal = _propose_result(facts, effects, at, policy, force, files, recent)
        else:
            proposal = _propose_arguments(facts, at, policy, force)
        if proposal is not None:
            yield proposal


def _is_shortened(edit: Replace, force: bool) -> bool:
    """Return whether an item was shortened already.

    An admitted item may be shortened once more; under force any but a placeholder may.
    """
    return edit.by != "admit" and not (force and has_kept_lines(edit.text))


def _recent_files(facts: Facts, policy: Policy) -> set[str]:
    count = policy.elide.keep_files
    return set(list(facts.touched)[-count:]) if count else set()


def _propose_result(
    facts: Facts, effects: Effects, at: int, policy: Policy, force: bool, files: set[str], recent: int
) -> Proposal | None:
    """Return the proposal for one old result, or None if it stays.

    The tier decides the share of characters that stays. A result that was shortened before is shortened
    again only to less than 60 % of what is shown; otherwise a listing or search result becomes a
    placeholder, and any other stays.
    """
    act = facts.act_at(at)
    kind = act.kind if act else "other"
    literal = policy.elide.placeholder == "seed"
    if not literal and not force and kind in _KEPT_KINDS:
        return None
    if (
        kind == "recall"
        and not literal
        and facts.items[at].turn >= facts.recent_from(_RECALL_FACTOR * policy.elide.keep_rounds)
    ):
        return None
    if (
        act
        and kind == "read"
        and not literal
        and (facts.file_key(act) in files or has_dependent_read(facts, effects, at, recent))
    ):
        return None
    size = len(facts.items[at].text)
    earlier = effects.texts.get(at)
    shown = len(earlier.text) if earlier else size
    share = policy.share(tier_of(facts, at))
    if share >= 1 and not force:
        return None
    budget = 0 if force or size <= _MIN_LINES_TEXT else int(share * size)
    if earlier is not None and budget >= 0.6 * shown:
        budget = 0 if kind in ("list", "search") else -1
    if budget < 0:
        return None
    left = max(budget + 150, _PLACEHOLDER_SIZE) if budget else _PLACEHOLDER_SIZE
    freed = facts.tokens[at] * max(shown - left, 0) / max(size, 1)
    if freed <= 0 or left > (1 - policy.elide.margin) * shown:
        return None if not literal else _make_proposal(facts, at, policy, freed, 0)
    return _make_proposal(facts, at, policy, freed, budget)


def _make_proposal(facts: Facts, at: int, policy: Policy, freed: float, budget: int) -> Proposal:
    """Make the proposal for one result; `budget` is the characters to keep, 0 for a placeholder.

    A read whose file was changed since is half as likely to be needed again as other results, a current
    one twice.
    """
    write: Callable[[], str | None] = partial(write_placeholder, facts, at, policy)
    if budget:
        note = "the file was changed since" if facts.is_stale(at) else ""
        write = partial(_write_telling_lines, facts, at, budget, note, policy)
    act = facts.act_at(at)
    fault = 1.0 if not act or act.kind != "read" else 0.5 if facts.is_stale(at) else 2.0
    return Proposal(at=at, freed=freed, by="elide", reason="old result", why="old result", write=write, fault=fault)


def _write_telling_lines(facts: Facts, at: int, budget: int, note: str, policy: Policy) -> str | None:
    """Return the item shortened to `budget` characters, or a placeholder if that is not shorter."""
    text = squeeze(facts, at, budget, policy, note=note, now=len(facts.items) - 1)
    return text if text is not None else write_placeholder(facts, at, policy)


def _propose_arguments(facts: Facts, at: int, policy: Policy, force: bool) -> Proposal | None:
    """Return the proposal for the arguments of one old call, or None if they stay."""
    if policy.elide.arguments in ("none", "replaced") and not force:
        return None
    act = facts.acts[at]
    write: Callable[[], str | None]
    if policy.elide.placeholder == "seed":
        write = partial(write_placeholder, facts, at, policy)
    elif act.kind in _KEPT_KINDS:
        return None
    elif policy.elide.arguments == "all" or force:
        write = partial(shorten_arguments, facts, at, policy, everything=True)
    elif at in facts.on_disk and act.kind == "write":
        write = partial(shorten_arguments, facts, at, policy)
    else:
        return None
    size = len(facts.items[at].text)
    freed = facts.tokens[at] * max(size - _PLACEHOLDER_SIZE, 0) / size
    return Proposal(at=at, freed=freed, by="elide", reason="old arguments", why="old arguments", write=write)
