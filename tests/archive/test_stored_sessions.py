"""Sessions that are stored in an archive and taken up by another process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from danshari import Compactor, SessionError, VersionError
from danshari.archive.sqlite import SqliteArchive
from tests.support.archives import make_rounds, stored_compactor


@pytest.mark.parametrize("cut", [1, 4, 9])
def test_a_session_taken_up_by_another_process_shows_the_same_bytes(tmp_path: Path, cut: int) -> None:
    alone = Compactor("repair", model="gpt-5", clock=lambda: 0.0)
    first = stored_compactor(tmp_path / "a.db")
    for n in range(1, cut + 1):
        first.compact(make_rounds(n))
        alone.compact(make_rounds(n))
    second = stored_compactor(tmp_path / "a.db")
    for n in range(cut + 1, 13):
        assert second.compact(make_rounds(n)).messages == alone.compact(make_rounds(n)).messages
    assert second.session.ledger == alone.session.ledger
    assert stored_compactor(tmp_path / "a.db").session.ledger == alone.session.ledger


def test_undo_pins_and_documents_are_taken_up(tmp_path: Path) -> None:
    first = stored_compactor(tmp_path / "a.db")
    first.compact(make_rounds(12))
    full = first.compact(make_rounds(12), force="full")
    assert full.handover is not None
    second = stored_compactor(tmp_path / "a.db")
    assert second.session.handover is not None
    assert second.session.handover.to_dict() == full.handover.to_dict()
    undone = first.undo().messages
    first.pin("make 3")
    third = stored_compactor(tmp_path / "a.db")
    assert third.session.ledger == first.session.ledger
    assert third.policy.pinned == first.policy.pinned
    assert third.compact(make_rounds(12)).messages == first.compact(make_rounds(12)).messages
    assert undone != full.messages
    with pytest.raises(SessionError, match="was kept in view mode"):
        stored_compactor(tmp_path / "a.db", mode="replace")


def test_two_processes_with_one_session_part_ways(tmp_path: Path) -> None:
    one, two = stored_compactor(tmp_path / "a.db"), stored_compactor(tmp_path / "a.db")
    one.compact(make_rounds(2))
    parted = two.compact(make_rounds(3))
    assert any("written by another process too: this one goes on as 's~2'" in note for note in parted.notes)
    assert not one.compact(make_rounds(4)).notes[1:]
    assert {row["session"] for row in SqliteArchive(tmp_path / "a.db").sessions()} == {"s", "s~2"}
    two.compact(make_rounds(12))
    assert "archived passages" in two.run_recall("recall_search", {"query": "worker-7"})
    assert not any("another process" in note for note in two.compact(make_rounds(12)).notes)


def test_a_stored_session_of_a_newer_danshari_is_refused(tmp_path: Path) -> None:
    stored_compactor(tmp_path / "a.db").compact(make_rounds(2))
    archive = SqliteArchive(tmp_path / "a.db")
    version, body, edits = archive.load_session("s")  # type: ignore[misc]
    state = {**json.loads(body), "danshari": 99}
    assert archive.save_session("s", version, json.dumps(state), [], len(edits))
    with pytest.raises(VersionError, match="upgrade"):
        stored_compactor(tmp_path / "a.db")
    assert archive.save_session("s", version + 1, '{"danshari": 1, "session": {}}', [], len(edits))
    assert (
        stored_compactor(tmp_path / "a.db")._run.state.name == "s~2"
    )  # damaged: it starts anew, beside the stored one
