"""Where a session's tokens went: by tool, by tier, the biggest items, repeated reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.analysis.tiers import TIERS, tier_of
from danshari.formats import named
from danshari.replay.prompt_cache import DEFAULT_MODEL
from danshari.sessions import Recorded


@dataclass(slots=True, kw_only=True)
class Big:
    """One large item: tokens, and tokens times the requests that carried it."""

    session: str
    what: str
    label: str
    tokens: float
    carried: float


@dataclass(slots=True)
class Anatomy:
    """Sums over sessions; sizes in tokens, `carried` in tokens times requests."""

    sessions: int = 0
    rounds: int = 0
    size: float = 0.0
    carried: float = 0.0
    tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tools_carried: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tiers: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    big: list[Big] = field(default_factory=list)
    reads: int = 0
    rereads: int = 0
    rereads_carried: float = 0.0
    malformed: int = 0
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON values."""
        return {
            "sessions": self.sessions,
            "rounds": self.rounds,
            "tokens": round(self.size),
            "carried_tokens": round(self.carried),
            "tools": {
                name: {"tokens": round(n), "carried": round(self.tools_carried[name])} for name, n in ranked(self.tools)
            },
            "tiers": {tier: round(self.tiers[tier]) for tier in TIERS},
            "biggest": [
                {
                    "session": b.session,
                    "what": b.what,
                    "label": b.label,
                    "tokens": round(b.tokens),
                    "carried": round(b.carried),
                }
                for b in self.big
            ],
            "reads": self.reads,
            "repeated_reads": self.rereads,
            "repeated_reads_carried": round(self.rereads_carried),
            "malformed": self.malformed,
            "notes": self.notes,
        }


def ranked(sums: Mapping[str, float]) -> list[tuple[str, float]]:
    """Sort sums, the largest first."""
    return sorted(sums.items(), key=lambda pair: -pair[1])


def anatomy(sessions: Sequence[Recorded], *, biggest: int = 8) -> Anatomy:
    """Take sessions apart."""
    found = Anatomy()
    for session in sessions:
        _add(found, session)
    found.big = sorted(found.big, key=lambda b: -b.carried)[:biggest]
    return found


def _add(found: Anatomy, session: Recorded) -> None:
    model = data.model(session.model or DEFAULT_MODEL)
    facts = Facts(data.tools(), data.estimator(model.family))
    facts.extend(named(session.format).read(session.messages))
    last = facts.turn
    found.sessions += 1
    found.rounds += last
    found.size += facts.total
    found.malformed += session.malformed
    found.notes += [f"{session.id}: {note}" for note in session.notes]
    seen: set[str] = set()
    for at, item in enumerate(facts.items):
        tokens = facts.tokens[at]
        carried = tokens * max(last - item.turn, 0)
        group = item.name if item.kind in ("call", "result") and item.name else f"({item.role} {item.kind})"
        found.carried += carried
        found.tools[group] += tokens
        found.tools_carried[group] += carried
        found.tiers[tier_of(facts, at)] += carried
        act = facts.act_at(at)
        if item.kind == "result" and act and act.kind == "read" and act.path:
            found.reads += 1
            if act.path in seen:
                found.rereads += 1
                found.rereads_carried += carried
            seen.add(act.path)
        if tokens > 1000:
            label = (act.path or act.command) if act else item.text
            found.big.append(
                Big(session=session.id, what=group, label=" ".join(label.split())[:160], tokens=tokens, carried=carried)
            )
