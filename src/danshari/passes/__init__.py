"""Pure proposers of edits, gentlest first. A pass is a function of facts, effects and policy; it changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from danshari.analysis.facts import Facts
from danshari.core.edits import Effects
from danshari.core.policy import Policy
from danshari.passes.elide import elide
from danshari.passes.evict import evict
from danshari.passes.superseded import superseded
from danshari.planning.planner import Proposal

Pass = Callable[[Facts, Effects, Policy, bool], Iterable[Proposal]]
"""(facts, effects of the ledger, policy, under force) → proposals."""

PASSES: dict[str, Pass] = {"superseded": superseded, "elide": elide, "evict": evict}
"""Passes that the planner weighs; `admit` runs before it, on what no provider has seen, `summarize` by itself."""

NAMES = ("admit", "superseded", "elide", "summarize", "evict")
"""Every pass in the order of gentleness; `summarize` is the major compaction, which may ask a model."""

__all__ = ["NAMES", "PASSES", "Pass"]
