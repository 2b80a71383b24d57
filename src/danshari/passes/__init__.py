"""The passes, gentlest first: functions that propose edits and change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.policy import Policy
from danshari.errors import ArgumentError
from danshari.passes.elide import elide
from danshari.passes.evict import evict
from danshari.passes.superseded import propose_superseded
from danshari.planning.proposal import Proposal

Propose = Callable[[Facts, Effects, Policy, bool], Iterable[Proposal]]
"""(facts, effects of the ledger, policy, under force) → proposals."""


class Pass(NamedTuple):
    """One row of the table of passes."""

    name: str
    propose: Propose
    last_resort: bool = False
    """Whether it is asked under force only, after all others."""


ADMISSION_PASS, HANDOVER_PASS = "admit", "summarize"
"""Two names of a policy's `passes` that the pipeline runs by itself: on what no provider has seen yet, and the major
compaction, which may ask a model."""
PASSES: Mapping[str, Pass] = {
    row.name: row
    for row in (Pass("superseded", propose_superseded), Pass("elide", elide), Pass("evict", evict, last_resort=True))
}
"""Passes that the planner weighs."""
GENTLE_PASSES = tuple(row for row in PASSES.values() if not row.last_resort)
PASS_NAMES = (ADMISSION_PASS, "superseded", "elide", HANDOVER_PASS, "evict")
"""Every pass of ours in the order of gentleness."""


def add_passes(own: Sequence[Pass | Propose]) -> Mapping[str, Pass]:
    """Return the table of passes with the caller's own rows after ours; a function is a pass named as itself.

    Raises ArgumentError for what is no pass, or for a name that is taken.
    """
    table = dict(PASSES)
    if not isinstance(own, Sequence) or isinstance(own, str):
        raise ArgumentError(f"passes = {own!r}; must be a list of functions or danshari.passes.Pass rows")
    for row in own:
        made = row if isinstance(row, Pass) else Pass(getattr(row, "__name__", ""), row) if callable(row) else None
        if made is None or not isinstance(made.name, str) or not made.name or not callable(made.propose):
            raise ArgumentError(f"passes holds {row!r}; must be functions or danshari.passes.Pass rows with a name")
        if made.name in (*table, *PASS_NAMES):
            raise ArgumentError(f"passes: the name {made.name!r} is taken")
        table[made.name] = made
    return table


__all__ = ["ADMISSION_PASS", "GENTLE_PASSES", "HANDOVER_PASS", "PASSES", "PASS_NAMES", "Pass", "Propose", "add_passes"]
