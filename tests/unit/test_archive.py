"""The archive on disk: bytes, search in every kind of query, damage, crowding, expiry, sessions."""

from __future__ import annotations

import json
import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from danshari_bench.load.archive import kill_writers, make_test_entry, run_concurrent_writers
from hypothesis import given
from hypothesis import strategies as st

from danshari import (
    ArchiveError,
    Compactor,
    Entry,
    Filters,
    RecallError,
    SessionError,
    VersionError,
    data,
    open_archive,
)
from danshari.archive import MemoryArchive
from danshari.archive import maintenance as keeping
from danshari.archive.sqlite import SqliteArchive
from danshari.archive.words import index_words
from danshari.core.items import Digest, hash_strings
from danshari.testing import Call, Turn, conversation

LOG = "\n".join(f"2026-03-01 INFO worker-{n} took {n}ms" for n in range(200))


def entry(text: str, **fields: object) -> Entry:
    return Entry(digest=Digest(hash_strings(text)), text=text, **fields)  # type: ignore[arg-type]


@pytest.fixture
def archive(tmp_path: Path) -> SqliteArchive:
    return SqliteArchive(tmp_path / "deep" / "archive.db", clock=lambda: 1000.0)


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.text(max_size=300), max_size=8))
def test_every_original_comes_back_byte_for_byte(texts: list[str]) -> None:
    archive = SqliteArchive(":memory:")
    entries = [entry(text, turn=n) for n, text in enumerate(dict.fromkeys(texts))]
    archive.put(entries)
    archive.put(entries)
    assert len(archive) == len(entries)
    for e in entries:
        assert replace(archive.get(e.digest), at=0.0) == e
        assert archive.get(e.digest[:20]).text == e.text
    assert keeping.verify_archive(archive) == []


def test_half_surrogates_binary_and_a_hundred_megabytes(archive: SqliteArchive) -> None:
    odd = entry("half \ud83d of an emoji \x00\x1b[31m \udcff")
    big = entry("x" * 20 + "\n" + "0123456789" * 10_000_000)
    archive.put([odd, big])
    assert archive.get(odd.digest).text == odd.text
    assert archive.get(big.digest).text == big.text
    assert keeping.verify_archive(archive) == []


def test_ids_that_fit_none_or_several(archive: SqliteArchive) -> None:
    archive.put(
        [Entry(digest=Digest("abcdef" + "0" * 26), text="a"), Entry(digest=Digest("abcdef" + "1" * 26), text="b")]
    )
    with pytest.raises(RecallError, match="2 entries begin so"):
        archive.get("abcdef")
    with pytest.raises(RecallError, match="no entry begins so"):
        archive.get("abc")
    assert archive.get("abcdef1").text == "b"


def test_only_its_owner_may_read_it(archive: SqliteArchive) -> None:
    assert archive.path is not None
    if os.name == "posix":
        assert stat.S_IMODE(archive.path.stat().st_mode) == 0o600


# ── search ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(alphabet=st.sampled_from("abcXYZ_0189.-压缩修复 \n/"), max_size=60))
def test_whatever_word_stands_in_a_text_finds_it(text: str) -> None:
    held = set(index_words(text))
    for word in text.split():
        assert set(index_words(word)) <= held


def test_identifiers_paths_commands_numbers_and_chinese(archive: SqliteArchive) -> None:
    archive.put([
        entry("def parse_ledger_total(entries):\n    return sum(entries)", name="Read", path="src/app/ledger.py"),
        entry("class HandleRequestRetry:\n    limit = 77123", name="Read", path="src/app/retry.py"),
        entry("3 failed: expected 9f31 got 77ab", name="Bash", label='{"command": "pytest -q tests/test_ledger.py"}'),
        entry("第三步：核对回执编号，失败后重试", name="Read", path="docs/设计.md"),
        entry("nothing to see here", name="Read", path="src/other.py"),
    ])  # fmt: skip
    for query, wanted in {
        "parse_ledger_total": "src/app/ledger.py", "ledger total": "src/app/ledger.py", "src/app/retry.py": "src/app/retry.py",
        "handle request": "src/app/retry.py", "77123": "src/app/retry.py", "核对回执": "docs/设计.md", "重试": "docs/设计.md",
    }.items():  # fmt: skip
        assert archive.search(query)[0].entry.path == wanted, query
    assert archive.search("pytest tests/test_ledger.py")[0].entry.name == "Bash"
    assert archive.search("zebra") == []
    assert archive.search("") == []
    assert archive.search("' OR \" NEAR( ) * ^ -") == []


