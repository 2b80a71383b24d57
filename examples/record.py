"""Record the example sessions: real tools (reads, searches, edits, tests) over a copy of `shop/`, scripted decisions.

    python examples/record.py OUT_DIR

Paths and timings are made equal for everyone; everything else is what the tools printed.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
from fixes import FIXES, Fix

from danshari.testing import Call, Turn, conversation

SHOP = Path(__file__).resolve().parent / "shop"
MODULES = ("money", "catalog", "inventory", "pricing", "orders", "ledger", "reports", "storage", "cli")


class Host:
    """The tools of an agent, working in a copy of the code base."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp()) / "shop"
        shutil.copytree(SHOP, self.root, ignore=shutil.ignore_patterns("__pycache__"))

    def run(self, command: str) -> tuple[str, bool]:
        """Run a shell command; give its output and whether it failed."""
        command = command.replace("python ", f"{sys.executable} ", 1) if command.startswith("python ") else command
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            capture_output=True,
            text=True,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        )
        text = done.stdout + done.stderr
        text = text.replace(str(self.root), "/repo").replace(sys.executable, "python")
        text = re.sub(r"in \d+\.\d+s", "in 0.010s", text)
        text = re.sub(r"(?m)^(drwx|-rw).{10,60}(\d\d:\d\d|20\d\d) ", r"\1r--r-- 1 dev dev 2026-03-14 ", text)
        return (text.rstrip("\n") or "(no output)") + (
            f"\nexit code {done.returncode}" if done.returncode else ""
        ), bool(done.returncode)

    def read(self, path: str, first: int = 1, count: int | None = None) -> str:
        """Read a file with line numbers."""
        lines = (self.root / path).read_text(encoding="utf-8").splitlines()
        chosen = lines[first - 1 : None if count is None else first - 1 + count]
        return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(chosen, first))

    def edit(self, path: str, old: str, new: str) -> str:
        """Replace one text; it must stand in the file exactly once."""
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise RuntimeError(f"{path}: the old text stands {text.count(old)} times")
        file.write_text(text.replace(old, new), encoding="utf-8")
        at = text[: text.index(old)].count("\n") + 1
        return f"The file {path} has been updated. Here is the part around the edit:\n" + self.read(
            path, max(at - 3, 1), 10
        )

    def line_of(self, path: str, symbol: str) -> int:
        """Find the line a symbol stands on."""
        lines = (self.root / path).read_text(encoding="utf-8").splitlines()
        return next((n for n, line in enumerate(lines, 1) if symbol in line), 1)


class Agent:
    """Tool names and arguments as one family of agents spells them."""

    def __init__(self, host: Host, style: str) -> None:
        self.host, self.style = host, style

    def bash(self, command: str) -> Call:
        """Run a command."""
        text, failed = self.host.run(command)
        name, key = {"claude": ("Bash", "command"), "codex": ("exec_command", "cmd"), "pi": ("bash", "command")}[
            self.style
        ]
        return Call(name=name, arguments={key: command}, result=text, failed=failed)

    def read(self, path: str, first: int = 1, count: int | None = None) -> Call:
        """Read a file, whole or in part."""
        if self.style == "codex":
            span = f"{first},{first + count - 1}p" if count else "1,400p"
            return self.bash(f"sed -n '{span}' {path}")
        text = self.host.read(path, first, count)
        span_arguments = {} if count is None else {"offset": first, "limit": count}
        if self.style == "claude":
            return Call(name="Read", arguments={"file_path": f"/repo/{path}", **span_arguments}, result=text)
        return Call(name="read", arguments={"path": path, **span_arguments}, result=text)

    def grep(self, pattern: str) -> Call:
        """Search the code base."""
        command = f"grep -rn --include=*.py -F {json.dumps(pattern)} shop tests"
        if self.style != "claude":
            return self.bash(command)
        text, _ = self.host.run(command)
        return Call(
            name="Grep",
            arguments={"pattern": pattern, "path": "/repo", "output_mode": "content", "-n": True},
            result=text,
        )

    def edit(self, path: str, old: str, new: str) -> Call:
        """Edit a file."""
        text = self.host.edit(path, old, new)
        if self.style == "claude":
            return Call(
                name="Edit", arguments={"file_path": f"/repo/{path}", "old_string": old, "new_string": new}, result=text
            )
        if self.style == "pi":
            return Call(name="edit", arguments={"path": path, "edits": [{"oldText": old, "newText": new}]}, result=text)
        return Call(
            name="str_replace_editor",
            result=text,
            arguments={"command": "str_replace", "path": path, "old_str": old, "new_str": new},
        )

    def todo(self, done: int, fixes: list[Fix]) -> Call:
        """Write the list of what is left."""
        items = [
            {"content": f"{fix.test.rsplit('.', 1)[-1]}: {fix.path}", "status": "completed" if n < done else "pending"}
            for n, fix in enumerate(fixes)
        ]
        name, key = ("update_plan", "plan") if self.style == "codex" else ("TodoWrite", "todos")
        return Call(name=name, arguments={key: items}, result="Todos have been modified successfully.")


