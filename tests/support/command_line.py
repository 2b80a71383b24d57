"""The command line as a user runs it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from danshari.cli.report import bundled_sessions

ROOT = Path(__file__).parent.parent.parent
SESSION = bundled_sessions()[0]


def run_danshari(*words: object, cwd: Path | None = None, **variables: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with these environment variables besides those of the test."""
    environment = {**os.environ, "COLUMNS": "160", **{name: str(value) for name, value in variables.items()}}
    command = [sys.executable, "-m", "danshari", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, cwd=cwd)
