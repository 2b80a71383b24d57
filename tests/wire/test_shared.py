"""Real recorded sessions, where they lie beside the checkout: validity, prefix stability, dollars, the public bug cases."""

from __future__ import annotations

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from danshari_bench.cases import Session
from danshari_bench.checks.generations import run_generations
from danshari_bench.checks.handover import check_handovers
from danshari_bench.checks.handover import pool_handover_checks as survived
from danshari_bench.checks.validity import check_views
from danshari_bench.compactions import (
    RecordScorer,
    compact_text,
    pool_scores,
    read_records,
)
from danshari_bench.comparison.schedule import best_schedule

from danshari.data import load_policy
from danshari.errors import SessionError
from danshari.formats import FORMATS, find_format
from danshari.replay.prompt_cache import PRICE_VECTORS, request_boundaries
from danshari.replay.references import outline_session
from danshari.replay.replay import policy_contender, replay
from danshari.replay.simulate import PlayResult, play_session
from danshari.sessions import RecordedSession, read, session_files

POLICIES = ("balanced", "literal", "repair", "architecture", "off")
SHARDS = 8


@functools.cache
def sessions(shared: Path, least: int) -> list[RecordedSession]:
    """The recorded sessions of so many requests at least; nobody changes them."""
    found = []
    for path in session_files([shared / "trajectories", shared / "compactions"]):
        try:
            found += [s for s in read(path) if sum(1 for _ in request_boundaries(s, find_format(s.format))) >= least]
        except SessionError:
            continue
    assert len(found) >= 20
    return found


@functools.cache
def untouched_plays(shared: Path) -> list[PlayResult]:
    """What each long session sends when nothing is done; only its cost depends on the prices."""
    off, prices = policy_contender("off"), PRICE_VECTORS[".10"]
    return [play_session(outline_session(s), off, prices=prices, check=False) for s in sessions(shared, 20)]


@pytest.mark.parametrize(("vector", "most"), [(".10", 0.78), (".05", 0.84), (".025", 0.90)])
def test_balanced_pays_at_every_price(shared: Path, vector: str, most: float) -> None:
    """Pooled dollars, no session far above doing nothing, and what the next action needs still there."""
    support: dict[str, list[float]] = {"edits": [0.0, 0.0], "hot": [0.0, 0.0]}
    spent = untouched = 0.0
    for session, off in zip(sessions(shared, 20), untouched_plays(shared), strict=True):
        without = off.cost(PRICE_VECTORS[vector])
        balanced = replay(session, "balanced", prices=PRICE_VECTORS[vector], measure=vector != ".025")
        spent, untouched = spent + balanced.cost, untouched + without
        assert balanced.cost <= 1.05 * without, session.id
        for name, pair in support.items():
            kept, n = balanced.tally.get(name, [0.0, 0.0])
            pair[0], pair[1] = pair[0] + kept, pair[1] + n
    assert spent <= most * untouched
    assert (support["edits"][1] > 0) == (vector != ".025"), "measured at two prices"
    assert support["edits"][0] >= 0.88 * support["edits"][1]
    assert support["hot"][0] >= 0.985 * support["hot"][1]


def test_the_offline_schedule_is_cheaper_than_doing_nothing(shared: Path) -> None:
    for session in sessions(shared, 40)[:12]:
        best = best_schedule(session, load_policy("balanced"), PRICE_VECTORS[".10"])
        assert best.cost <= best.untouched


@pytest.fixture(scope="module")
def runner(shared: Path) -> Any:
    spec = importlib.util.spec_from_file_location("check_case", shared / "cases" / "check_case.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OPEN = {63}
"""Reports that came later and are not mended yet (issue 14); one that passes must leave this list."""


def test_public_bug_cases(shared: Path, runner: Any) -> None:
    """Every case passes every hard check, but for the open ones."""
    failed = {}
    for path in sorted((shared / "cases").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        broken = [(check["c"], why) for check, good, why in runner.run_case(case, Session) if not good]
        if broken:
            failed[path.stem] = broken
    assert {int(name[:2]) for name in failed} == OPEN, failed


def test_the_hand_over_holds_what_the_agent_needed_next(shared: Path) -> None:
    """At the size of the summary the agent wrote, and at half of it, more than the newest lines and than that summary."""
    scores = []
    for record in read_records([shared / "compactions"]):
        judge = RecordScorer(record)
        scores += [judge.score("danshari", compact_text, share=share) for share in (1.0, 0.5)]
    whole, half = pool_scores(scores)
    assert (whole["faults"], half["faults"]) == (0, 0)
    assert whole["locators"]["value"] >= 0.85
    assert whole["all"]["value"] >= 0.70
    assert half["locators"]["value"] >= 0.75
    assert half["all"]["value"] >= 0.58


def test_state_survives_major_compactions(shared: Path) -> None:
    """Words, rules, files, failures and todo of recorded sessions stand in the document alone; nothing is invented."""
    rows = [check_handovers((s, "balanced", 1)) for s in sessions(shared, 20)]
    found = survived(rows)
    share = {name: pair["kept"] / pair["n"] for name, pair in found["measures"].items() if pair["n"]}
    assert (found["faults"], found["invalid"], found["lost"]) == ([], 0, 0)
    assert share["rules"] == 1.0
    assert min(share["files_named"], share["files_right"]) >= 0.98
    assert min(share["failing_test"], share["attempts"], share["todo"]) >= 0.95
    assert share["invented"] == 0
    assert share.get("stale", 0) == 0


@pytest.mark.parametrize("way", ["kept", "bare"])
def test_five_in_a_row_neither_drift_nor_grow(shared: Path, way: str) -> None:
    """What was not taken back stands or is one recall away, what was is gone, words stay, sizes stay bounded."""
    longest = sorted(sessions(shared, 20), key=lambda s: -len(json.dumps(s.messages)))[:3]
    for session in longest:
        lived = run_generations((session, way))
        assert lived.faults == []
        assert lived.words[0] == lived.words[1]
        assert lived.gone[0] == lived.gone[1] > 0
        assert lived.growth <= 1.3
        assert way == "bare" or lived.standing[0] + lived.recalled == lived.standing[1]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_view_is_valid_and_stable(shared: Path, shard: int) -> None:
    """A fair part of what `danshari bench valid` checks in full: each long session in one format under two policies."""
    for number, session in enumerate(sessions(shared, 20)):
        if number % SHARDS != shard:
            continue
        for turn in range(2):
            wire = tuple(FORMATS)[(number // SHARDS + turn) % 3]
            checked = check_views((session, wire, POLICIES[(number + turn) % 4]))
            assert (checked.invalid, checked.unstable, checked.faults) == (0, 0, 0), checked.examples
