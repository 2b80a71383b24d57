"""Run real coding agents through the proxy against a scripted upstream, without a network.

    python scripts/real_agents.py --bin NODE_MODULES/.bin [--rounds 45] [--json FILE]

Claude Code, Codex and Gemini CLI run headless on a copy of `examples/shop`, in a network namespace of their own
(`unshare -n`), and execute their own tools for `--rounds` rounds, three times: directly against the
upstream, through a proxy that is switched off, and through one with `balanced`. The upstream
rejects what a provider would reject. Prints one row a run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from danshari_bench.load.traffic import serve_app

from danshari.formats import find_format
from danshari.proxy.app import create_app
from danshari.proxy.settings import Settings
from danshari.testing import Call, Turn
from danshari.testing.fake_provider import ScriptedUpstream, UpstreamRequest

SHOP = Path(__file__).parent.parent / "examples/shop"
AGENTS = ("claude", "codex", "gemini")
SHELL = (
    "python3 -m unittest discover -v 2>&1 | head -120", "cat $(git ls-files '*.py' 2>/dev/null || find . -name '*.py') | head -400",
    "grep -rn 'def ' . | head -150", "ls -R . | head -200", "python3 -c \"print('\\n'.join(f'row {n} ok' for n in range(400)))\"",
    "cat no_such_file.py", "find . -name '*.py' | xargs wc -l", "sed -n 1,200p $(find . -name '*.py' | sort | head -1)",
)  # fmt: skip

SHELL_TOOLS = {
    "Bash": ("command", {"description": "Look."}),
    "exec_command": ("cmd", {}),
    "run_shell_command": ("command", {"description": "Look."}),
}
"""The agents' tools for shell commands: the key of the command, and what else they want."""


def make_script(rounds: int, folder: Path) -> Any:
    """Return the model's script: shell commands, reads, edits, parallel calls, thinking, then a final text."""
    files = sorted(str(p) for p in folder.rglob("*.py"))

    def answer_request(asked: UpstreamRequest) -> Turn:
        """Return the scripted turn for one request."""
        names = tool_names(asked.body)
        number = count_turns(asked)
        shell = next((name for name in SHELL_TOOLS if name in names), "")
        if not shell or number >= rounds:
            return Turn(text="Everything was looked at; nothing is left to do.")
        key, more = SHELL_TOOLS[shell]
        calls = [Call(name=shell, arguments={key: SHELL[number % len(SHELL)], **more})]
        path = files[number % len(files)]
        reads = next((name for name in ("Read", "read_file") if name in names), "")
        edits = next((name for name in ("Edit", "replace") if name in names), "")
        if reads and number % 3 == 0:
            calls.append(Call(name=reads, arguments={"file_path": path}))
        if edits and number % 7 == 6:
            first = Path(path).read_text(encoding="utf-8").split("\n")[0]
            change = {"file_path": path, "old_string": first, "new_string": first + " "}
            change |= {"instruction": "Add a space."} if edits == "replace" else {}
            calls = [Call(name=reads, arguments={"file_path": path}), Call(name=edits, arguments=change)]
        if "recall_search" in names and number % 10 == 9 and not asked_to_recall(asked):
            calls = [Call(name="recall_search", arguments={"query": "inventory"})]
        return Turn(
            thinking=f"Round {number}: next." if number % 4 == 0 else "", text=f"Step {number}.", calls=tuple(calls)
        )

    return answer_request


def tool_names(body: Mapping[str, Any]) -> set[str]:
    """Return the names of the tools that a request offers."""
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
    return {str(one.get("name")) for tool in tools for one in tool.get("functionDeclarations") or [tool]}


def asked_to_recall(asked: UpstreamRequest) -> bool:
    """Return whether the newest messages of a request hold the result of a recall."""
    wire = find_format(asked.format)
    newest = asked.body.get(wire.key, [])[-2:]
    return any(piece.name.startswith("recall_") for message in newest for piece in wire.split(message))


def count_turns(asked: UpstreamRequest) -> int:
    """Count the assistant turns of a request."""
    wire = find_format(asked.format)
    messages = asked.body.get(wire.key, [])
    pairs = zip([None, *messages], messages, strict=False)
    return sum(isinstance(m, dict) and wire.begins_turn(m, before) for before, m in pairs)


