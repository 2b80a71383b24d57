"""The scorer's weights: learning, judging, versions, and the commands that use them."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from danshari import ArgumentError, Compactor, VersionError, data, open_archive
from danshari.cli.report import bundled_sessions
from danshari.core.line_weights import sum_bucket_weights, weights_from_dict
from danshari.replay.diagnosis import diagnose
from danshari.sessions import read
from danshari.shorten.line_scorer import feature_bucket_counts
from danshari.training.examples import FamilyExamples, SessionExamples, collect_examples
from danshari.training.train import assign_folds, auc, train_weights

SESSION = bundled_sessions()[0]


def danshari(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DANSHARI_HOME": str(home), "COLUMNS": "140"}
    return subprocess.run([sys.executable, "-m", "danshari", *words], capture_output=True, text=True, env=env)


def made_block(draw: random.Random, count: int) -> FamilyExamples:
    block = FamilyExamples(features={name: bytearray() for name in feature_bucket_counts()["code"]})
    for _ in range(count):
        needed = draw.random() < 0.1
        for name, buckets in feature_bucket_counts()["code"].items():
            told = needed and name == "lines to a name of the task" and draw.random() < 0.9
            block.features[name].append(0 if told else draw.randrange(buckets))
        block.need.append(float(needed))
        block.size.append(40)
        block.item.append(1)
        block.texts.append("x")
    return block


def test_training_finds_what_tells_and_says_so_in_readable_weights() -> None:
    draw = random.Random(3)
    examples = [
        SessionExamples(session=f"s{n}", repository=f"r{n}", blocks={"code": made_block(draw, 2000)}) for n in range(4)
    ]
    weights = train_weights(examples[:3]).families["code"]
    assert (
        max(weights.features["lines to a name of the task"]) == weights.features["lines to a name of the task"][0] > 0.5
    )
    assert max(map(abs, weights.features["indent"])) < 0.25
    block = examples[3].blocks["code"]
    found = auc(sum_bucket_weights(weights, block.features, len(block.need)), block.need)
    assert found is not None
    assert found > 0.85
    assert train_weights(examples[:3]).to_dict() == train_weights(examples[:3]).to_dict()


def test_no_repository_stands_in_two_folds() -> None:
    files = frozenset({"a.py", "b.py", "c.py", "d.py"})
    examples = [SessionExamples(session=str(n), repository=f"r{n // 2}") for n in range(12)]
    examples += [
        SessionExamples(session="x", repository="one", files=files),
        SessionExamples(session="y", repository="two", files=files),
    ]
    folds = assign_folds(examples)
    assert sorted(n for fold in folds for n in fold) == list(range(14))
    place = {n: k for k, fold in enumerate(folds) for n in fold}
    assert all(place[n] == place[n + 1] for n in range(0, 12, 2))
    assert place[12] == place[13], "the same files: one repository, whatever its name"


def test_auc_by_hand() -> None:
    assert auc([1, 2, 3, 4], [0, 0, 1, 1]) == 1.0
    assert auc([1, 1, 1, 1], [0, 1, 0, 1]) == 0.5
    assert auc([1, 2], [1, 1]) is None


def test_examples_of_a_session_have_needs_and_as_many_buckets_as_lines() -> None:
    found = collect_examples(next(iter(read(SESSION))))
    assert any(need for block in found.blocks.values() for need in block.need)
    for block in found.blocks.values():
        assert {len(column) for column in block.features.values()} == {len(block.need)} == {len(block.texts)}


def test_our_own_weights_fit_and_bring_their_report() -> None:
    weights = data.line_weights()
    assert weights is not None
    code = weights.report["families"]["code"]["rows"]
    assert code["scorer"]["auc_inside"] > max(code[b]["auc_inside"] for b in ("recency", "rarity", "BM25 to the task"))
    assert weights_from_dict(json.loads(json.dumps(weights.to_dict())), feature_bucket_counts(), "x") == weights


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (lambda d: d.update(format=99), VersionError, "train again"),
        (lambda d: d.pop("format"), ArgumentError, "danshari train"),
        (lambda d: d["families"].pop("code"), ArgumentError, "family 'code'"),
        (lambda d: d["families"]["code"]["features"]["form"].pop(), ArgumentError, "feature 'form': 7 finite weights"),
    ],
)
def test_weights_that_do_not_fit_are_named(change: Any, error: type[Exception], said: str) -> None:
    weights = data.line_weights()
    assert weights is not None
    stored = json.loads(json.dumps(weights.to_dict()))
    change(stored)
    with pytest.raises(error, match=said):
        weights_from_dict(stored, feature_bucket_counts(), "mine.json")


def test_train_on_own_sessions_and_go_back(tmp_path: Path) -> None:
    folder = str(SESSION.parent)
    tried = danshari("train", folder, "--dry-run", "--json", home=tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert set(json.loads(tried.stdout)["families"]) == {"code", "text"}
    assert not (tmp_path / "scorer.json").exists()
    done = danshari("train", folder, home=tmp_path)
    assert "weights that moved most" in done.stdout
    own = json.loads((tmp_path / "scorer.json").read_text())
    assert own["families"] != data.line_weights().to_dict()["families"]  # type: ignore[union-attr]
    assert "kept as" in danshari("train", folder, "--reset", home=tmp_path).stderr
    assert not (tmp_path / "scorer.json").exists()
    few = tmp_path / "few.json"
    few.write_text(json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]))
    refused = danshari("train", str(few), home=tmp_path)
    assert refused.returncode == 1
    assert "give more sessions" in refused.stderr


def test_foreign_weights_are_left_aside_and_plain_rules_go_on(tmp_path: Path) -> None:
    (tmp_path / "scorer.json").write_text('{"format": 99}')
    done = danshari("replay", str(SESSION), "--no-rounds", home=tmp_path)
    assert done.returncode == 0
    assert "the line scorer is not used" in done.stderr


def test_doctor_tells_five_symptoms_with_what_to_turn(tmp_path: Path) -> None:
    found = {s.name: s for s in diagnose(next(iter(read(SESSION))), "literal")}
    assert len(found) == 5
    assert found["compacts too often"].present
    assert "cooldown" in found["compacts too often"].turn
    assert not found["compaction fails"].present
    done = danshari("doctor", str(SESSION), "--json", home=tmp_path)
    assert len(json.loads(done.stdout)) == 5
    assert "✗ compacts too often" in danshari("doctor", str(SESSION), "--policy", "literal", home=tmp_path).stdout


def test_doctor_reads_a_stored_session(tmp_path: Path) -> None:
    session = next(iter(read(SESSION)))
    with open_archive(tmp_path / "a.db") as archive:
        keeper = Compactor("literal", archive=archive, session="shop", model="gpt-5")
        for cut in range(1, len(session.messages) + 1):
            keeper.compact(session.messages[:cut])
        edited = archive.run_query(lambda base: base.execute("SELECT digest FROM entry").fetchone()[0])
        keeper.recall(edited[:12])
    done = danshari("doctor", "shop", "--archive", str(tmp_path / "a.db"), "--json", home=tmp_path)
    found = {s["symptom"]: s for s in json.loads(done.stdout)}
    assert done.returncode == 0
    assert found["what was edited is asked for again"]["seen"] == 1
    assert found["what was edited is asked for again"]["evidence"] == [f"{edited[:12]}: 1 times"]
    assert found["compacts too often"]["seen"] > 2
    wrong = danshari("doctor", "shap", "--archive", str(tmp_path / "a.db"), home=tmp_path)
    assert "newest there: shop" in wrong.stderr
    assert "no archive" in danshari("doctor", "shap", "--archive", str(tmp_path / "b.db"), home=tmp_path).stderr


def test_explain_says_what_was_decided_before_one_request(tmp_path: Path) -> None:
    done = danshari("replay", str(SESSION), "--explain", "12", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "request 12 of" in done.stdout
    assert "signals: phase" in done.stdout
    assert json.loads(danshari("replay", str(SESSION), "--explain", "12", "--json", home=tmp_path).stdout)["signals"][
        "phase"
    ]
    assert "has requests 1 to" in danshari("replay", str(SESSION), "--explain", "999", home=tmp_path).stderr
    assert "one session" in danshari("replay", str(SESSION.parent), "--explain", "1", home=tmp_path).stderr
