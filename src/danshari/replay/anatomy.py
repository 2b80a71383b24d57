"""Break the tokens of recorded sessions down by tool, tier, largest items and repeated reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.analysis.tiers import TIERS, tier_of
from danshari.formats import find_format
from danshari.replay.prompt_cache import DEFAULT_MODEL
from danshari.sessions import RecordedSession


@dataclass(slots=True, kw_only=True)
class LargeItem:
    """One large item: its tokens, and its tokens times the number of requests that carried it."""

    session: str
    what: str
    label: str
    tokens: float
    carried: float


@dataclass(slots=True, kw_only=True)
class TokenBreakdown:
    """Sums over sessions. Sizes are in tokens, `carried` in tokens times requests."""

    sessions: int = 0
    rounds: int = 0
    size: float = 0.0
    carried: float = 0.0
    tools: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tools_carried: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    tiers: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    big: list[LargeItem] = field(default_factory=list)
    reads: int = 0
    rereads: int = 0
    rereads_carried: float = 0.0
    malformed: int = 0
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "sessions": self.sessions,
            "rounds": self.rounds,
            "tokens": round(self.size),
            "carried_tokens": round(self.carried),
            "tools": {
                name: {"tokens": round(n), "carried": round(self.tools_carried[name])}
                for name, n in sort_by_size(self.tools)
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


def sort_by_size(sums: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return (name, sum) pairs, largest first."""
    return sorted(sums.items(), key=lambda pair: -pair[1])


def break_down_tokens(sessions: Sequence[RecordedSession], *, biggest: int = 8) -> TokenBreakdown:
    """Break down the tokens of sessions and keep the `biggest` items by carried tokens."""
    found = TokenBreakdown()
    for session in sessions:
        _add_session(found, session)
    found.big = sorted(found.big, key=lambda b: -b.carried)[:biggest]
    return found


def _add_session(found: TokenBreakdown, session: RecordedSession) -> None:
    """Add the items of one session to the sums."""
    model = data.find_model(session.model or DEFAULT_MODEL)
    facts = Facts(data.load_tools(), data.load_estimator(model.family))
    facts.extend(find_format(session.format).read(session.messages))
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
                LargeItem(
                    session=session.id, what=group, label=" ".join(label.split())[:160], tokens=tokens, carried=carried
                )
            )
