"""Training on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from danshari import data
from tests.support.command_line import SESSION, run_danshari


def test_train_on_own_sessions_and_go_back(tmp_path: Path) -> None:
    folder = SESSION.parent
    tried = run_danshari("train", folder, "--dry-run", "--json", DANSHARI_HOME=tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert set(json.loads(tried.stdout)["families"]) == {"code", "text"}
    assert not (tmp_path / "scorer.json").exists()
    done = run_danshari("train", folder, DANSHARI_HOME=tmp_path)
    assert "weights that moved most" in done.stdout
    own = json.loads((tmp_path / "scorer.json").read_text())
    assert own["families"] != data.line_weights().to_dict()["families"]  # type: ignore[union-attr]
    assert "kept as" in run_danshari("train", folder, "--reset", DANSHARI_HOME=tmp_path).stderr
    assert not (tmp_path / "scorer.json").exists()
    few = tmp_path / "few.json"
    few.write_text(json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]))
    refused = run_danshari("train", str(few), DANSHARI_HOME=tmp_path)
    assert refused.returncode == 1
    assert "add sessions" in refused.stderr


def test_sessions_of_one_repository_train_weights_that_are_not_judged(tmp_path: Path) -> None:
    for name in ("first", "second"):
        shutil.copy(SESSION, tmp_path / f"{name}{SESSION.suffix}")
    done = run_danshari("train", tmp_path, DANSHARI_HOME=tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert "cannot be judged on another" in " ".join(done.stderr.split())
    assert "scorer " not in done.stdout
    own = json.loads((tmp_path / "home" / "scorer.json").read_text())
    assert all("scorer" not in family["rows"] for family in own["report"]["families"].values())
