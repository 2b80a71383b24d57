"""Files that are damaged, foreign, older, newer, or in a folder that cannot be written."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from danshari_bench.load.archive import make_test_entry

from danshari import ArchiveError, VersionError
from danshari.archive import maintenance as keeping
from danshari.archive.sqlite import SqliteArchive
from tests.support.archives import entry
from tests.support.command_line import run_danshari


def test_a_file_that_is_no_archive_is_set_aside_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    for n in (1, 2):
        path.write_bytes(b"this is no database, but someone may need it " * 200)
        archive = SqliteArchive(path)
        archive.put([entry("fresh")])
        assert "set aside" in archive.notes[0]
        assert (tmp_path / f"archive.db.unreadable-{n}").read_bytes().startswith(b"this is no database")
        archive.close()


def test_bytes_that_changed_are_found(archive: SqliteArchive) -> None:
    one, two = entry("one word " * 50), entry("two words " * 50)
    archive.put([one, two])
    assert archive.path is not None
    other = sqlite3.connect(archive.path)
    other.execute("UPDATE text SET body = (SELECT body FROM text ORDER BY id LIMIT 1) WHERE id = 2")
    other.execute("DELETE FROM passage WHERE id = 1")
    other.commit()
    found = keeping.verify_archive(archive)
    assert any("its bytes changed" in problem for problem in found)
    assert any("not in the index" in problem for problem in found)
    other.execute("UPDATE text SET body = x'00' WHERE id = 2")
    other.commit()
    assert any("cannot be unpacked" in problem for problem in keeping.verify_archive(archive))
    with pytest.raises(ArchiveError):
        archive.get(two.digest)
    assert archive.search("words") == []


def test_a_page_damaged_under_an_open_archive_is_said_and_nothing_is_moved(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    archive = SqliteArchive(path)
    archive.put([make_test_entry(n) for n in range(400)])
    archive.close()
    with path.open("r+b") as file:
        for page in range(8, path.stat().st_size // 4096, 3):
            file.seek(4096 * page)
            file.write(b"\xff" * 4096)
    again = SqliteArchive(path)
    assert keeping.verify_archive(again) != []
    assert run_danshari("archive", "verify", "--archive", str(path), DANSHARI_DATA=tmp_path).returncode == 3
    assert (
        run_danshari(
            "archive", "export", str(tmp_path / "out"), "--archive", str(path), DANSHARI_DATA=tmp_path
        ).returncode
        == 1
    )
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.glob("*unreadable*")] == []


def test_a_closed_archive_is_no_damaged_one(tmp_path: Path) -> None:
    archive = SqliteArchive(tmp_path / "a.db")
    archive.put([entry("kept")])
    archive.close()
    with pytest.raises(ArchiveError, match="closed"):
        archive.get(entry("kept").digest)
    assert SqliteArchive(tmp_path / "a.db").get(entry("kept").digest).text == "kept"


def test_an_archive_of_format_2_is_brought_up(tmp_path: Path) -> None:
    """Format 2 kept the proxy's hops and branches among the sessions."""
    made = SqliteArchive(tmp_path / "a.db")
    for name in ("proxy-abc", "proxy-abc:recalls", "proxy-abc:branches", "mine:recalls"):
        assert made.save_session(name, 0, f"state of {name}", (), 0)
    made.close()
    base = sqlite3.connect(tmp_path / "a.db")
    base.executescript("DROP TABLE note; PRAGMA user_version = 2;")
    base.close()
    found = SqliteArchive(tmp_path / "a.db")
    assert sorted(row["session"] for row in found.sessions()) == ["mine:recalls", "proxy-abc"]
    assert found.load_note("proxy-abc", "recalls") == (1, "state of proxy-abc:recalls")
    assert found.load_note("proxy-abc", "branches") == (1, "state of proxy-abc:branches")
    assert found.save_note("proxy-abc", "branches", 1, "more")
    assert not found.save_note("proxy-abc", "branches", 1, "too late")
    assert found.load_note("proxy-abc", "branches") == (2, "more")
    assert found.load_note("proxy-abc", "nothing") == (0, "")


def test_an_archive_of_format_1_is_brought_up(tmp_path: Path) -> None:
    """Format 1 tied entries to texts by checksum."""
    made = SqliteArchive(tmp_path / "a.db")
    made.put(
        [entry(f"def parse_{n}(): ...", path=f"a{n}.py", session=f"s{n % 2}") for n in range(9)]
        + [entry("twice", session="a"), entry("twice", session="b")]
    )
    made.close()
    base = sqlite3.connect(tmp_path / "a.db")
    base.executescript("""
        ALTER TABLE entry ADD COLUMN sum TEXT NOT NULL DEFAULT '';
        UPDATE entry SET sum = (SELECT sum FROM text WHERE id = entry.text);
        DROP INDEX entry_text; ALTER TABLE entry DROP COLUMN text;
        CREATE INDEX entry_sum ON entry(sum); PRAGMA user_version = 1;""")
    base.close()
    found = SqliteArchive(tmp_path / "a.db")
    assert keeping.verify_archive(found) == []
    assert len(found) == 11
    assert found.search("parse_7")[0].entry.path == "a7.py"
    assert keeping.archive_statistics(found)["texts"] == 10
    found.put([entry("def later(): ...")])
    assert found.search("later")[0].text == "def later(): ..."


def test_a_newer_archive_is_refused(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "a.db")
    base.execute("PRAGMA user_version = 99")
    base.commit()
    with pytest.raises(VersionError, match="upgrade"):
        SqliteArchive(tmp_path / "a.db")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ArchiveError, match="cannot be"):
        SqliteArchive(tmp_path / "a.db")


def test_a_path_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be opened"):
        SqliteArchive(tmp_path)
