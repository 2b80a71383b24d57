"""Does the hand-over carry what must survive? Major compactions of recorded sessions, the document alone.

At chosen rounds a session is compacted in full, with nothing but the newest round kept beside the document, and the
resulting view is asked for what `state` worked out independently: words, rules, files, failures, todo, test status.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.core.edits import Fold
from danshari.core.policy import Policy
from danshari.replay.must_keep import EVERY
from danshari.replay.prompt_cache import DEFAULT_MODEL
from danshari.replay.references import needs_of
from danshari.replay.score import Scorer
from danshari.sessions import Recorded

MEASURES = (
    "rules", "rule_views", "files_named", "files_right", "failing_test", "test_status", "attempts", "todo", "invented",
    "stale",
)  # fmt: skip
"""What is counted; `invented` and `stale` must be 0."""
LEAST_ROUNDS = 10


@dataclass(slots=True, kw_only=True)
class Checked:
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


def alone(policy: Policy) -> Policy:
    """Give a policy whose hand-over stands alone beside the newest round."""
    return replace(policy, keep_tail=0.0, restore=0)


def check(job: tuple[Recorded, str, int]) -> Checked:
    """Compact one session at `count` rounds and look at the views."""
    session, policy, count = job
    needs = needs_of(session)
    made = Checked(session=session.id)
    rounds = [r for r in needs.rounds if r.number % EVERY == 0 and r.number >= LEAST_ROUNDS]
    step = max(len(rounds) // count, 1)
    scorer = Scorer(needs)
    for r in rounds[step - 1 :: step][:count]:
        engine = Compactor(
            alone(data.load_policy(policy)),
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
        scorer.round(r, result.messages, rewritten=True)
    made.tally = {k: v for k, v in scorer.score.tally.items() if k in MEASURES}
    return made


def summed(rows: list[Checked]) -> dict[str, Any]:
    """Pool the counts."""
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
        "measures": {k: {"kept": tally[k][0], "n": tally[k][1]} for k in MEASURES if k in tally},
        "characters": {"median": sizes[len(sizes) // 2], "largest": sizes[-1]} if sizes else {},
        "lost": sum(r.lost for r in rows),
        "invalid": sum(r.problems for r in rows),
        "faults": [f for r in rows for f in r.faults],
    }
