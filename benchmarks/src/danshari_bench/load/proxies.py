"""Load tests of proxies, each in its own process: added latency, requests per second, streams and memory."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from danshari.testing import Call, Turn, conversation
from danshari.testing.null_provider import make_numbered_event
from danshari_bench.peers.environment import Environment

CHAT_PATH = "/v1/chat/completions"
LOAD_MODEL = "gpt-5"
HISTORY_SIZES = {"10k": 10_000, "200k": 200_000, "1M": 1_000_000}
"""Name → tokens of the history that a request carries, at four characters a token."""
_LINES = (12, 30, 90)
"""Lines of output of the rounds of a made conversation, in turn: about 0.6, 1.4 and 4.3 KB."""
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyUnderTest:
    """One way to reach the upstream; `command` may contain {port}, {upstream}, {folder} and {bin}."""

    name: str
    command: tuple[str, ...] = ()
    environment: Environment | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    """Files made in its folder first."""
    variables: Mapping[str, str] = field(default_factory=dict)
    path: str = CHAT_PATH
    model: str = LOAD_MODEL

    @property
    def ready(self) -> bool:
        """Whether it can be started here."""
        return self.environment is None or self.environment.ready


_OURS = (sys.executable, "-m", "danshari", "proxy", "--port", "{port}", "--upstream", "{upstream}", "--log", "off",
         "--archive", "{folder}/archive.db")  # fmt: skip
_LITELLM = """model_list:
  - model_name: gpt-5
    litellm_params: {{model: openai/gpt-5, api_base: "{upstream}/v1", api_key: none}}
