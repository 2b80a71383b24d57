"""How many examples hypothesis draws: `DANSHARI_EXAMPLES` by default, 10,000 with `DANSHARI_LAWS=nightly`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def load_profile() -> None:
    """Register both profiles and load the one that the environment names."""
    examples = int(os.environ.get("DANSHARI_EXAMPLES", "40"))
    settings.register_profile(
        "default", max_examples=examples, deadline=None, suppress_health_check=_QUIET, derandomize=True
    )
    settings.register_profile("nightly", max_examples=10_000, deadline=None, suppress_health_check=_QUIET)
    settings.load_profile(os.environ.get("DANSHARI_LAWS", "default"))