def test_passages_filters_and_what_is_newer(archive: SqliteArchive) -> None:
    long = "\n".join(f"line {n} of plain words" for n in range(200)) + "\nneedle_here\nend"
    archive.put([
        entry(long, path="a.py", session="s1", turn=3, tier="process"),
        entry(long + "\nchanged", path="a.py", session="s1", turn=9, tier="evidence"),
        entry("needle_here failed", session="s2", project="p", failed=True),
    ])  # fmt: skip
    found = archive.search("needle_here", filters=Filters(session="s1"), limit=9)
    assert {p.entry.turn for p in found} == {3, 9}
    first = next(p for p in found if p.entry.turn == 3)
    assert first.start == 201
    assert "needle_here" in first.text
    assert first.newer == found[0].entry.id or first.newer == found[1].entry.id
    assert [p.entry.session for p in archive.search("needle_here", filters=Filters(failed=True))] == ["s2"]
    assert archive.search("needle_here", filters=Filters(project="q")) == []
    assert [p.entry.turn for p in archive.search("needle_here", filters=Filters(path="a.p", tier="evidence"))] == [9]


def test_the_archive_in_memory_searches_as_the_one_on_disk_does(archive: SqliteArchive) -> None:
    entries = [make_test_entry(n) for n in range(60)]
    memory = MemoryArchive(entries[:30])
    memory.search("ledger")
    memory.put(entries[30:])
    archive.put(entries)
    for query in ("run_41", "invoice mismatch", "mod7.py"):
        ours = [(p.entry.digest, p.start) for p in memory.search(query)]
        assert ours == [(p.entry.digest, p.start) for p in archive.search(query)], query


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
    assert danshari("archive", "verify", "--archive", str(path), where=tmp_path).returncode == 3
    assert danshari("archive", "export", str(tmp_path / "out"), "--archive", str(path), where=tmp_path).returncode == 1
    assert not (tmp_path / "out").exists()
    assert [p.name for p in tmp_path.glob("*unreadable*")] == []


def test_a_closed_archive_is_no_damaged_one(tmp_path: Path) -> None:
    archive = SqliteArchive(tmp_path / "a.db")
    archive.put([entry("kept")])
    archive.close()
    with pytest.raises(ArchiveError, match="closed"):
        archive.get(entry("kept").digest)
    assert SqliteArchive(tmp_path / "a.db").get(entry("kept").digest).text == "kept"


def test_masked_and_unmasked_originals_of_one_digest_stand_side_by_side(archive: SqliteArchive) -> None:
    digest = Digest("d" * 32)
    archive.put([Entry(digest=digest, text="key=[masked]\nplain", session="masks")])
    archive.put([Entry(digest=digest, text="key=sk-secret\nplain\nmore", session="does not")])
    assert archive.get(digest).text == "key=sk-secret\nplain\nmore"
    assert keeping.verify_archive(archive) == []
    assert keeping.expire(archive, now=1e12, most=1).entries == 2
    assert keeping.verify_archive(archive) == []
    assert len(archive) == 0


def test_odd_labels_paths_and_numbers_are_stored(archive: SqliteArchive) -> None:
    archive.put([entry("odd", label="half \ud83d", path="a\udcff.py", start=10**30, turn=-(10**30))])
    assert archive.get(entry("odd").digest).path == "a?.py"
    assert MemoryArchive([entry("odd", label="half \ud83d")]).search("odd")


def test_filters_reach_beyond_the_best_matches(archive: SqliteArchive) -> None:
    archive.put([entry(f"make ledger total {n}", path=f"a{n}.py", turn=n) for n in range(300)])
    archive.put([entry("make ledger total failed here", path="src/x.py", failed=True)])
    assert [p.entry.failed for p in archive.search("make ledger total", filters=Filters(failed=True))] == [True]
    assert archive.search("make ledger total", filters=Filters(path="src/x"))[0].entry.path == "src/x.py"


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


