"""Signals of the context at one moment; they help decide when edits are evaluated and appear in reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from danshari.analysis.facts import Facts
from danshari.analysis.first_seen import MIN_LINE_CHARACTERS, strip_line_number
from danshari.analysis.phases import Phase
from danshari.core.policy import Policy

Trigger = Literal[
    "", "every round", "gain", "cold cache", "soft line", "low density", "phase change", "forced", "asked"
]
"""Why proposals are weighed at a moment; empty: they are not."""

SIGNAL_ROUNDS = 3
"""Newest rounds that density, repeats and the forecast look at (seed 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What is measured of the newest rounds: phase, new lines, repeats, failures, growth."""

    phase: Phase = "explore"
    phase_rounds: int = 0
    """Rounds that the phase has lasted."""
    density: float = 1.0
    """New lines over all lines of the newest rounds' results; 1 where there are none."""
    repeats: int = 0
    """Calls among the newest rounds that ask what an earlier call had asked already."""
    failed_again: int = 0
    """Commands that failed in the newest rounds and had failed before with nothing changed between."""
    growth: float = 0.0
    """Tokens that the next round is likely to add: the mean of the newest rounds."""
    reported: float = 0.0
    """Input tokens the provider reported last; 0: none yet."""
    idle: float = 0.0
    """Seconds since the last request; 0: unknown."""
    files: tuple[str, ...] = ()
    """Files that the next step likely touches: edited last, newest first."""
    failing: str = ""
    """The command that fails at present."""

    def trigger(self, policy: Policy) -> Trigger:
        """Return the name of the signal that asks for an evaluation now, or an empty string."""
        if policy.commit.density and self.density < policy.commit.density:
            return "low density"
        if policy.commit.on_phase and self.phase_rounds == 1 and self.phase in ("repair", "verify"):
            return "phase change"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "density": round(self.density, 3), "growth": round(self.growth)}


def read_signals(facts: Facts, *, reported: float = 0.0, idle: float = 0.0) -> Signals:
    """Measure the signals over the newest `SIGNAL_ROUNDS` rounds with calls.

    `reported` is the provider's last input token count, `idle` the seconds since the last request.
    """
    turns = facts.call_turns[-SIGNAL_ROUNDS:]
    if not turns:
        return Signals(reported=reported, idle=idle)
    first = facts.turn_start(turns[0])
    grown = sum(facts.tokens[first:])
    edited = sorted(((at, path) for path, at in facts.changed.items()), reverse=True)
    return Signals(
        phase=facts.phases.phase_at(facts.turn),
        phase_rounds=facts.phases.rounds_in_phase(),
        density=_new_line_share(facts, first) if len(turns) == SIGNAL_ROUNDS else 1.0,
        repeats=facts.count_repeated_calls(first),
        failed_again=len(facts.find_repeat_failures(first)),
        growth=grown / len(turns),
        reported=reported,
        idle=idle,
        files=tuple(path for _, path in edited[:3]),
        failing=facts.failing_command(),
    )


def _new_line_share(facts: Facts, first: int) -> float:
    """Return the share (0 to 1) of result lines since position `first` that no earlier result contained.

    Lines under 7 characters are not counted; 1.0 if none is left.
    """
    facts.past.grow_lines(len(facts.items))
    new = total = 0
    for at in range(first, len(facts.items)):
        item = facts.items[at]
        if item.kind == "result":
            for line in item.text.split("\n"):
                key = strip_line_number(line).strip()
                if len(key) >= MIN_LINE_CHARACTERS:
                    total += 1
                    new += not facts.past.has_line(key, at)
    return new / total if total else 1.0
