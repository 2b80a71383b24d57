"""Speed and memory on growing histories; ratios to `json.dumps` of the same list, which any client does anyway."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.core.edits import Effects, view
from danshari.formats import named
from danshari.pipeline.decide import proposals
from danshari.pipeline.tracker import Track
from danshari.planning.planner import Situation, plan
from danshari.testing import Call, Turn, conversation

_WIRE = named("openai-chat")
_MODEL, _WINDOW = "claude-opus-4-5", 4_000_000


def history(messages: int, size: int) -> list[Any]:
    """Build a chat history of `messages` messages and about `size` characters in all."""
    each = size // max(messages // 2, 1)
    lines = max(each // 66, 1)
    turns = [
        Turn(
            calls=(
                Call(
                    name="Read",
                    id=f"call_{n:016d}AbC",
                    arguments={"file_path": f"src/module_{n}.py"},
                    result="\n".join(
                        f"def handler_{n}_{k}(request, ledger): return process(request, {k})" for k in range(lines)
                    )[:each],
                ),
            )
        )
        for n in range((messages - 1) // 2)
    ]
    return conversation("openai-chat", "Fix the parser in src/app.", turns)


def _time(work: Callable[[], Any], times: int = 7) -> tuple[float, float]:
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    found.sort()
    return found[0], found[len(found) // 2]


def _row(what: str, pair: tuple[float, float], unit: str, asked: str, messages: int = 0) -> dict[str, Any]:
    return {"what": what, "messages": messages, "minimum": pair[0], "median": pair[1], "unit": unit, "asked": asked}


def measure_speed(size: int) -> list[dict[str, Any]]:
    """Measure everything the budgets name."""
    rows = []
    for messages in (100, 1000, 10_000):
        held = history(messages, size)
        dump = _time(lambda held=held: json.dumps(held))  # type: ignore[misc]
        cold = _time(lambda held=held: _WIRE.write(held, view(_WIRE.read(held), ())))  # type: ignore[misc]
        rows.append(
            _row("cold read+ids+view+write / json.dumps", (cold[0] / dump[0], cold[1] / dump[1]), "×", "≤ 3", messages)
        )
        for name, reparse in (("caller's own extended list", False), ("equal re-parsed list", True)):
            rows.append(_row(f"warm append, {name}", _warm(held, reparse), "ms", "≤ 2", messages))
    rows += [_estimate(), _planner(size), _import(), _memory(size)]
    return rows


def _warm(held: list[Any], reparse: bool) -> tuple[float, float]:
    engine = Compactor(model=_MODEL, window=_WINDOW, format="openai-chat", clock=lambda: 0.0)
    engine.compact(held)
    extra = history(120, 60_000)
    current = list(held)
    found = []
    for n in range(40):
        pair = json.loads(json.dumps(extra[2 * n + 1 : 2 * n + 3]).replace("call_0", "call_9"))
        current = [*current, *pair]
        given = json.loads(json.dumps(current)) if reparse else current
        started = time.perf_counter()
        engine.compact(given)
        found.append(1000 * (time.perf_counter() - started))
    found.sort()
    return found[0], found[len(found) // 2]


def _estimate() -> dict[str, Any]:
    text = "\n".join(m["content"] or "" for m in history(400, 3_000_000) if isinstance(m.get("content"), str))
    count = data.estimator("o200k")
    best, median = _time(lambda: count(text))
    return _row("token estimate", (len(text) / 1e6 / median, len(text) / 1e6 / best), "MB/s", "≥ 20")


def _planner(size: int) -> dict[str, Any]:
    track = Track(named("openai-chat"), data.tools(), data.estimator("o200k"))
    track.follow(history(400, size), ())
    policy = data.load_policy("balanced")
    found = proposals(track.facts, Effects(), policy, force=False)
    situation = Situation(
        facts=track.facts,
        sizes=track.sizes,
        sent=len(track.sizes),
        prices=data.model(_MODEL).prices,
        cold=False,
        rounds_seen=200,
        rounds_left=200.0,
        purse=1e9,
        since_commit=99,
    )
    best, median = _time(lambda: plan(found, situation, policy, "gain"), 31)
    return _row(f"planner, {len(found)} proposals", (1000 * best, 1000 * median), "ms", "≤ 0.5")


def _import() -> dict[str, Any]:
    def run(code: str) -> tuple[float, float]:
        return _time(lambda: subprocess.run([sys.executable, "-c", code], check=True), 9)

    bare, ours, first = run("pass"), run("import danshari"), run("from danshari import compact")
    row = _row(
        "import danshari beyond the bare interpreter",
        (1000 * (ours[0] - bare[0]), 1000 * (ours[1] - bare[1])),
        "ms",
        "≤ 60",
    )
    row["first use"] = 1000 * (first[1] - bare[1])
    row["what"] += f" (with first use {row['first use']:.0f} ms)"
    return row


def _memory(size: int) -> dict[str, Any]:
    held = history(1000, size)
    payload = len(json.dumps(held))
    tracemalloc.start()
    engine = Compactor(model=_MODEL, window=_WINDOW, format="openai-chat", clock=lambda: 0.0)
    engine.compact(held)
    peak = tracemalloc.get_traced_memory()[1] / payload
    tracemalloc.stop()
    return _row("peak memory / payload", (peak, peak), "×", "≤ 1.5")
