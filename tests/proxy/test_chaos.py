"""Resets, stalls, errors and broken streams, and a proxy that is killed in the middle."""

from __future__ import annotations

import http.client
import os
import random
import re
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from danshari_bench.load.proxies import free_port, start_server
from danshari_bench.load.traffic import serve_app

from danshari.archive import maintenance as keeping
from danshari.archive.sqlite import SqliteArchive
from danshari.formats import find_format
from danshari.testing import Turn
from danshari.testing.fake_provider import ScriptedFailure, ScriptedUpstream, UpstreamRequest
from tests.support.proxy import PATHS, Client, body_of, work


def test_chaos(tmp_path: Path) -> None:
    """Resets, stalls, errors, broken streams, and a proxy that is killed in the middle: what arrives whole is right.

    `DANSHARI_CHAOS` sets the number of requests.
    """
    wanted, draw = int(os.environ.get("DANSHARI_CHAOS", "200")), random.Random(5)
    messages = {name: work(30, name) for name in PATHS}
    ends = {name: turn_ends(name, messages[name]) for name in PATHS}
    place, counted, deaths = dict.fromkeys(PATHS, 0), Counter[str](), 0

    def script(asked: UpstreamRequest) -> Any:
        kind, turn = draw.randrange(8), Turn(text=f"answer {asked.number}.")
        if kind == 0:
            return turn, ScriptedFailure(cut=draw.randrange(4))
        if kind == 1:
            return ScriptedFailure(status=draw.choice([429, 500, 503, 529]), text="busy")
        return (
            (turn, ScriptedFailure(stall=0.4))
            if kind == 2
            else (turn, ScriptedFailure(garbage=True))
            if kind == 3
            else turn
        )

    upstream, archive = ScriptedUpstream(script, record=True), str(tmp_path / "a.db")
    with serve_app(upstream) as there:
        while sum(counted.values()) < wanted:
            port, deaths = free_port(), deaths + 1
            command = [sys.executable, "-m", "danshari", "proxy", "--port", str(port), "--upstream", there, "--log", "off",
                       "--archive", archive]  # fmt: skip
            with start_server(command, port, variables={"DANSHARI_PROXY_IDLE_SECONDS": "0.25"}) as process:
                killer = threading.Timer(
                    draw.uniform(0.5, 2.5) * max(wanted / 200, 1), os.kill, (process, signal.SIGKILL)
                )
                killer.start()
                client = Client(f"http://127.0.0.1:{port}")
                while killer.is_alive() and sum(counted.values()) < wanted:
                    name = draw.choice([*PATHS])
                    body = body_of(name, messages[name][: ends[name][place[name]]], stream=bool(draw.randrange(2)))
                    outcome = attempted(client, PATHS[name], body)
                    counted[outcome] += 1
                    place[name] = min(place[name] + (outcome == "whole"), len(ends[name]) - 1)
                killer.cancel()
    sys.stdout.write(f"{sum(counted.values())} requests, proxy killed {deaths - 1} times: {dict(counted)}\n")
    assert counted["whole"] > wanted / 2
    assert counted["broken"]
    assert not upstream.bills[""].problems
    with SqliteArchive(archive) as held:
        assert not held.notes
        assert keeping.verify_archive(held) == []
    for name in PATHS:
        extends_itself([a for a in upstream.requests if a.format == name], find_format(name).key)


def turn_ends(name: str, messages: list[Any]) -> list[int]:
    """Where each request of a session ends."""
    return [n for n, m in enumerate(messages) if n and find_format(name).begins_turn(m, messages[n - 1])]


def attempted(client: Client, path: str, body: dict[str, Any]) -> str:
    """Send one request of a chaos run; a whole answer must be one of the upstream's, unaltered."""
    try:
        status, headers, said = client.post(path, body)
    except (http.client.HTTPException, OSError):
        client.connection.close()
        return "broken"
    assert "x-danshari-fault" not in headers, headers
    if status != 200:
        assert status in (429, 500, 503, 504, 529), said
        return str(status)
    text = "".join(re.findall(rb'"(?:text|content|delta)": ?"(answer \d+\.)', said)[0].decode())
    assert re.fullmatch(r"answer \d+\.", text)
    return "whole"


def extends_itself(asked: list[UpstreamRequest], key: str) -> None:
    """A restart, a reset or a stall rewrites nothing: what was squeezed at first sight stays so."""
    before: list[Any] = []
    for request in asked:
        now = request.body[key]
        same = sum(a == b for a, b in zip(before, now, strict=False))
        assert same >= min(len(before), len(now)) - 1, "more than the message in flight changed"
        before = now
