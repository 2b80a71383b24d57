"""Ctrl-C in a run over many sessions: the run ends, and its worker processes with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE, wait_until

SCRIPT = """
import os, sys, threading
from pathlib import Path
from danshari.cli.shared.common import run_jobs

def work(job):
    Path(sys.argv[1], str(os.getpid())).touch()
    threading.Event().wait()

if __name__ == "__main__":
    run_jobs(work, list(range(8)), "waiting")
"""


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _hear_interrupts() -> None:
    """Take Ctrl-C as a terminal's child does, also where the tests themselves run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupted_run_leaves_no_process_behind(tmp_path: Path) -> None:
    script, started = tmp_path / "script.py", tmp_path / "started"
    script.write_text(SCRIPT, "utf-8")
    started.mkdir()
    line = [sys.executable, script, started]
    with subprocess.Popen(line, stderr=subprocess.PIPE, preexec_fn=_hear_interrupts) as run:
        wait_until(lambda: list(started.iterdir()))
        run.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in run.communicate(timeout=PATIENCE)[1]
    assert run.returncode == -signal.SIGINT
    wait_until(lambda: not any(lives(int(path.name)) for path in started.iterdir()))
