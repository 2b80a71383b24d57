"""Resets, stalls, errors and broken streams, and a proxy that is killed in the middle."""

from __future__ import annotations

import functools
import http.client
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
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

WANTED = int(os.environ.get("DANSHARI_CHAOS", "200"))
"""Requests of a run."""


def test_chaos(tmp_path: Path) -> None:
    """What arrives whole is right, and nothing that was stored is lost. `DANSHARI_CHAOS` sets the number of requests."""
    draw, counted, kills = random.Random(5), Counter[str](), 0
    messages = {name: work(30, name) for name in PATHS}
    ends = {name: turn_ends(name, messages[name]) for name in PATHS}
    place = dict.fromkeys(PATHS, 0)
    script = ChaosScript()
    upstream, archive = ScriptedUpstream(script, record=True), str(tmp_path / "a.db")
    with serve_app(upstream) as there:
        while counted.total() < WANTED:
            port, life = free_port(), draw.randrange(20, 50) * max(WANTED // 200, 1)
            command = [sys.executable, "-m", "danshari", "proxy", "--port", str(port), "--upstream", there, "--log", "off",
                       "--archive", archive]  # fmt: skip
            with start_server(command, port, variables={"DANSHARI_PROXY_IDLE_SECONDS": "0.4"}) as process:
                client, kill = Client(f"http://127.0.0.1:{port}"), functools.partial(os.kill, process, signal.SIGKILL)
                for left in reversed(range(min(life, WANTED - counted.total()))):
                    name = draw.choice([*PATHS])
                    body = body_of(name, messages[name][: ends[name][place[name]]], stream=bool(draw.randrange(2)))
                    dies = left == 0 and counted.total() + 1 < WANTED
                    in_answer = dies and kills % 2 == 0  # else while it decides, or writes what it decided
                    script.once_asked = kill if in_answer else None
                    outcome = attempted(client, PATHS[name], body, kill if dies and not in_answer else None)
                    kills += dies
                    counted[outcome] += 1
                    place[name] = min(place[name] + (outcome == "whole"), len(ends[name]) - 1)
    sys.stdout.write(f"{counted.total()} requests, proxy killed {kills} times: {dict(counted)}\n")
    assert kills >= 3
    assert counted["whole"] > WANTED / 2
    assert counted["broken"]
    assert not upstream.bills[""].problems
    with SqliteArchive(archive) as held:
        assert not held.notes
        assert keeping.verify_archive(held) == []
    for name in PATHS:
        extends_itself([a for a in upstream.requests if a.format == name], find_format(name).key)


class ChaosScript:
    """Half of the answers are whole; the others are cut, refused, late, or hold garbage."""

    def __init__(self) -> None:
        self.draw = random.Random(6)
        self.once_asked: Callable[[], None] | None = None

    def __call__(self, asked: UpstreamRequest) -> Any:
        if self.once_asked:
            self.once_asked()
        turn = Turn(text=f"answer {asked.number}.")
        troubles = {
            0: (turn, ScriptedFailure(cut=self.draw.randrange(4))),
            1: ScriptedFailure(status=self.draw.choice([429, 500, 503, 529]), text="busy"),
            2: (turn, ScriptedFailure(stall=1.0)),
            3: (turn, ScriptedFailure(garbage=True)),
        }
        return troubles.get(self.draw.randrange(8), turn)


def turn_ends(name: str, messages: list[Any]) -> list[int]:
    """Where each request of a session ends."""
    return [n for n, m in enumerate(messages) if n and find_format(name).begins_turn(m, messages[n - 1])]


def attempted(client: Client, path: str, body: dict[str, Any], once_sent: Callable[[], None] | None) -> str:
    """Send one request of a chaos run; a whole answer must be one of the upstream's, unaltered."""
    try:
        status, headers, said = client.post(path, body, once_sent=once_sent)
    except (http.client.HTTPException, OSError):
        client.connection.close()
        return "broken"
    assert "x-danshari-fault" not in headers, headers
    assert status in (200, 429, 500, 503, 504, 529), said
    if status != 200:
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
