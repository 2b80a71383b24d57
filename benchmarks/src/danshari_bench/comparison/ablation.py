"""Measure what each part of a policy contributes by replaying sessions with one part off at a time."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from danshari.core.policy import Policy, make_policy
from danshari.errors import SessionError
from danshari.replay.must_keep import build_state_history
from danshari.replay.prompt_cache import PRICE_VECTORS
from danshari.replay.references import find_needs
from danshari.replay.replay import policy_contender
from danshari.replay.score import ViewScorer
from danshari.replay.simulate import play_session
from danshari.replay.statistics import Bootstrap, round_optional
from danshari.sessions import RecordedSession
from danshari_bench.comparison.plan import LONG_ROUNDS, common_atoms, survey_session
from danshari_bench.comparison.run import JobRunner, git_commit, sessions_with_requests

ABLATION_FORMAT = 1
"""Format number of the result."""
ABLATION_MEASURES = ("sar", "edits", "hot")
AblationJob = tuple[RecordedSession, frozenset[str], tuple[tuple[str, Policy], ...], tuple[str, ...]]
AblationSums = dict[str, dict[str, dict[str, Any]]]
"""Variant → price vector → sums: cost, off, tokens, whole, and [kept, counted] of every measure."""


def list_variants(policy: Policy) -> dict[str, tuple[str, Policy]]:
    """Return name → (description, policy): the policy itself and differing variants of `data/ablation.toml`."""
    made = {policy.name: ("as it is", policy)}
    for name, row in tomllib.loads(Path(__file__).with_name("ablation.toml").read_text(encoding="utf-8")).items():
        about = row.pop("about")
        changed = make_policy(row, base=policy, where=f"ablation.toml: {name}")
        if changed != policy:
            made[name] = (about, replace(changed, name=name))
    return made


def ablate(
    sessions: Sequence[RecordedSession], policy: Policy, vectors: Sequence[str], each: JobRunner
) -> dict[str, Any]:
    """Replay every variant on the long sessions and return the result as JSON values.

    Differences to the unchanged policy are paired by task. Raises SessionError if no session is long
    enough.
    """
    kept, notes = sessions_with_requests(sessions, ())
    nothing: frozenset[str] = frozenset()
    surveys = each(survey_session, [(s, "strict", nothing) for s in kept], "surveying")
    common = common_atoms(kept, surveys)
    chosen = [s for s, survey in zip(kept, surveys, strict=True) if survey.rounds >= LONG_ROUNDS]
    if not chosen:
        raise SessionError(
            f"no session of {LONG_ROUNDS} rounds or more among {len(kept)}: nothing to measure a part on"
        )
    variants = list_variants(policy)
    policies = tuple((name, made) for name, (_, made) in variants.items())
    jobs: list[AblationJob] = [(session, common, policies, tuple(vectors)) for session in chosen]
    jobs.sort(key=lambda job: -len(str(job[0].messages)))  # the longest first: no core waits for them
    found = each(_play_variants, jobs, "playing")
    tasks = [job[0].task for job in jobs]
    draws = Bootstrap(tasks)
    rows = [
        {
            "variant": name,
            "about": about,
            "vector": vector,
            **_pool_variant(found, tasks, draws, (name, policy.name), vector),
        }
        for name, (about, _) in variants.items()
        for vector in vectors
    ]
    return {"format": ABLATION_FORMAT, "commit": git_commit(), "policy": policy.name, "sessions": len(chosen),
            "tasks": len(set(tasks)), "rows": rows, "notes": notes}  # fmt: skip


def _play_variants(job: AblationJob) -> AblationSums:
    """Replay one session under every variant and price vector."""
    session, common, policies, vectors = job
    needs = find_needs(session, common=common)
    history = build_state_history(needs)
    found: AblationSums = {}
    whole = play_session(needs, policy_contender("off"), prices=PRICE_VECTORS[vectors[0]], check=False)
    for name, policy in policies:
        for vector in vectors:
            scorer = ViewScorer(needs, history)
            played = play_session(
                needs, policy_contender(policy), prices=PRICE_VECTORS[vector], check=False, scorer=scorer
            )
            found.setdefault(name, {})[vector] = {
                "cost": played.cost(PRICE_VECTORS[vector]),
                "off": whole.cost(PRICE_VECTORS[vector]),
                "tokens": sum(s.tokens for s in played.sent),
                "whole": sum(s.tokens for s in whole.sent),
                "faults": len(played.setting.faults),
                **{m: scorer.score.tally.get(m, [0, 0]) for m in ABLATION_MEASURES},
            }
    return found


def _pool_variant(
    found: Sequence[AblationSums], tasks: Sequence[str], draws: Bootstrap, names: tuple[str, str], vector: str
) -> dict[str, Any]:
    """Pool one variant over sessions and compare it with the unchanged policy."""
    mine, base = ([f[name][vector] for f in found] for name in names)

    def sum_by_task(cells: Sequence[dict[str, Any]], measure: str) -> dict[str, tuple[float, float]]:
        """Return task → (numerator, denominator) of a measure."""
        sums: dict[str, tuple[float, float]] = {}
        for task, cell in zip(tasks, cells, strict=True):
            a, b = _PAIRS[measure](cell) if measure in _PAIRS else cell[measure]
            before = sums.get(task, (0.0, 0.0))
            sums[task] = (before[0] + a, before[1] + b)
        return sums

    row: dict[str, Any] = {}
    for measure in ("tokens", "dollars", *ABLATION_MEASURES):
        row[measure] = round_optional(draws.ratio(sum_by_task(mine, measure), interval=False).value)
        if names[0] != names[1]:
            row[f"{measure}_change"] = draws.difference(sum_by_task(mine, measure), sum_by_task(base, measure))[
                0
            ].to_dict()
    row["dollars_worst"] = round_optional(max(c["cost"] / c["off"] for c in mine))
    row["faults"] = sum(c["faults"] for c in mine)
    return row


_PAIRS = {
    "tokens": lambda cell: (cell["tokens"], cell["whole"]),
    "dollars": lambda cell: (cell["cost"], cell["off"]),
}
