"""An archive on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from danshari.archive.sqlite import SqliteArchive


@pytest.fixture
def archive(tmp_path: Path) -> SqliteArchive:
    return SqliteArchive(tmp_path / "deep" / "archive.db", clock=lambda: 1000.0)
