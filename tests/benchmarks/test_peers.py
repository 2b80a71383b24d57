"""Peers in their processes: what they return, and what stops them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from danshari_bench.peers import PEERS, find_peer
from danshari_bench.peers.views import PeerWorker, make_peer_contender

from danshari.errors import ArgumentError
from tests.support.comparisons import contender_setting, toy_peer


def test_a_peer_runs_in_its_process_and_is_remembered(worker: PeerWorker) -> None:
    made = contender_setting()
    compact = make_peer_contender(toy_peer("honest")).start(made)
    views = [compact(made.needs.session.messages[: r.cut]) for r in made.needs.rounds]
    assert views[0] == made.needs.session.messages[:1]
    assert views[-1][1]["content"].startswith("[{'role'")
    assert len(made.calls) == len([v for v in views if len(v) == 2 and v[1]["role"] == "user"])
    worker.stop()
    worker._python = "/nowhere/python"
    again = contender_setting()
    assert make_peer_contender(toy_peer("honest")).start(again)([]) == views[0]  # from the store: no process was needed


def test_a_crash_is_noted_and_the_rest_goes_on(worker: PeerWorker) -> None:
    made = contender_setting()
    make_peer_contender(toy_peer("crash")).start(made)
    assert made.faults == ["request 3: ValueError: no idea", "request 6: ValueError: no idea"]


@pytest.mark.parametrize(
    ("start", "said"),
    [("die", "the process ended"), ("calls_home", "OSError"), ("nothing_of_the_kind", "AttributeError")],
)
def test_what_stops_a_peer_is_said(worker: PeerWorker, start: str, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        make_peer_contender(toy_peer(start)).start(contender_setting())


def test_a_hanging_peer_meets_its_time_limit(worker: PeerWorker) -> None:
    worker.limit = 1.5
    with pytest.raises(RuntimeError, match="time limit"):
        make_peer_contender(toy_peer("hang")).start(contender_setting())
    worker.limit = 15
    assert make_peer_contender(toy_peer("chatter")).start(contender_setting())(
        []
    )  # a new process answers, whatever it prints


def test_garbage_instead_of_an_answer(tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nread line\necho 'not json'\n", encoding="utf-8")
    script.chmod(0o755)
    made = PeerWorker(script, limit=10)
    assert "garbage" in made.ask({"module": "x"})["broken"]
    made.stop()


def test_a_peer_that_writes_into_its_input_harms_nobody(worker: PeerWorker) -> None:
    made = contender_setting()
    before = json.dumps(made.needs.session.messages)
    view = make_peer_contender(toy_peer("changes_its_input")).start(made)([])
    assert view[0]["content"] == "gone"
    assert json.dumps(made.needs.session.messages) == before


def test_peer_rows() -> None:
    assert len({p.name for p in PEERS}) == len(PEERS) >= 8
    assert all(p.requires and "==" in p.requires[0] for p in PEERS)
    with pytest.raises(ArgumentError, match="known: langchain-clear"):
        find_peer("nobody")
