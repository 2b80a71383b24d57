"""The proxy as its users start it: settings, wrap, status, a reverse proxy before it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from danshari_bench.load.proxies import free_port
from danshari_bench.load.traffic import serve_app

from danshari.errors import ArgumentError
from danshari.proxy.http.overflow import parse_overflow
from danshari.proxy.sessions.clients import client_session_key, load_agent_profiles
from danshari.proxy.settings import Settings, load_settings
from danshari.testing import Turn
from danshari.testing.fake_provider import ScriptedUpstream, UpstreamRequest
from tests.wire.test_proxy import body_of, make_pair, round_by_round, work

ROOT = Path(__file__).parent.parent.parent


def danshari(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    made = {**os.environ, "COLUMNS": "180", **env}
    return subprocess.run(
        [sys.executable, "-m", "danshari", *words], capture_output=True, text=True, env=made, timeout=60
    )


def test_settings_come_from_file_environment_and_line(tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text('port = 1\npolicy = "repair"\n[upstreams]\nmine = "http://a"\n')
    found = load_settings(
        file, {"port": 3, "upstreams": {"*": "http://b"}}, {"DANSHARI_PROXY_PORT": "2", "DANSHARI_PROXY_OFF": "yes"}
    )
    assert (found.port, found.policy, found.off) == (3, "repair", True)
    assert found.upstreams == {"mine": "http://a", "*": "http://b"}
    assert load_settings(None, {}, {"DANSHARI_PROXY_UPSTREAMS": "http://c,x=http://d"}).upstreams == {
        "*": "http://c",
        "x": "http://d",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "unknown setting 'prot'"),
        ("port = 'x'", "port = 'x'; must be int"),
        ("port = 70000", "must be 0 to 65535"),
        ("recall = 'maybe'", "must be one of auto, on, off"),
        ("policy = 'nonsense'", "nonsense"),
        ("host = '0.0.0.0'", "set a token"),
        ("upstreams = 'x'", "must map names"),
        ("[upstreams]\nx = 'ftp://y'", "must begin with http"),
        ("off = 'perhaps'", "must be true or false"),
        ("largest = 0", "must be 1 or more"),
        ("port", "is no TOML file"),
    ],
)
def test_wrong_settings_are_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ArgumentError, match=re.escape(said)):
        load_settings(tmp_path / "p.toml", {}, {})


def test_commands_say_what_is_wrong(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "cannot be listened on" in danshari("proxy", "--port", port).stderr
        assert "must begin with http" in danshari("proxy", "--upstream", "x=nonsense").stderr
        free = free_port()
        assert "start one with `danshari proxy`" in danshari("status", "--url", f"http://127.0.0.1:{free}").stderr
        assert "known: claude, codex" in danshari("wrap").stderr
        assert "'frobnicate' has no row" in danshari("wrap", "--", "frobnicate").stderr
        assert (
            "no such command" in danshari("wrap", "--archive", ":memory:", "--", "opencode", PATH=str(tmp_path)).stderr
        )


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
        done = danshari("wrap", "--archive", ":memory:", "--", "python", str(program), ANTHROPIC_BASE_URL=there,
                        PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")  # fmt: skip
        assert done.returncode == 7, done.stderr
        assert "hello http://127.0.0.1:" in done.stdout
        assert there not in done.stdout, "the agent talks to the proxy, the proxy to where the agent was sent before"
        assert "1 requests" in done.stderr
        assert len(upstream.requests) == 1


def test_every_agent_is_a_row() -> None:
    for agent in load_agent_profiles().values():
        assert agent.sets or agent.arguments
        for text in (*agent.sets.values(), *agent.arguments):
            assert text.format(base="http://x", port="1")


@pytest.mark.parametrize(
    ("headers", "values", "key"),
    [
        ({"x-claude-code-session-id": "s1"}, {}, "s1"),
        ({"x-claude-code-session-id": "s1", "x-claude-code-agent-id": "a1"}, {}, "s1 a1"),
        ({}, {"metadata": {"user_id": '{"device_id": "d", "session_id": "s2"}'}}, "s2"),
        ({}, {"metadata": {"user_id": "user_1_account_2_session_s3"}}, "s3"),
        ({}, {"metadata": {"user_id": "{broken"}}, "{broken"),
        ({"session-id": "s4"}, {"prompt_cache_key": "other"}, "s4"),
        ({}, {"prompt_cache_key": "s5"}, "s5"),
        ({"x-danshari-session": "mine", "session-id": "s4"}, {}, "mine"),
        ({}, {"metadata": [1], "prompt_cache_key": 3}, ""),
    ],
)
def test_clients_own_keys(headers: dict[str, str], values: dict[str, Any], key: str) -> None:
    assert client_session_key(headers, values) == key


@pytest.mark.parametrize(
    ("status", "text", "counted", "limit"),
    [
        (400, "prompt is too long: 210,000 tokens > 200000 maximum", 210_000, 200_000),
        (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 9001, 8192),
        (400, "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease", 199_000, 200_000),
        (400, '{"code": "context_length_exceeded"}', None, None),
        (400, "Your input exceeds the context window of this model.", None, None),
        (400, "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).", 1_100_000, 1_048_576),
        (413, "request_too_large", None, None),
    ],
)  # fmt: skip
def test_refusals_for_length_are_recognised(status: int, text: str, counted: int | None, limit: int | None) -> None:
    found = parse_overflow(status, text.encode())
    assert found is not None
    assert (found.counted, found.limit) == (counted, limit)
    assert parse_overflow(500, text.encode()) is None
    assert parse_overflow(400, b"max_tokens: must be positive") is None


def test_status_shows_sessions() -> None:
    for pair in make_pair():
        round_by_round(pair, "anthropic", work(6, "anthropic"), user_agent="claude-cli/2.1")
        shown = danshari("status", "--url", pair.here).stdout
        assert "claude-opus-4-5" in shown
        assert "first sight" in shown
        rows = json.loads(danshari("status", "--url", pair.here, "--json").stdout)["sessions"]
        assert rows[0]["client"] == "claude"
        assert rows[0]["before"] > rows[0]["after"]
        assert rows[0]["billed"]["output"] > 0


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
            with urllib.request.urlopen(request, context=trusting, timeout=10) as answer:
                said = answer.read()
        assert said.endswith(b'data: {"type": "message_stop"}\n\n')
        assert asked[0].raw == raw


@contextmanager
def nginx(folder: Path, port: int) -> Iterator[None]:
    process = subprocess.Popen(
        ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 0.2).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "error.log").read_text()
                assert time.monotonic() < end
        yield
    finally:
        process.terminate()
        process.wait(10)


def test_defaults_are_safe() -> None:
    assert Settings().host == "127.0.0.1"
    assert not Settings().is_public
