"""Measure what hand-over documents keep, in major compactions of recorded sessions.

At chosen rounds a session is compacted in full with only the newest round beside the document. The
view is checked for what `state` extracted independently: user words, rules, files, failures, todo
items and test status.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.core.edits import Fold
from danshari.core.policy import Policy
from danshari.replay.must_keep import STATE_INTERVAL
from danshari.replay.prompt_cache import DEFAULT_MODEL
from danshari.replay.references import find_needs
from danshari.replay.score import ViewScorer
from danshari.sessions import RecordedSession

HANDOVER_MEASURES = (
    "rules", "rule_views", "files_named", "files_right", "failing_test", "test_status", "attempts", "todo", "invented",
    "stale",
)  # fmt: skip
"""What is counted; `invented` and `stale` must be 0."""
MIN_ROUNDS = 10


@dataclass(slots=True, kw_only=True)
class HandoverCheck:
    """Counts of one session."""

    session: str
    tally: dict[str, list[float]] = field(default_factory=dict)
    documents: int = 0
    characters: list[int] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)
    lost: int = 0
    """Points neither in sight nor in the archive, by the product's own check."""
    faults: list[str] = field(default_factory=list)
    problems: int = 0


def isolate_handover(policy: Policy) -> Policy:
    """Return the policy changed so that only the newest round stays beside the hand-over document."""
    return policy.with_fields(handover_tail=0.0, handover_restore=0)


def check_handovers(job: tuple[RecordedSession, str, int]) -> HandoverCheck:
    """Compact one session at `count` rounds and score the views."""
    session, policy, count = job
    needs = find_needs(session)
    made = HandoverCheck(session=session.id)
    rounds = [r for r in needs.rounds if r.number % STATE_INTERVAL == 0 and r.number >= MIN_ROUNDS]
    step = max(len(rounds) // count, 1)
    scorer = ViewScorer(needs)
    for r in rounds[step - 1 :: step][:count]:
        engine = Compactor(
            isolate_handover(data.load_policy(policy)),
            model=session.model or DEFAULT_MODEL,
            format=session.format,
            clock=lambda: 0.0,
        )
        result = engine.compact(session.messages[: r.cut], force="full")
        if result.fault:
            made.faults.append(result.fault)
        made.problems += bool(needs.format.check(result.messages)) and not needs.format.check(session.messages[: r.cut])
        if result.handover is None:
            continue
        made.documents += 1
        made.lost += sum(s.lost for s in result.survived)
        fold = next(e for e in result.edits if isinstance(e, Fold))
        made.characters.append(len(fold.text))
        made.replaced.append(result.before - result.after)
        scorer.score_round(r, result.messages, rewritten=True)
    made.tally = {k: v for k, v in scorer.score.tally.items() if k in HANDOVER_MEASURES}
    return made


def pool_handover_checks(rows: list[HandoverCheck]) -> dict[str, Any]:
    """Pool the counts of all sessions."""
    tally: dict[str, list[float]] = {}
    for row in rows:
        for name, (kept, counted) in row.tally.items():
            pair = tally.setdefault(name, [0, 0])
            pair[0] += kept
            pair[1] += counted
    sizes = sorted(n for row in rows for n in row.characters)
    return {
        "sessions": sum(bool(r.documents) for r in rows),
        "documents": sum(r.documents for r in rows),
        "measures": {k: {"kept": tally[k][0], "n": tally[k][1]} for k in HANDOVER_MEASURES if k in tally},
        "characters": {"median": sizes[len(sizes) // 2], "largest": sizes[-1]} if sizes else {},
        "lost": sum(r.lost for r in rows),
        "invalid": sum(r.problems for r in rows),
        "faults": [f for r in rows for f in r.faults],
    }
