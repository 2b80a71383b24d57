"""Placeholders for what a later event made outdated.

That is identical results, files read again or rewritten, and errors that a later success overtook. `Facts.overtaken`
(`analysis/facts.py`) says which they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from danshari.analysis.facts import OVERTAKEN_WORDS, Facts
from danshari.core.edits import Effects
from danshari.core.policy import Policy
from danshari.planning.proposal import Proposal
from danshari.shorten.arguments import write_placeholder


def propose_superseded(facts: Facts, effects: Effects, policy: Policy, force: bool) -> Iterator[Proposal]:
    """Propose placeholders for items that a later, fully shown item replaces.

    The newest rounds stay, except for reads of a file that was changed since: such a copy misleads.
    """
    newest = facts.recent_from(min(policy.elide.keep_rounds, 1))
    recent = newest if force else facts.recent_from(policy.elide.keep_rounds)
    for at, (by, reason) in facts.overtaken.items():
        while by in facts.overtaken:
            by = facts.overtaken[by].by
        item = facts.items[at]
        if (
            len(item.text) <= policy.elide.max_length
            or item.turn >= (newest if facts.is_stale(at) else recent)
            or not _is_shown_whole(effects, by)
        ):
            continue
        done = effects.texts.get(at)
        if at in effects.gone or (done is not None and done.by not in ("admit",)):
            continue
        if item.kind == "call" and policy.elide.arguments == "none":
            continue
        shown = len(done.text) if done is not None else len(item.text)
        freed = facts.tokens[at] * max(shown - 260, 0) / max(len(item.text), 1)
        yield Proposal(
            at=at,
            freed=freed,
            by="superseded",
            reason=reason,
            why=OVERTAKEN_WORDS[reason],
            fault=0.3,
            needs=by,
            write=partial(write_placeholder, facts, at, policy, gist=OVERTAKEN_WORDS[reason]),
        )


def _is_shown_whole(effects: Effects, at: int) -> bool:
    """Return whether the item at `at` is shown whole, apart from terminal escapes."""
    edit = effects.texts.get(at)
    return at not in effects.gone and (edit is None or edit.reason == "cleaned")
