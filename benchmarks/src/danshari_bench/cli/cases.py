"""`danshari bench cases`: run test cases made from public bug reports with their own runner."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from danshari.cli.shared.common import PATH_TYPE
from danshari.errors import SessionError


@click.command("cases")
@click.argument("folder", type=PATH_TYPE)
@click.option("--adapter", default="danshari_bench.cases:Session", show_default=True, help="MODULE:CLASS to grade.")
def cases_command(folder: Path, adapter: str) -> None:
    """Run the cases of FOLDER through its own `check_case.py`; its exit code becomes ours."""
    runner = folder / "check_case.py"
    cases = sorted(folder.glob("*.json"))
    if not runner.is_file() or not cases:
        raise SessionError(f"{folder}: needs check_case.py and cases (*.json) inside")
    done = subprocess.run([sys.executable, str(runner), *map(str, cases), "--adapter", adapter], check=False)
    sys.exit(done.returncode)
