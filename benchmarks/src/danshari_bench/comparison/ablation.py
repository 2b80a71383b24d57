"""What each part of a policy is worth: the same sessions again with one thing switched off at a time."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from danshari.core.policy import Policy, make_policy
from danshari.errors import SessionError
from danshari.replay.must_keep import history_of
from danshari.replay.prompt_cache import VECTORS
from danshari.replay.references import needs_of
from danshari.replay.replay import contender
from danshari.replay.score import Scorer
from danshari.replay.simulate import play
from danshari.replay.statistics import Bootstrap, rounded
from danshari.sessions import Recorded
from danshari_bench.comparison.plan import LONG, common_atoms, survey_of
from danshari_bench.comparison.run import Each, commit, usable

FORMAT = 1
"""Format number of the result."""
MEASURES = ("sar", "edits", "hot")
Job = tuple[Recorded, frozenset[str], tuple[tuple[str, Policy], ...], tuple[str, ...]]
Found = dict[str, dict[str, dict[str, Any]]]
"""Variant → price vector → sums: cost, off, tokens, whole, and [kept, counted] of every measure."""


def variants_of(policy: Policy) -> dict[str, tuple[str, Policy]]:
    """Give the policy as it is and every variant of `data/ablation.toml` that differs from it, with what it is."""
    made = {policy.name: ("as it is", policy)}
    for name, row in tomllib.loads(Path(__file__).with_name("ablation.toml").read_text(encoding="utf-8")).items():
        about = row.pop("about")
        changed = make_policy(row, base=policy, where=f"ablation.toml: {name}")
        if changed != policy:
            made[name] = (about, replace(changed, name=name))
    return made


def ablate(sessions: Sequence[Recorded], policy: Policy, vectors: Sequence[str], each: Each) -> dict[str, Any]:
    """Play every variant on the long sessions; differences to the policy as it is are paired by task."""
    kept, notes = usable(sessions, ())
    nothing: frozenset[str] = frozenset()
    surveys = each(survey_of, [(s, "strict", nothing) for s in kept], "surveying")
    common = common_atoms(kept, surveys)
    chosen = [s for s, survey in zip(kept, surveys, strict=True) if survey.rounds >= LONG]
    if not chosen:
        raise SessionError(f"no session of {LONG} rounds or more among {len(kept)}: nothing to measure a part on")
    variants = variants_of(policy)
    policies = tuple((name, made) for name, (_, made) in variants.items())
    jobs: list[Job] = [(session, common, policies, tuple(vectors)) for session in chosen]
    jobs.sort(key=lambda job: -len(str(job[0].messages)))  # the longest first: no core waits for them
    found = each(_played, jobs, "playing")
    tasks = [job[0].task for job in jobs]
    draws = Bootstrap(tasks)
    rows = [
        {"variant": name, "about": about, "vector": vector, **_row(found, tasks, draws, (name, policy.name), vector)}
        for name, (about, _) in variants.items()
        for vector in vectors
    ]
    return {"format": FORMAT, "commit": commit(), "policy": policy.name, "sessions": len(chosen),
            "tasks": len(set(tasks)), "rows": rows, "notes": notes}  # fmt: skip


def _played(job: Job) -> Found:
    """Play one session under every variant."""
    session, common, policies, vectors = job
    needs = needs_of(session, common=common)
    history = history_of(needs)
    found: Found = {}
    whole = play(needs, contender("off"), prices=VECTORS[vectors[0]], check=False)
    for name, policy in policies:
        for vector in vectors:
            scorer = Scorer(needs, history)
            played = play(needs, contender(policy), prices=VECTORS[vector], check=False, scorer=scorer)
            found.setdefault(name, {})[vector] = {
                "cost": played.cost(VECTORS[vector]),
                "off": whole.cost(VECTORS[vector]),
                "tokens": sum(s.tokens for s in played.sent),
                "whole": sum(s.tokens for s in whole.sent),
                "faults": len(played.setting.faults),
                **{m: scorer.score.tally.get(m, [0, 0]) for m in MEASURES},
            }
    return found


def _row(
    found: Sequence[Found], tasks: Sequence[str], draws: Bootstrap, names: tuple[str, str], vector: str
) -> dict[str, Any]:
    """Pool one variant, and its differences to the policy as it is."""
    mine, base = ([f[name][vector] for f in found] for name in names)

    def pairs(cells: Sequence[dict[str, Any]], measure: str) -> dict[str, tuple[float, float]]:
        sums: dict[str, tuple[float, float]] = {}
        for task, cell in zip(tasks, cells, strict=True):
            a, b = _PAIRS[measure](cell) if measure in _PAIRS else cell[measure]
            before = sums.get(task, (0.0, 0.0))
            sums[task] = (before[0] + a, before[1] + b)
        return sums

    row: dict[str, Any] = {}
    for measure in ("tokens", "dollars", *MEASURES):
        row[measure] = rounded(draws.ratio(pairs(mine, measure), interval=False).value)
        if names[0] != names[1]:
            row[f"{measure}_change"] = draws.difference(pairs(mine, measure), pairs(base, measure))[0].to_dict()
    row["dollars_worst"] = rounded(max(c["cost"] / c["off"] for c in mine))
    row["faults"] = sum(c["faults"] for c in mine)
    return row


_PAIRS = {
    "tokens": lambda cell: (cell["tokens"], cell["whole"]),
    "dollars": lambda cell: (cell["cost"], cell["off"]),
}
