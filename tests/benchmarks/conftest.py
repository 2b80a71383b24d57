"""A cache of the test's own, and a worker that can see the toy peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from danshari_bench.peers.views import PeerWorker


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DANSHARI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A worker that can see the toys; its time limit is short."""
    import sys

    import danshari_bench.peers.views as views

    made = PeerWorker(sys.executable, limit=15)
    root = str(Path(__file__).parent.parent.parent)
    monkeypatch.setattr(views, "EXTRA_FOLDERS", (root,))
    monkeypatch.setitem(views._workers, sys.executable, made)
    yield made
    made.stop()