def test_a_full_disk_commits_nothing_and_the_agent_goes_on(tmp_path: Path) -> None:
    archive = SqliteArchive(tmp_path / "a.db")
    archive._base.execute(f"PRAGMA max_page_count = {archive._base.execute('PRAGMA page_count').fetchone()[0] + 1}")
    engine = Compactor("balanced", archive=archive, session="s")
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make {n}"}, result=LOG + f"\n{n}" * 9000),))
        for n in range(3)
    ]
    messages = conversation("openai-chat", "go", turns)
    result = engine.compact(messages)
    assert "database or disk is full" in result.fault
    assert result.messages == messages
    archive._base.execute("PRAGMA max_page_count = 1000000")
    again = engine.compact(messages)
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


def test_kills_at_random_moments_lose_nothing_that_was_committed() -> None:
    found = kill_writers(6, lambda n: None)
    assert found["committed"] > 0
    assert (found["missing"], found["problems"]) == (0, [])


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


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_expiry_by_days_rounds_and_size_spares_what_is_pinned(archive: SqliteArchive) -> None:
    day = 86_400.0
    archive.put([
        entry("old transient", tier="transient", at=1.0, session="a"),
        entry("old pinned", tier="transient", at=1.0, pinned=True, session="a"),
        entry("new transient", tier="transient", at=20 * day, session="a"),
        entry("spared", tier="transient", at=1.0, session="live"),
        entry("early evidence", tier="evidence", at=20 * day, turn=1, session="b"),
        entry("late evidence" * 9, tier="evidence", at=20 * day, turn=90, session="b"),
    ])  # fmt: skip
    plan = {"now": 21 * day, "spare": ["live"], "rounds": {"evidence": 50}}
    told = keeping.expire(archive, **plan, dry_run=True)
    assert told.entries == 2
    assert len(archive) == 6
    assert keeping.expire(archive, **plan) == told
    assert archive.search("early") == []
    assert archive.search("pinned")
    keeping.expire(archive, now=21 * day, most=1)
    assert {e["text"] for e in map(json.loads, list(keeping.export_archive(archive))[1:])} == {"old pinned"}
    assert keeping.verify_archive(archive) == []


@given(st.lists(st.text(max_size=80), min_size=1, max_size=6))
def test_an_export_taken_in_is_the_same_archive(texts: list[str]) -> None:
    one, other = SqliteArchive(":memory:", clock=lambda: 5.0), SqliteArchive(":memory:")
    one.put(entry(text, session=f"s{n % 2}", turn=n) for n, text in enumerate(dict.fromkeys(texts)))
    lines = list(keeping.export_archive(one))
    assert keeping.import_archive(other, lines) == len(one)
    assert list(keeping.export_archive(other)) == lines
    with pytest.raises(ArchiveError, match="line 1 is no line of an export"):
        keeping.import_archive(other, ["{}"])


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def talk(rounds: int) -> list[object]:
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"make {n}"}, result=LOG + f"\n{n}"),))
        for n in range(rounds)
    ]
    return conversation("openai-chat", "go", turns)