litellm_settings: {{telemetry: false}}
"""
PROXIES_UNDER_TEST = (
    ProxyUnderTest(name="direct"),
    ProxyUnderTest(name="danshari", command=_OURS),
    ProxyUnderTest(name="danshari, off", command=(*_OURS, "--off")),
    ProxyUnderTest(
        name="litellm",
        command=("{bin}/litellm", "--config", "{folder}/config.yaml", "--port", "{port}", "--host", "127.0.0.1"),
        environment=Environment("litellm-proxy", ("litellm[proxy]==1.108.7",)),
        files={"config.yaml": _LITELLM},
        variables={
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        },
    ),
    ProxyUnderTest(
        name="headroom",
        command=(
            "{bin}/headroom",
            "proxy",
            "--port",
            "{port}",
            "--host",
            "127.0.0.1",
            "--no-rate-limit",
            "--no-cache",
            "--disable-kompress",
            "--openai-api-url",
            "{upstream}/v1",
        ),
        environment=Environment("headroom-proxy", ("headroom-ai[proxy]==0.42.0",)),
        variables={"HEADROOM_TELEMETRY": "off"},
    ),
)
"""Every way that `danshari bench proxy` compares."""


@dataclass(slots=True, kw_only=True)
class RunningProxy:
    """A started proxy: its base URL and process id (0 if there is no process)."""

    base: str
    process: int
    rival: ProxyUnderTest

    def cpu_seconds(self) -> float:
        """Return the processor seconds used by the process and its children, or 0 if unknown."""
        return sum(_process_cpu_seconds(pid) for pid in _process_tree(self.process))

    def resident_megabytes(self) -> float:
        """Return the resident memory of the process and its children in megabytes."""
        total = 0.0
        for pid in _process_tree(self.process):
            try:
                total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
            except (OSError, ValueError):
                continue
        return total


def _process_tree(process: int) -> list[int]:
    found = [process]
    for at in found:
        try:
            found += map(int, Path(f"/proc/{at}/task/{at}/children").read_text().split())
        except (OSError, ValueError):
            continue
    return found if process else []


def _process_cpu_seconds(process: int) -> float:
    try:
        parts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(parts[11]) + int(parts[12])) / _TICKS


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


@contextmanager
def start_server(command: Sequence[str], port: int, *, variables: Mapping[str, str] | None = None) -> Iterator[int]:
    """Start a server, wait for its port and yield its process id. Raises TimeoutError with its last output."""
    environment = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, env={**environment, **(variables or {})}, stdout=said, stderr=said)
        try:
            end = time.monotonic() + 90
            while not _is_listening(port):
                if process.poll() is not None or time.monotonic() > end:
                    said.seek(0)
                    words = said.read().decode("utf-8", "replace").strip().splitlines()[-4:]
                    raise TimeoutError(f"{command[0]} did not start: {' | '.join(words)}")
                time.sleep(0.05)
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _is_listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 0.2):
            return True
    except OSError:
        return False


@contextmanager
def run_proxy(rival: ProxyUnderTest, upstream: str) -> Iterator[RunningProxy]:
    """Start a proxy in front of the upstream; one without a command is the upstream itself."""
    if not rival.command:
        yield RunningProxy(base=upstream, process=0, rival=rival)
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        places = {"port": str(port), "upstream": upstream, "folder": folder,
                  "bin": str(rival.environment.python.parent) if rival.environment else ""}  # fmt: skip
        for name, text in rival.files.items():
            (Path(folder) / name).write_text(text.format(**places), encoding="utf-8")
        variables = {name: value.format(**places) for name, value in rival.variables.items()}
        with start_server([word.format(**places) for word in rival.command], port, variables=variables) as process:
            yield RunningProxy(base=f"http://127.0.0.1:{port}", process=process, rival=rival)


# ── what is asked ────────────────────────────────────────────────────────────────────────────────────────────────


def make_load_history(tokens: int, rounds: int) -> tuple[list[Any], list[int]]:
    """Return a conversation of about `tokens` tokens plus `rounds` rounds, and where each request ends."""
    turns, size, number = [], 0, 0
    until = None
    while until is None or number < until:
        lines = [
            f"[{number}.{k}] compiled module_{number}_{k} in {(number * 31 + k * 7) % 97} ms"
            for k in range(_LINES[number % 3])
        ]
        turns.append(Turn(text=f"Round {number}: building the next part.", calls=(
            Call(name="Bash", arguments={"command": f"make part_{number}"}, result="\n".join(lines)),)))  # fmt: skip
        size += sum(map(len, lines)) + 250
        number += 1
        if until is None and size / 4 >= tokens:
            until = number + rounds
    messages = conversation("openai-chat", "Build every part.", turns)
    return messages, [n + 1 for n, m in enumerate(messages) if m["role"] == "tool"]


async def measure_latency(base: str, rival: ProxyUnderTest, tokens: int, rounds: int) -> list[float]:
    """Send a growing conversation and return the milliseconds of each of the last `rounds` requests.

    Of the earlier requests an evenly spread selection is sent: all up to 80, fewer than 160 in any
    case.
    """
    import aiohttp

    messages, cuts = make_load_history(tokens, rounds)
    spent = []
    async with aiohttp.ClientSession() as client:
        before = cuts[:-rounds]
        for cut in [*before[:: max(len(before) // 80, 1)], *cuts[-rounds:]]:
            body = json.dumps({"model": rival.model, "messages": messages[:cut]}).encode()
            begun = time.perf_counter()
            async with client.post(base + rival.path, data=body, headers=_HEADERS) as answer:
                said = await answer.read()
            spent.append(1000 * (time.perf_counter() - begun))
            if answer.status != 200:
                raise ValueError(f"{rival.name} answered {answer.status}: {said[:200].decode('utf-8', 'replace')}")
    return spent[-rounds:]


_HEADERS = {"content-type": "application/json", "authorization": "Bearer none"}


async def measure_throughput(base: str, rival: ProxyUnderTest, seconds: float, workers: int = 24) -> int:
    """Send small requests for `seconds` with `workers` parallel clients and return how many succeeded."""
    import aiohttp

    done, end = 0, time.monotonic() + seconds

    async def send_requests(client: aiohttp.ClientSession, name: int) -> None:
        nonlocal done
        number = 0
        while time.monotonic() < end:
            messages = [{"role": "user", "content": f"Question {name}.{number} of a load test, in one line."}]
            body = json.dumps({"model": rival.model, "messages": messages}).encode()
            async with client.post(base + rival.path, data=body, headers=_HEADERS) as answer:
                await answer.read()
                done += answer.status == 200
            number += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        await asyncio.gather(*(send_requests(client, n) for n in range(workers)))
    return done


async def check_streams(base: str, rival: ProxyUnderTest, count: int, events: int) -> dict[str, Any]:
    """Open `count` streams at once and check that every event arrives once and in order."""
    import aiohttp

    wanted = [make_numbered_event(n) for n in range(events)]
    asked = {**_HEADERS, "x-events": str(events), "x-pause": "0.02"}

    async def read_stream(client: aiohttp.ClientSession, name: int) -> tuple[int, int, float]:
        """Return (all events in order, starts as expected with status 200, milliseconds to the first byte)."""
        messages = [{"role": "user", "content": f"Stream {name} of a load test."}]
        body = json.dumps({"model": rival.model, "messages": messages, "stream": True}).encode()
        begun = time.perf_counter()
        first, said = 0.0, b""
        async with client.post(base + rival.path, data=body, headers=asked) as answer:
            async for chunk in answer.content.iter_any():
                first = first or 1000 * (time.perf_counter() - begun)
                said += chunk
        got = [part + b"\n\n" for part in said.split(b"\n\n") if b'"content"' in part]
        order = [
            n for n in map(_event_number, got) if n >= 0
        ]  # an empty last chunk of the proxy's own is no event of ours
        return order == list(range(events)), said.startswith(wanted[0][:20]) and answer.status == 200, first

    begun = time.perf_counter()
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as client:
        found = await asyncio.gather(*(read_stream(client, n) for n in range(count)), return_exceptions=True)
    good = [f for f in found if not isinstance(f, BaseException)]
    first = sorted(f[2] for f in good) or [0.0]
    return {
        "streams": count, "events": events, "whole": sum(bool(f[0]) for f in good), "failed": len(found) - len(good),
        "first_ms_p50": first[len(first) // 2], "seconds": time.perf_counter() - begun,
    }  # fmt: skip


def _event_number(event: bytes) -> int:
    """Return the number inside a stream event, or -1."""
    try:
        return int(json.loads(event.removeprefix(b"data: "))["choices"][0]["delta"]["content"])
    except (ValueError, KeyError, IndexError, TypeError):
        return -1


async def open_sessions(base: str, rival: ProxyUnderTest, sessions: int, tokens: int) -> None:
    """Send one request of about `tokens` tokens in each of `sessions` new sessions."""
    import aiohttp

    messages, _ = make_load_history(tokens, 1)
    async with aiohttp.ClientSession() as client:
        for number in range(sessions):
            first = {"role": "user", "content": f"Build every part of project {number}."}
            body = json.dumps({"model": rival.model, "messages": [first, *messages[1:]]}).encode()
            async with client.post(base + rival.path, data=body, headers=_HEADERS) as answer:
                await answer.read()


def measure_proxy(rival: ProxyUnderTest, *, rounds: int, seconds: float, tell: Callable[[str], None]) -> dict[str, Any]:
    """Measure one proxy: latency per history size, throughput, streams and memory per session."""
    port = free_port()
    found: dict[str, Any] = {"name": rival.name}
    with start_server([sys.executable, "-m", "danshari.testing.null_provider", str(port)], port), \
            run_proxy(rival, f"http://127.0.0.1:{port}") as proxy:  # fmt: skip
        for name, tokens in HISTORY_SIZES.items():
            tell(f"{rival.name}: {name} tokens")
            found[name] = asyncio.run(
                measure_latency(proxy.base, rival, tokens, rounds if tokens < 500_000 else rounds // 2)
            )
        tell(f"{rival.name}: requests a second")
        before = proxy.cpu_seconds()
        done = asyncio.run(measure_throughput(proxy.base, rival, seconds))
        used = proxy.cpu_seconds() - before
        found |= {"per_second": done / seconds, "per_cpu_second": done / used if used else None}
        tell(f"{rival.name}: streams")
        found["streams"] = asyncio.run(check_streams(proxy.base, rival, 500, 50))
        tell(f"{rival.name}: sessions")
        light = proxy.resident_megabytes()
        asyncio.run(open_sessions(proxy.base, rival, 20, HISTORY_SIZES["200k"]))
        found |= {"resident_mb": light, "mb_per_session": (proxy.resident_megabytes() - light) / 20}
    return found
