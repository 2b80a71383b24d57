"""Speed and memory on growing histories.

Times are given as ratios to `json.dumps` of the same list, which any client does anyway.
"""

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
from danshari.formats import find_format
from danshari.passes import GENTLE_PASSES
from danshari.pipeline.decide import collect_proposals
from danshari.pipeline.tracker import ConversationTrack
from danshari.planning.planner import choose_batch
from danshari.planning.proposal import Situation
from danshari.testing import Call, Turn, conversation

_WIRE = find_format("openai-chat")
_MODEL, _WINDOW = "claude-opus-4-5", 4_000_000


def make_chat_history(messages: int, size: int) -> list[Any]:
    """Return a chat history of about `messages` messages and `size` characters."""
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


def _time_calls(work: Callable[[], Any], times: int = 7) -> tuple[float, float]:
    """Return the minimum and median seconds of `times` calls."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    found.sort()
    return found[0], found[len(found) // 2]


def _make_row(what: str, pair: tuple[float, float], unit: str, asked: str, messages: int = 0) -> dict[str, Any]:
    return {"what": what, "messages": messages, "minimum": pair[0], "median": pair[1], "unit": unit, "asked": asked}


def measure_speed(size: int) -> list[dict[str, Any]]:
    """Measure every figure that has a budget; `size` is characters of the history."""
    rows = []
    for messages in (100, 1000, 10_000):
        held = make_chat_history(messages, size)
        dump = _time_calls(lambda held=held: json.dumps(held))  # type: ignore[misc]
        cold = _time_calls(lambda held=held: _WIRE.write(held, view(_WIRE.read(held), ())))  # type: ignore[misc]
        rows.append(
            _make_row(
                "cold read+ids+view+write / json.dumps", (cold[0] / dump[0], cold[1] / dump[1]), "×", "≤ 3", messages
            )
        )
        for name, reparse in (("caller's own extended list", False), ("equal re-parsed list", True)):
            rows.append(_make_row(f"warm append, {name}", _time_appends(held, reparse), "ms", "≤ 2", messages))
    rows += [_measure_estimator(), _measure_planner(size), _measure_import(), _measure_memory(size)]
    return rows


def _time_appends(held: list[Any], reparse: bool) -> tuple[float, float]:
    """Return the minimum and median milliseconds of compacting after two messages were appended."""
    engine = Compactor(model=_MODEL, window=_WINDOW, format="openai-chat", clock=lambda: 0.0)
    engine.compact(held)
    extra = make_chat_history(120, 60_000)
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


def _measure_estimator() -> dict[str, Any]:
    text = "\n".join(m["content"] or "" for m in make_chat_history(400, 3_000_000) if isinstance(m.get("content"), str))
    count = data.load_estimator("o200k")
    best, median = _time_calls(lambda: count(text))
    return _make_row("token estimate", (len(text) / 1e6 / median, len(text) / 1e6 / best), "MB/s", "≥ 20")


def _measure_planner(size: int) -> dict[str, Any]:
    """Measure one run of the planner in milliseconds."""
    track = ConversationTrack(find_format("openai-chat"), data.load_tools(), data.load_estimator("o200k"))
    track.follow(make_chat_history(400, size), ())
    policy = data.load_policy("balanced")
    found = collect_proposals(GENTLE_PASSES, track.facts, Effects(), policy, force=False)
    situation = Situation(
        facts=track.facts,
        sizes=track.sizes,
        sent=len(track.sizes),
        prices=data.find_model(_MODEL).prices,
        cold=False,
        rounds_seen=200,
        rounds_left=200.0,
        purse=1e9,
        since_commit=99,
    )
    best, median = _time_calls(lambda: choose_batch(found, situation, policy, "gain"), 31)
    return _make_row(f"planner, {len(found)} proposals", (1000 * best, 1000 * median), "ms", "≤ 0.5")


def _measure_import() -> dict[str, Any]:
    """Measure the import of danshari in milliseconds beyond a bare interpreter."""

    def run_code(code: str) -> tuple[float, float]:
        return _time_calls(lambda: subprocess.run([sys.executable, "-c", code], check=True), 9)

    bare, ours, first = run_code("pass"), run_code("import danshari"), run_code("from danshari import compact")
    row = _make_row(
        "import danshari beyond the bare interpreter",
        (1000 * (ours[0] - bare[0]), 1000 * (ours[1] - bare[1])),
        "ms",
        "≤ 60",
    )
    row["first use"] = 1000 * (first[1] - bare[1])
    row["what"] += f" (with first use {row['first use']:.0f} ms)"
    return row


def _measure_memory(size: int) -> dict[str, Any]:
    held = make_chat_history(1000, size)
    payload = len(json.dumps(held))
    tracemalloc.start()
    engine = Compactor(model=_MODEL, window=_WINDOW, format="openai-chat", clock=lambda: 0.0)
    engine.compact(held)
    peak = tracemalloc.get_traced_memory()[1] / payload
    tracemalloc.stop()
    return _make_row("peak memory / payload", (peak, peak), "×", "≤ 1.5")
