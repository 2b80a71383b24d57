"""The archive on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from danshari_bench.load.archive import make_test_entry

from danshari import open_archive
from tests.support.command_line import run_danshari


def test_the_archive_from_the_shell(tmp_path: Path) -> None:
    assert "no archive there" in run_danshari("archive", "stats", DANSHARI_DATA=tmp_path).stderr
    with open_archive(tmp_path / "archive.db") as archive:
        archive.put([make_test_entry(n) for n in range(5)])
    found = json.loads(run_danshari("recall", "run_3", "--json", DANSHARI_DATA=tmp_path).stdout)
    assert found[0]["id"] == make_test_entry(3).id
    assert (
        run_danshari("archive", "show", make_test_entry(3).id, DANSHARI_DATA=tmp_path).stdout == make_test_entry(3).text
    )
    assert make_test_entry(3).text in run_danshari("recall", make_test_entry(3).id, DANSHARI_DATA=tmp_path).stdout
    assert run_danshari("recall", "zebra", DANSHARI_DATA=tmp_path).returncode == 1
    assert json.loads(run_danshari("archive", "stats", "--json", DANSHARI_DATA=tmp_path).stdout)["originals"] == 5
    assert "all well" in run_danshari("archive", "verify", DANSHARI_DATA=tmp_path).stdout
    assert run_danshari("archive", "export", str(tmp_path / "out.jsonl"), DANSHARI_DATA=tmp_path).returncode == 0
    done = run_danshari(
        "archive", "import", str(tmp_path / "out.jsonl"), "--archive", str(tmp_path / "b.db"), DANSHARI_DATA=tmp_path
    )
    assert "5 originals read" in done.stderr
    assert "give TIER=N" in run_danshari("archive", "expire", "--days", "nonsense=1", DANSHARI_DATA=tmp_path).stderr
    assert (
        "5 originals"
        in run_danshari("archive", "expire", "--megabytes", "0.000001", "--dry-run", DANSHARI_DATA=tmp_path).stdout
    )
