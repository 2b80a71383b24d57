"""The passes, gentlest first: functions that propose edits and change nothing.

A pass takes facts, effects of the ledger, the policy and whether it is forced, and yields
proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.policy import Policy
from danshari.passes.elide import elide
from danshari.passes.evict import evict
from danshari.passes.superseded import propose_superseded
from danshari.planning.planner import Proposal

Pass = Callable[[Facts, Effects, Policy, bool], Iterable[Proposal]]
"""(facts, effects of the ledger, policy, under force) → proposals."""

PASSES: dict[str, Pass] = {"superseded": propose_superseded, "elide": elide, "evict": evict}
"""Passes that the planner weighs; `admit` runs before it, on what no provider has seen, `summarize` by itself."""

PASS_NAMES = ("admit", "superseded", "elide", "summarize", "evict")
"""Every pass in the order of gentleness; `summarize` is the major compaction, which may ask a model."""

__all__ = ["PASSES", "PASS_NAMES", "Pass"]
