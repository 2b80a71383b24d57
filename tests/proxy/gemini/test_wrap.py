"""Google's SDK and Gemini CLI behind `danshari wrap`."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from danshari_bench.load.traffic import serve_app

from danshari.testing import Call, Turn
from danshari.testing.fake_provider import ScriptedUpstream
from tests.support.command_line import run_danshari
from tests.support.gemini import (
    LONG,
    MODEL,
)
from tests.support.recalls import RECALL


def test_wrap_points_the_sdk_at_the_proxy(tmp_path: Path) -> None:
    """A program on Google's SDK, told by its environment alone; the proxy goes where it was sent before."""
    program = tmp_path / "agent.py"
    program.write_text(
        "from google import genai\n"
        "client = genai.Client(api_key='k')\n"
        f"print(client.models.generate_content(model='{MODEL}', contents='hi').text)\n"
    )
    upstream = ScriptedUpstream(lambda asked: Turn(text="hello"), record=True)
    with serve_app(upstream) as there:
        done = run_danshari("wrap", "--archive", ":memory:", "--", "python", program, GOOGLE_GEMINI_BASE_URL=there,
                            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # fmt: skip
    assert done.stdout == "hello\n", done.stderr
    assert "1 requests" in done.stderr
    assert len(upstream.requests) == 1


BIN = Path(os.environ.get("DANSHARI_NODE_MODULES") or "no_such_folder").resolve() / ".bin"


@pytest.mark.skipif(
    not (BIN / "gemini").exists() and shutil.which("gemini") is None,
    reason="install @google/gemini-cli and set DANSHARI_NODE_MODULES to its node_modules",
)
def test_wrap_runs_gemini_cli(tmp_path: Path) -> None:
    """The agent runs its own tools; a hidden recall among its turns leaves no trace in what it prints."""
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    (home / ".gemini").mkdir(parents=True)
    (folder / "notes.txt").write_text(LONG)
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    (home / ".gemini/settings.json").write_text(json.dumps(chosen))
    looks = [
        Call(name="run_shell_command", arguments={"command": f"cat notes.txt; echo {n}", "description": "Look."})
        for n in range(7)
    ]
    read = Call(name="read_file", arguments={"file_path": str(folder / "notes.txt")})
    turns = [Turn(text="Step 1.", calls=(looks[0], read)), Turn(text="Hm.", calls=(RECALL,)),
             *[Turn(calls=(look,)) for look in looks[1:]], Turn(text="That is all.")]  # fmt: skip
    upstream = ScriptedUpstream(lambda asked: turns.pop(0), record=True)
    with serve_app(upstream) as there:
        done = run_danshari("wrap", "--archive", ":memory:", "--", "gemini", "--yolo", "-m", MODEL, "-p", "Look around.",
                            HOME=home, PATH=f"{BIN}:{os.environ['PATH']}", GOOGLE_GEMINI_BASE_URL=there,
                            GEMINI_API_KEY="none", GEMINI_CLI_TRUST_WORKSPACE="true", GEMINI_CLI_NO_RELAUNCH="1",
                            cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "That is all." in done.stdout
    assert "recall" not in done.stdout
    assert upstream.bills[""].refused == 0
    assert len(upstream.requests) == 9, "one of them after the recall"
    found = re.search(r"8 requests, ([\d,]+) → ([\d,]+) input tokens .* (\d+) edits, 0 faults", done.stderr)
    assert found, done.stderr
    before, after, edits = (int(group.replace(",", "")) for group in found.groups())
    assert edits > 0
    assert before > after
