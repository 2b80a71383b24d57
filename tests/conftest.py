"""Profiles and places: `DANSHARI_SESSIONS` names the folder of recorded sessions; tests that need it skip loudly."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
settings.register_profile(
    "default",
    max_examples=int(os.environ.get("DANSHARI_EXAMPLES", "40")),
    deadline=None,
    suppress_health_check=_QUIET,
    derandomize=True,
)
settings.register_profile("nightly", max_examples=10_000, deadline=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("DANSHARI_LAWS", "default"))

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with trajectories/, compactions/ and cases/; skips where there is none."""
    named = os.environ.get("DANSHARI_SESSIONS")
    for folder in [Path(named)] if named else [ROOT.parent / "shared"]:
        if (folder / "trajectories").is_dir():
            return folder
    pytest.skip("no recorded sessions: set DANSHARI_SESSIONS to a folder with trajectories/, compactions/ and cases/")
