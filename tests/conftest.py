"""The folder of recorded sessions, `DANSHARI_SESSIONS`; tests that need it skip loudly where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command_line import ROOT
from tests.support.profiles import load_profile

load_profile()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with trajectories/, compactions/ and cases/; skips where there is none."""
    named = os.environ.get("DANSHARI_SESSIONS")
    for folder in [Path(named)] if named else [ROOT.parent / "shared"]:
        if (folder / "trajectories").is_dir():
            return folder
    pytest.skip("no recorded sessions: set DANSHARI_SESSIONS to a folder with trajectories/, compactions/ and cases/")
