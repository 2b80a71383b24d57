"""The archive through forks, full disks, forged imports, long lines and neighbours' projects."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from danshari import Compactor
from danshari.archive import Archive, Entry, Filters, MemoryArchive
from danshari.archive.location import open_archive
from danshari.archive.maintenance import export_archive, import_archive, verify_archive
from danshari.archive.sqlite import SqliteArchive
from danshari.errors import ArchiveError, RecallError


def _entry(number: int, text: str, **fields: str) -> Entry:
    return Entry(digest=f"{number:032x}", text=text, **fields)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_parent_and_forked_children_write_one_archive(tmp_path: Path) -> None:
    with open_archive(tmp_path / "a.db") as archive:
        archive.put([_entry(1, "before the fork")])
        children = []
        for child in range(1, 4):
            if (pid := os.fork()) == 0:
                status = 1
                try:
                    for n in range(40):
                        archive.put([_entry(1000 * child + n, f"child {child} wrote {n}")])
                    status = 0 if archive.get(f"{1:032x}").text == "before the fork" else 2
                finally:
                    os._exit(status)
            children.append(pid)
        for n in range(40):
            archive.put([_entry(9000 + n, f"parent wrote {n}")])
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
        assert len(archive) == 161
        assert verify_archive(archive) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_closed_archive_stays_closed_after_a_fork(tmp_path: Path) -> None:
    archive = open_archive(tmp_path / "a.db")
    archive.close()
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    with pytest.raises(ArchiveError):
        len(archive)


def test_recall_answers_while_nothing_can_be_written(tmp_path: Path) -> None:
    rows = "\n".join(f"row {n} value {n * 7}" for n in range(900))
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command":"make"}'}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": rows},
    ]
    with open_archive(tmp_path / "a.db") as archive:
        compactor = Compactor("balanced", model="gpt-5", archive=archive, session="s", format="openai-chat")
        compactor.compact(messages)
        found = next(passage.entry for passage in archive.search("row"))
        archive.run_query(lambda base: base.execute("PRAGMA query_only = 1"))  # as a full disk: reads only
        assert compactor.recall(found.id)[0].text == rows
        assert "row 0 value 0" in compactor.run_recall("recall_read", {"id": found.id})


@given(st.text(max_size=200), st.text(max_size=200))
@settings(max_examples=40, deadline=None)
def test_an_import_never_changes_what_an_id_recalls(held: str, other: str) -> None:
    with SqliteArchive(":memory:") as archive:
        archive.put([_entry(7, held, session="a")])
        head, line = export_archive(archive)
        again = {**json.loads(line), "session": "b"}
        assert import_archive(archive, [head, json.dumps(again)]) == 1
        forged = json.dumps({**again, "text": f"not {held} {other}"})
        with pytest.raises(ArchiveError, match="line 2"):
            import_archive(archive, [head, forged])
        assert archive.get(f"{7:032x}").text == held


@given(st.integers(1, 6_000), st.data())
@settings(max_examples=15, deadline=None)
def test_every_word_of_one_long_line_is_found(count: int, data: st.DataObject) -> None:
    text = " ".join(f"name{n}x" for n in range(count))
    wanted = data.draw(st.integers(0, count - 1))
    with SqliteArchive(":memory:") as archive:
        archive.put([_entry(3, text)])
        assert [passage.entry.digest for passage in archive.search(f"name{wanted}x")] == [f"{3:032x}"]


@pytest.mark.parametrize("on_disk", [False, True])
@given(
    owners=st.lists(st.tuples(st.sampled_from(["", "s", "t"]), st.sampled_from(["", "p", "q"])), min_size=1, max_size=6)
)
@settings(max_examples=30, deadline=None)
def test_a_recall_stays_in_its_own_session_or_project(on_disk: bool, owners: list[tuple[str, str]]) -> None:
    entries = [_entry(n, f"common word{n}", session=s, project=p) for n, (s, p) in enumerate(owners, 1)]
    archive: Archive = SqliteArchive(":memory:") if on_disk else MemoryArchive()
    archive.put(entries)
    for name, project in (("", "p"), ("s", "p"), ("s", "")):
        compactor = Compactor(archive=archive, session=name, project=project)
        try:
            found = [passage.entry for passage in compactor.recall("common", limit=9)]
        except RecallError:
            found = []
        wanted = [e for e in entries if (e.session == name if name else e.project == project)]
        assert {e.digest for e in found} == {e.digest for e in wanted}
        within = Filters(session=name, project=project)
        reached = {entry.digest for entry in entries if _reaches(archive, entry, within)}
        owned = {e.digest for e in entries if (name and e.session == name) or (project and e.project == project)}
        assert reached == owned
        assert {entry.digest for entry in entries if within.scope_includes(entry)} == owned


def _reaches(archive: Archive, entry: Entry, within: Filters) -> bool:
    """Return whether an id is answered within these limits."""
    try:
        return archive.get(entry.digest, within=within).digest == entry.digest
    except RecallError:
        return False


@given(
    st.one_of(st.binary(max_size=60), st.sampled_from([b"{}", b"[]", b"null", b'{"session": {}}']).map(zlib.compress))
)
@settings(max_examples=40, deadline=None)
def test_a_damaged_session_starts_anew_beside_its_neighbours(body: bytes) -> None:
    with SqliteArchive(":memory:") as archive:
        for name in ("hit", "well"):
            assert archive.save_session(name, 0, "{}", [], 0)
        archive.run_query(lambda base: base.execute("UPDATE session SET body = ? WHERE id = 'hit'", (body,)))
        compactor = Compactor(archive=archive, session="hit", mode="replace", format="openai-chat")
        assert compactor._run.state.name == "hit~2"
        assert compactor.compact([{"role": "user", "content": "go"}]).messages == [{"role": "user", "content": "go"}]
        assert archive.session_version("hit~2") == 1
        assert archive.session_version("hit") == 1  # kept as it is
