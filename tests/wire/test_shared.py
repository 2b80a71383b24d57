"""Real recorded sessions, where they lie beside the checkout: validity, prefix stability, dollars, the public bug cases."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from danshari.bench.cache import VECTORS, cuts
from danshari.bench.cases import Session
from danshari.bench.replay import replay
from danshari.bench.schedule import best_schedule
from danshari.bench.validity import check_views
from danshari.data import load_policy
from danshari.errors import SessionError
from danshari.formats import FORMATS, named
from danshari.sessions import Recorded, read, session_files

POLICIES = ("balanced", "literal", "repair", "architecture", "off")
SHARDS = 8


def sessions(shared: Path, least: int) -> list[Recorded]:
    found = []
    for path in session_files([shared / "trajectories", shared / "compactions"]):
        try:
            found += [s for s in read(path) if sum(1 for _ in cuts(s, named(s.format))) >= least]
        except SessionError:
            continue
    assert len(found) >= 20
    return found


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


@pytest.mark.parametrize(("vector", "most"), [(".10", 0.78), (".05", 0.84), (".025", 0.90)])
def test_balanced_pays_at_every_price(shared: Path, vector: str, most: float) -> None:
    """Pooled dollars, no session far above doing nothing, and what the next action needs still there."""
    support: dict[str, list[float]] = {"edits": [0.0, 0.0], "hot": [0.0, 0.0]}
    spent = untouched = 0.0
    for session in sessions(shared, 20):
        off = replay(session, "off", prices=VECTORS[vector])
        balanced = replay(session, "balanced", prices=VECTORS[vector], measure=vector != ".025")
        spent, untouched = spent + balanced.cost, untouched + off.cost
        assert balanced.cost <= 1.05 * off.cost, session.id
        for name, pair in support.items():
            kept, n = balanced.tally.get(name, [0.0, 0.0])
            pair[0], pair[1] = pair[0] + kept, pair[1] + n
    assert spent <= most * untouched
    if support["edits"][1]:
        assert support["edits"][0] >= 0.88 * support["edits"][1]
        assert support["hot"][0] >= 0.985 * support["hot"][1]


def test_the_offline_schedule_is_cheaper_than_doing_nothing(shared: Path) -> None:
    for session in sessions(shared, 40)[:12]:
        best = best_schedule(session, load_policy("balanced"), VECTORS[".10"])
        assert best.cost <= best.untouched


@pytest.fixture(scope="module")
def runner(shared: Path) -> Any:
    spec = importlib.util.spec_from_file_location("check_case", shared / "cases" / "check_case.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_public_bug_cases(shared: Path, runner: Any) -> None:
    """No case fails a `valid` check or changes its input; fifteen pass whole without a hand-over."""
    passed = []
    for path in sorted((shared / "cases").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        rows = runner.run_case(case, Session)
        broken = [(c, why) for c, good, why in rows if not good and c["c"] in ("valid", "input_not_mutated")]
        assert broken == [], path.stem
        if all(good for _, good, _ in rows):
            passed.append(path.stem)
    assert len(passed) >= 15