def steps(agent: Agent, fixes: list[Fix], chinese: bool) -> Iterator[Turn]:
    """Give the turns of one session: explore, then mend one bug after the other, then verify."""
    yield Turn(
        text="我先看一下目录和测试结果。" if chinese else "First the layout and the tests.",
        calls=(agent.bash("ls -la . shop tests"),),
    )
    yield Turn(calls=(agent.bash("python -m unittest discover -s tests -v"),))
    yield Turn(
        text="接下来通读代码。" if chinese else "Now I read the code.",
        calls=tuple(agent.read(f"shop/{m}.py") for m in MODULES[:3]),
    )
    yield Turn(calls=tuple(agent.read(f"shop/{m}.py") for m in MODULES[3:6]))
    yield Turn(calls=tuple(agent.read(f"shop/{m}.py") for m in MODULES[6:]))
    yield Turn(calls=(agent.read("tests/test_orders.py"), agent.read("tests/test_money.py")))
    yield Turn(calls=(agent.todo(0, fixes),))
    half = len(fixes) // 2
    for number, fix in enumerate(fixes):
        yield from mend(agent, fix, chinese)
        if number == half:
            user = (
                "很好，请继续；金额一律用分，不要改动公开接口。"
                if chinese
                else "Good, go on. Keep amounts in cents and public names as they are."
            )
            yield Turn(text="一半已经完成。" if chinese else "Half of it is done.", user=user)
            yield Turn(calls=(agent.todo(number + 1, fixes),))
    yield Turn(calls=(agent.bash("python -m unittest discover -s tests -v"), agent.grep("StockError")))
    yield Turn(
        text="所有测试都通过了。" if chinese else "All tests pass.",
        user="谢谢，请总结一下。" if chinese else "Thanks. Summarise, please.",
    )


def mend(agent: Agent, fix: Fix, chinese: bool) -> Iterator[Turn]:
    """Give the turns of one repair: run the test, look, edit, run again."""
    yield Turn(calls=(agent.bash(f"python -m unittest -v {fix.test}"), agent.grep(fix.symbol)))
    line = agent.host.line_of(fix.path, fix.symbol)
    yield Turn(text=fix.zh if chinese else fix.why, calls=(agent.read(fix.path, max(line - 15, 1), 40),))
    yield Turn(calls=(agent.edit(fix.path, fix.old, fix.new),))
    yield Turn(calls=(agent.bash(f"python -m unittest -v {fix.test}"),))


SESSIONS = {
    "shop-anthropic": ("anthropic", "claude", False, 1),
    "shop-chat": ("openai-chat", "pi", False, -1),
    "shop-responses": ("openai-responses", "codex", False, 1),
    "shop-chat-zh": ("openai-chat", "pi", True, 1),
}
"""Name → (wire format, style of tools, Chinese, order of the fixes)."""


def record(name: str) -> dict[str, Any]:
    """Record one session."""
    wire, style, chinese, order = SESSIONS[name]
    host = Host()
    fixes = sorted(FIXES, key=lambda f: f.path) if style == "codex" else list(FIXES)
    if order < 0:  # other files first; edits of one file keep their order
        fixes.sort(key=lambda f: -MODULES.index(Path(f.path).stem))
    request = (
        "测试失败了。请找出并修复 shop 里的所有错误，每次只改一处，改完就运行测试。"
        if chinese
        else "The tests fail. Find and mend every bug in shop, one at a time, and run the tests after each."
    )
    system = (
        ""
        if wire == "anthropic"
        else ("你是一名编程助手。" if chinese else "You are a coding agent. The repository is at /repo.")
    )
    messages = conversation(wire, request, steps(Agent(host, style), fixes, chinese), system=system)
    key = "input" if wire == "openai-responses" else "messages"
    model = {"anthropic": "claude-opus-4-5", "openai-chat": "gpt-5", "openai-responses": "gpt-5-codex"}[wire]
    return {"model": model, key: messages}


def main() -> None:
    """Record all sessions into a folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else SHOP.parent.parent / "src/danshari/data/sessions"
    folder.mkdir(parents=True, exist_ok=True)
    for name in SESSIONS:
        session = record(name)
        path = folder / f"{name}.json"
        path.write_text(json.dumps(session, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(
            f"{path.name}: {len(session.get('messages', session.get('input')))} messages, {path.stat().st_size:,} bytes"
        )


if __name__ == "__main__":
    main()
