"""The proxy as its users start it: commands, wrap, a reverse proxy before it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from danshari_bench.load.proxies import free_port
from danshari_bench.load.traffic import serve_app
from hypothesis import assume, example, given
from hypothesis import strategies as st

from danshari.data.agents import load_agent_profiles
from danshari.errors import ArgumentError
from danshari.proxy.wrap import find_agent_profile
from danshari.testing import Turn
from danshari.testing.fake_provider import ScriptedUpstream, UpstreamRequest
from tests.support.command_line import ROOT, run_danshari
from tests.support.proxy import body_of, make_pair
from tests.support.waiting import PATIENCE, wait_until


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "cannot be listened on" in run_danshari("proxy", "--port", port).stderr
        assert "must begin with http" in run_danshari("proxy", "--upstream", "x=nonsense").stderr
        free = free_port()
        assert "start one with `danshari proxy`" in run_danshari("status", "--url", f"http://127.0.0.1:{free}").stderr
        assert "known: claude, codex" in run_danshari("wrap").stderr
        assert "unknown agent 'frobnicate'" in run_danshari("wrap", "--", "frobnicate").stderr
        assert (
            "no such command"
            in run_danshari("wrap", "--archive", ":memory:", "--", "opencode", PATH=str(tmp_path)).stderr
        )


NAMES = {name: agent.command for name, agent in load_agent_profiles().items()}


@pytest.mark.parametrize("ending", ["", ".exe", ".cmd", ".bat", ".EXE"])
@pytest.mark.parametrize("command", [*NAMES.values(), "python3", "python3.12", "node22"])
def test_an_agent_is_known_by_its_command(command: str, ending: str) -> None:
    assert find_agent_profile(f"/opt/bin/{command}{ending}").command == command.rstrip("0123456789.")


@given(st.sampled_from(sorted(NAMES.values())), st.from_regex(r"[a-z_-][a-z0-9_-]*", fullmatch=True))
@example("node", "mon")
@example("node", "-gyp")
@example("python", "-build")
def test_another_program_whose_name_begins_alike_is_no_agent(command: str, more: str) -> None:
    assume(command + more not in NAMES.values())
    with pytest.raises(ArgumentError, match="unknown agent"):
        find_agent_profile(command + more)


def test_wrap_runs_a_program_behind_a_proxy_and_leaves_nothing(tmp_path: Path) -> None:
    """A program on the official SDK, told by its environment alone; its exit code comes through."""
    upstream = ScriptedUpstream(lambda asked: Turn(text="hello"), record=True)
    program = tmp_path / "agent.py"
    program.write_text(
        "import anthropic, os, sys\n"
        "with anthropic.Anthropic(api_key='k') as client:\n"
        "    said = client.messages.create(model='claude-opus-4-5', max_tokens=9, messages=[{'role': 'user', 'content': 'a'}])\n"
        "print(said.content[0].text, os.environ['ANTHROPIC_BASE_URL'])\n"
        "sys.exit(7)\n"
    )
    with serve_app(upstream) as there:
        done = run_danshari("wrap", "--archive", ":memory:", "--", "python", str(program), ANTHROPIC_BASE_URL=there,
                        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # fmt: skip
        assert done.returncode == 7, done.stderr
        assert "hello http://127.0.0.1:" in done.stdout
        assert there not in done.stdout, "the agent talks to the proxy, the proxy to where the agent was sent before"
        assert "1 requests" in done.stderr
        assert len(upstream.requests) == 1


@pytest.mark.skipif(shutil.which("nginx") is None or shutil.which("openssl") is None, reason="needs nginx and openssl")
def test_the_documented_reverse_proxy_speaks_tls_and_streams(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/proxy.md").read_text(encoding="utf-8")
    block = re.search(r"```nginx\n(.*?)```", guide, re.DOTALL)
    assert block
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1",
                    "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True, capture_output=True)  # fmt: skip
    port = free_port()
    asked: list[UpstreamRequest] = []

    def script(request: UpstreamRequest) -> Turn:
        asked.append(request)
        return Turn(text="word " * 30)

    for pair in make_pair():
        pair.upstream.script = script
        text = block[1].replace("8443", str(port)).replace("http://127.0.0.1:8484", pair.here)
        (tmp_path / "nginx.conf").write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\nhttp {{ access_log off;\n{text}}}\n"
        )
        with nginx(tmp_path, port):
            trusting = ssl.create_default_context()
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            raw = json.dumps(body_of("anthropic", [{"role": "user", "content": "hi"}], stream=True)).encode()
            request = urllib.request.Request(
                f"https://localhost:{port}/v1/messages", raw, {"content-type": "application/json"}
            )
            with urllib.request.urlopen(request, context=trusting, timeout=PATIENCE) as answer:
                said = answer.read()
        assert said.endswith(b'data: {"type": "message_stop"}\n\n')
        assert asked[0].raw == raw


@contextmanager
def nginx(folder: Path, port: int) -> Iterator[None]:
    process = subprocess.Popen(
        ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: process.poll() is not None or is_listening(port))
        assert process.poll() is None, (folder / "error.log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except OSError:
        return False
    return True