def agent_command(agent: str, tools: Path, base: str, home: Path) -> tuple[list[str], dict[str, str]]:
    """Return an agent's command line and its complete environment."""
    environment = {"HOME": str(home), "PATH": f"{tools}:{os.environ['PATH']}", "IS_SANDBOX": "1", "NO_COLOR": "1"}
    if agent == "claude":
        environment |= {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "none", "DISABLE_TELEMETRY": "1",
                        "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}  # fmt: skip
        return ["claude", "-p", "Look around in this folder.", "--dangerously-skip-permissions"], environment
    if agent == "gemini":
        settings = home / ".gemini/settings.json"
        settings.parent.mkdir()
        chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "model": {"disableLoopDetection": True}}
        settings.write_text(json.dumps(chosen), encoding="utf-8")  # its detector of loops leaves a call unanswered
        environment |= {"GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": "none", "GEMINI_CLI_NO_RELAUNCH": "1",
                        "GEMINI_CLI_TRUST_WORKSPACE": "true"}  # fmt: skip
        return ["gemini", "--yolo", "-m", "gemini-3-pro-preview", "-p", "Look around in this folder."], environment
    environment |= {"CODEX_API_KEY": "none", "OPENAI_API_KEY": "none"}
    return [
        "codex", "exec", "-c", f'openai_base_url="{base}/v1"', "--skip-git-repo-check", "-m", "gpt-5.5",
        "--dangerously-bypass-approvals-and-sandbox", "Look around in this folder.",
    ], environment  # fmt: skip


def run_agent(agent: str, tools: Path, rounds: int, how: str) -> dict[str, Any]:
    """Run one agent once: `how` is `direct`, `off` or a policy name."""
    with tempfile.TemporaryDirectory() as made:
        folder, home = Path(made) / "shop", Path(made) / "home"
        shutil.copytree(SHOP, folder)
        home.mkdir()
        upstream = ScriptedUpstream(make_script(rounds, folder), record=True, family_of=True)
        with serve_app(upstream) as there:
            settings = Settings(upstreams={"*": there}, archive=str(Path(made) / "a.db"), off=how == "off",
                                policy="balanced" if how in ("off", "direct") else how)  # fmt: skip
            app = create_app(settings)
            with serve_app(app) as here:
                line, environment = agent_command(agent, tools, there if how == "direct" else here, home)
                done = subprocess.run(line, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, timeout=600, check=False)  # fmt: skip
        sessions = app.state.sessions.all_branches()
        totals = [session.totals for session in sessions]
        main = [a for a in upstream.requests if tool_names(a.body)]
        bill = upstream.bills.get("")
        return {
            "agent": agent, "how": how, "exit": done.returncode, "requests": len(upstream.requests),
            "rounds": max((count_turns(a) for a in main), default=0), "bytes_last": len(main[-1].raw) if main else 0,
            "bytes_all": sum(len(a.raw) for a in upstream.requests), "refused": bill.refused if bill else 0,
            "problems": bill.problems[:2] if bill else [], "units": round(bill.units) if bill else 0,
            "sessions": len(sessions), "tokens": [round(sum(t.before for t in totals)), round(sum(t.after for t in totals))],
            "recalls": sum(t.recalls for t in totals), "faults": sum(t.faults for t in totals),
            "billed": {k: round(sum(t.billed[k] for t in totals)) for k in ("fresh", "cached", "output")},
            "ended": "nothing is left to do" in done.stdout + done.stderr,
        }  # fmt: skip


def main() -> None:
    """Run the agents in a network namespace without network access."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=Path, required=True, help="folder with the agents' commands")
    parser.add_argument("--agent", action="append", choices=AGENTS)
    parser.add_argument("--rounds", type=int, default=45)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not given.inside:
        sys.exit(
            subprocess.run(
                ["unshare", "-n", "--", sys.executable, __file__, "--inside", *sys.argv[1:]], check=False
            ).returncode
        )
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    rows = []
    for agent in given.agent or AGENTS:
        for how in ("direct", "off", "balanced"):
            rows.append(run_agent(agent, given.bin.resolve(), given.rounds, how))
            print(json.dumps(rows[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps({"format": 1, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(row["exit"] or row["refused"] or not row["ended"] for row in rows))


if __name__ == "__main__":
    main()