def engine(path: Path, **options: object) -> Compactor:
    return Compactor("repair", model="gpt-5", archive=SqliteArchive(path), session="s", clock=lambda: 0.0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_a_session_taken_up_by_another_process_shows_the_same_bytes(tmp_path: Path, cut: int) -> None:
    alone = Compactor("repair", model="gpt-5", clock=lambda: 0.0)
    first = engine(tmp_path / "a.db")
    for n in range(1, cut + 1):
        first.compact(talk(n))
        alone.compact(talk(n))
    second = engine(tmp_path / "a.db")
    for n in range(cut + 1, 13):
        assert second.compact(talk(n)).messages == alone.compact(talk(n)).messages
    assert second.session.ledger == alone.session.ledger
    assert engine(tmp_path / "a.db").session.ledger == alone.session.ledger


def test_undo_pins_and_documents_are_taken_up(tmp_path: Path) -> None:
    first = engine(tmp_path / "a.db")
    first.compact(talk(12))
    full = first.compact(talk(12), force="full")
    assert full.handover is not None
    second = engine(tmp_path / "a.db")
    assert second.session.handover is not None
    assert second.session.handover.to_dict() == full.handover.to_dict()
    undone = first.undo().messages
    first.pin("make 3")
    third = engine(tmp_path / "a.db")
    assert third.session.ledger == first.session.ledger
    assert third.policy.pinned == first.policy.pinned
    assert third.compact(talk(12)).messages == first.compact(talk(12)).messages
    assert undone != full.messages
    with pytest.raises(SessionError, match="was kept in view mode"):
        engine(tmp_path / "a.db", mode="replace")


def test_two_processes_with_one_session_part_ways(tmp_path: Path) -> None:
    one, two = engine(tmp_path / "a.db"), engine(tmp_path / "a.db")
    one.compact(talk(2))
    parted = two.compact(talk(3))
    assert any("written by another process too: this one goes on as 's~2'" in note for note in parted.notes)
    assert not one.compact(talk(4)).notes[1:]
    assert {row["session"] for row in SqliteArchive(tmp_path / "a.db").sessions()} == {"s", "s~2"}
    two.compact(talk(12))
    assert "archived passages" in two.run_recall("recall_search", {"query": "worker-7"})
    assert not any("another process" in note for note in two.compact(talk(12)).notes)


def test_secrets_are_masked_before_they_are_stored_where_the_policy_says_so(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2" * 12
    call = Call(name="Bash", arguments={"command": "env"}, result=f"ANTHROPIC_API_KEY={key}\n" + LOG)
    messages = conversation("openai-chat", "go", [Turn(calls=(call,))])
    for masks in (False, True):
        archive = SqliteArchive(tmp_path / f"{masks}.db")
        policy = replace(data.load_policy("balanced"), mask_archive=masks)
        Compactor(policy, archive=archive).compact(messages)
        (stored,) = [json.loads(line)["text"] for line in list(keeping.export_archive(archive))[1:]]
        assert (key in stored) is not masks


def test_a_stored_session_of_a_newer_danshari_is_refused(tmp_path: Path) -> None:
    engine(tmp_path / "a.db").compact(talk(2))
    archive = SqliteArchive(tmp_path / "a.db")
    version, body, edits = archive.load_session("s")  # type: ignore[misc]
    state = {**json.loads(body), "danshari": 99}
    assert archive.save_session("s", version, json.dumps(state), [], len(edits))
    with pytest.raises(VersionError, match="upgrade"):
        engine(tmp_path / "a.db")
    assert archive.save_session("s", version + 1, '{"danshari": 1, "session": {}}', [], len(edits))
    with pytest.raises(SessionError, match="no saved danshari session"):
        engine(tmp_path / "a.db")


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────────


def danshari(*words: str, where: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DANSHARI_DATA": str(where), "COLUMNS": "120"}
    return subprocess.run([sys.executable, "-m", "danshari", *words], capture_output=True, text=True, env=env)


def test_the_archive_from_the_shell(tmp_path: Path) -> None:
    assert "no archive there" in danshari("archive", "stats", where=tmp_path).stderr
    with open_archive(tmp_path / "archive.db") as archive:
        archive.put([make_test_entry(n) for n in range(5)])
    found = json.loads(danshari("recall", "run_3", "--json", where=tmp_path).stdout)
    assert found[0]["id"] == make_test_entry(3).id
    assert danshari("archive", "show", make_test_entry(3).id, where=tmp_path).stdout == make_test_entry(3).text
    assert make_test_entry(3).text in danshari("recall", make_test_entry(3).id, where=tmp_path).stdout
    assert danshari("recall", "zebra", where=tmp_path).returncode == 1
    assert json.loads(danshari("archive", "stats", "--json", where=tmp_path).stdout)["originals"] == 5
    assert "all well" in danshari("archive", "verify", where=tmp_path).stdout
    assert danshari("archive", "export", str(tmp_path / "out.jsonl"), where=tmp_path).returncode == 0
    done = danshari(
        "archive", "import", str(tmp_path / "out.jsonl"), "--archive", str(tmp_path / "b.db"), where=tmp_path
    )
    assert "5 originals read" in done.stderr
    assert "give TIER=N" in danshari("archive", "expire", "--days", "nonsense=1", where=tmp_path).stderr
    assert "5 originals" in danshari("archive", "expire", "--megabytes", "0.000001", "--dry-run", where=tmp_path).stdout


def test_bench_archive_prints_what_it_measured(tmp_path: Path) -> None:
    done = danshari(
        "bench", "archive", "--entries", "300", "--kills", "2", "--processes", "2", "--json", where=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["load"]["exact_found"] == [50, 50]
    assert found["kills"]["missing"] == 0
