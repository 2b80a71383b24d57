"""Writers that are killed, crowded, locked out or out of room."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from danshari_bench.load.archive import make_test_entry, run_concurrent_writers

from danshari import ArchiveError, Compactor
from danshari.archive import maintenance as keeping
from danshari.archive.sqlite import SqliteArchive
from danshari.testing import Call, Turn, conversation
from tests.support.archives import LOG, entry
from tests.support.command_line import ROOT
from tests.support.waiting import wait_until

WRITER = "tests.support.archive_writer"


def test_a_full_disk_commits_nothing_and_the_agent_goes_on(tmp_path: Path) -> None:
    archive = SqliteArchive(tmp_path / "a.db")
    archive._base.execute(f"PRAGMA max_page_count = {archive._base.execute('PRAGMA page_count').fetchone()[0] + 1}")
    stored_compactor = Compactor("balanced", archive=archive, session="s")
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make {n}"}, result=LOG + f"\n{n}" * 9000),))
        for n in range(3)
    ]
    messages = conversation("openai-chat", "go", turns)
    result = stored_compactor.compact(messages)
    assert "database or disk is full" in result.fault
    assert result.messages == messages
    archive._base.execute("PRAGMA max_page_count = 1000000")
    again = stored_compactor.compact(messages)
    assert again.ok
    assert again.edits


def test_a_locked_file_commits_nothing(tmp_path: Path) -> None:
    archive = SqliteArchive(tmp_path / "a.db", patience=0.05)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ArchiveError, match="locked"):
        archive.put([entry("one")])
    other.execute("ROLLBACK")
    archive.put([entry("one")])
    assert len(archive) == 1


def test_kills_at_random_moments_lose_nothing_that_was_committed(tmp_path: Path) -> None:
    """A writer is killed after so many batches, whatever it is doing then; twice before it has written any."""
    path, told, draw = tmp_path / "kill.db", tmp_path / "told", random.Random(11)
    told.touch()
    for number, batches in enumerate((0, 3, 1, draw.randrange(2, 12), 0, draw.randrange(2, 12))):
        before = told.stat().st_size
        with subprocess.Popen([sys.executable, "-m", WRITER, path, told, str(number * 100_000)], cwd=ROOT) as process:
            try:
                enough = before + 33 * 5 * batches
                wait_until(lambda enough=enough: told.stat().st_size >= enough and path.exists())
                assert process.poll() is None
            finally:
                process.kill()
    archive = SqliteArchive(path)
    digests = [line for line in told.read_text("ascii").split("\n") if len(line) == 32]
    assert len(digests) >= 5 * (3 + 1 + 2 + 2)
    assert [archive.get(digest).digest for digest in digests] == digests
    assert [*archive.notes, *keeping.verify_archive(archive)] == []
    archive.close()


def test_processes_and_threads_write_at_once(archive: SqliteArchive) -> None:
    found = run_concurrent_writers(4, 40)
    assert (found["written"], found["failed"], found["problems"]) == (160, 0, [])
    threads = [
        threading.Thread(target=lambda n=n: archive.put([make_test_entry(n * 100 + k) for k in range(30)]))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(archive) == 120
    assert multiprocessing.active_children() == []
