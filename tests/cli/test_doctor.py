"""The doctor on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from danshari import Compactor, open_archive
from danshari.replay.diagnosis import diagnose
from danshari.sessions import read
from tests.support.command_line import SESSION, run_danshari


def test_doctor_tells_five_symptoms_with_what_to_turn(tmp_path: Path) -> None:
    found = {s.name: s for s in diagnose(next(iter(read(SESSION))), "literal")}
    assert len(found) == 5
    assert found["compacts too often"].present
    assert "cooldown" in found["compacts too often"].turn
    assert not found["compaction fails"].present
    done = run_danshari("doctor", SESSION, "--json", DANSHARI_HOME=tmp_path)
    assert len(json.loads(done.stdout)) == 5
    assert (
        "✗ compacts too often" in run_danshari("doctor", SESSION, "--policy", "literal", DANSHARI_HOME=tmp_path).stdout
    )


def test_doctor_reads_a_stored_session(tmp_path: Path) -> None:
    session = next(iter(read(SESSION)))
    with open_archive(tmp_path / "a.db") as archive:
        keeper = Compactor("literal", archive=archive, session="shop", model="gpt-5")
        for cut in range(1, len(session.messages) + 1):
            keeper.compact(session.messages[:cut])
        edited = archive.run_query(lambda base: base.execute("SELECT digest FROM entry").fetchone()[0])
        keeper.recall(edited[:12])
    done = run_danshari("doctor", "shop", "--archive", str(tmp_path / "a.db"), "--json", DANSHARI_HOME=tmp_path)
    found = {s["symptom"]: s for s in json.loads(done.stdout)}
    assert done.returncode == 0
    assert found["what was edited is asked for again"]["seen"] == 1
    assert found["what was edited is asked for again"]["evidence"] == [f"{edited[:12]}: 1 times"]
    assert found["compacts too often"]["seen"] > 2
    wrong = run_danshari("doctor", "shap", "--archive", str(tmp_path / "a.db"), DANSHARI_HOME=tmp_path)
    assert "newest there: shop" in wrong.stderr
    assert (
        "no archive"
        in run_danshari("doctor", "shap", "--archive", str(tmp_path / "b.db"), DANSHARI_HOME=tmp_path).stderr
    )
