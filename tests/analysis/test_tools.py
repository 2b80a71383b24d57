"""The kinds of people's tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from danshari import data
from tests.support.command_line import SESSION, run_danshari


def test_tool_kinds_of_the_agents_people_use() -> None:
    tools = data.load_tools()
    kinds = {
        "Read": "read", "Grep": "search", "Glob": "list", "Edit": "edit", "Write": "write", "Bash": "run", "TodoWrite": "plan",
        "Skill": "skill", "Task": "agent", "exec_command": "run", "apply_patch": "edit", "open": "read", "find_file": "list",
        "search_dir": "search", "execute_bash": "run", "exec": "run", "read": "read", "web_search": "web", "process": "job",
        "mcp__files__read_file": "read", "frobnicate": "other",
    }  # fmt: skip
    assert {name: tools.find_row(name).kind for name in kinds} == kinds
    act = tools.parse_call("str_replace_editor", '{"command": "view", "path": "/a.py", "view_range": [5, 9]}')
    assert (act.kind, act.path, act.start, act.end) == ("read", "/a.py", 5, 9)
    assert tools.parse_call("str_replace_editor", '{"command": "str_replace", "path": "/a.py"}').kind == "edit"
    assert tools.parse_call("Read", '{"file_path": "/a.py", "offset": 10, "limit": 5}').end == 14


def run_with_table(folder: Path, file: str, text: str) -> subprocess.CompletedProcess[str]:
    """Replay a session with a user's table."""
    (folder / file).write_text(text)
    return run_danshari("replay", SESSION, "--no-rounds", DANSHARI_HOME=folder)


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("tools.toml", '[[tool]]\nmatch = "run_*"\nkind = "run"', "match = 'run_*'; must be a list of strings"),
        ("tools.toml", '[[tool]]\nmatch = ["x"]\nkind = "read"\npath = "file"', "path = 'file'; must be a list"),
        ("tools.toml", '[tool]\nmatch = ["run_*"]\nkind = "run"', "begin each row with [[tool]]"),
        ("tools.toml", 'tool = ["run_*"]', "begin each row with [[tool]]"),
        ("models.toml", '[[model]]\nmatch = "own-*"', "match = 'own-*'; must be a list of strings"),
        ("models.toml", '[model]\nmatch = ["own-*"]', "begin each row with [[model]]"),
    ],
)
def test_a_table_of_another_shape_is_refused(tmp_path: Path, file: str, text: str, said: str) -> None:
    done = run_with_table(tmp_path, file, text)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())
    assert f"{tmp_path / file}: " in "".join(done.stderr.splitlines())
    assert "Traceback" not in done.stderr
