"""The kinds of people's tools."""

from __future__ import annotations

from danshari import data


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
