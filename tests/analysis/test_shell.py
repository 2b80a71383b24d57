"""Shell lines and what they do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari.analysis.shell import ShellAction, parse_shell_line


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat src/a.py", ShellAction("read", "src/a.py")),
        ("cd /repo && cat src/a.py", ShellAction("read", "src/a.py", folder="/repo")),
        ("cat >> a.py <<EOF", ShellAction("edit", "a.py")),
        ("tail -5 a.txt", ShellAction("read", "a.txt", exact=False)),
        ("cat a.txt | wc -l", ShellAction("read", "a.txt", exact=False)),
        ("sed -n '1,20p;50,60p' a.py", ShellAction("read", "a.py", exact=False)),
        ("sed -n '10,40p' src/a.py", ShellAction("read", "src/a.py", 10, 40)),
        ("nl -ba src/a.py | sed -n '1,240p'", ShellAction("read", "src/a.py", 1, 240)),
        ("head -50 a.txt", ShellAction("read", "a.txt", 1, 50)),
        ("head -n 50 a.txt", ShellAction("read", "a.txt", 1, 50)),
        ("tail -n +20 a.txt", ShellAction("read", "a.txt", 20, 0)),
        ("cat a.py | grep foo", ShellAction("search")),
        ("grep -rn foo src", ShellAction("search")),
        ("git grep foo", ShellAction("search")),
        ("ls -la; ls src", ShellAction("list")),
        ("find . -name '*.py'", ShellAction("list")),
        ("cat > a.py <<'EOF'\nx = 1\nEOF", ShellAction("write", "a.py")),
        ("pytest -q", ShellAction("run")),
        ("cat a.py && pytest", ShellAction("run")),
        ("echo 'unclosed", ShellAction("run")),
        ("", ShellAction("run")),
        ("sed -i s/a/b/ x.py", ShellAction("run")),
    ],
)
def test_shell_lines(command: str, expected: ShellAction) -> None:
    assert parse_shell_line(command) == expected


@given(st.text(max_size=300))
def test_any_shell_line_is_understood_somehow(command: str) -> None:
    assert parse_shell_line(command).kind in ("read", "search", "list", "write", "run")
