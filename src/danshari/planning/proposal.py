"""What passes propose and what the planner decides, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from danshari.analysis.facts import Facts
from danshari.analysis.signals import Trigger
from danshari.core.edits import Reason
from danshari.core.pricing import Prices

Pressure = Literal["none", "warn", "soft", "hard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One edit that a pass proposes: the item, the estimated tokens it frees, how to write its text."""

    at: int
    freed: float
    by: str
    """Name of the pass."""
    why: str
    """The reason in words, for people."""
    write: Callable[[], str | None]
    """Gives the new text, or None where no shorter text can be written."""
    until: int = -1
    """Last position of a whole-round drop; -1 for a replacement."""
    needs: int = -1
    """Position of an item that must be shown whole for this edit to be true; -1 for none."""
    fault: float = 1.0
    """Weight of the policy's chance that an edited item is needed again, for this edit."""
    reason: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The state of the conversation that the planner decides by; sizes are in tokens."""

    facts: Facts
    sizes: Sequence[float]
    """Tokens of every item as the view shows it now (0 for what left)."""
    sent: int
    """Items before this position stood in an earlier request."""
    prices: Prices
    cold: bool
    rounds_seen: int
    rounds_left: float
    """Rounds until the window is full at the pace so far."""
    purse: float
    """Units that a commit may put at risk."""
    since_commit: int
    signal: Trigger = ""
    """What the monitor asks for weighing by: low density, phase change; "" for nothing."""
    learned: Mapping[str, float] = field(default_factory=dict)
    """Tool kind → factor on the fault of its edits, from recalls."""
    resting: bool = False
    """Whether the last weighing held so much that it is not repeated yet."""
    pressure: Pressure = "none"
    need: float = 0.0
    """Tokens to free under force, to come below the line that was crossed."""
    spare: float = 0.0
    """Tokens to free beyond that, as far as gentle means go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The planner's decision and its figures, in units of base input tokens."""

    batch: tuple[Proposal, ...] = ()
    held: tuple[Proposal, ...] = ()
    earn: float = 0.0
    cost: float = 0.0
    faults: float = 0.0
    trigger: Trigger = ""
