"""Run one conversation under one policy and judge every request."""

from __future__ import annotations

import copy
import json
import random
import traceback
from dataclasses import dataclass, field
from typing import Any, Literal

from danshari import Compactor, data
from danshari.archive.in_memory import MemoryArchive
from danshari_bench.conversations import responses
from danshari_bench.conversations.reflect import Maker

GENERATORS = {"openai-responses": responses}
"""Format → the module that makes and judges its conversations."""
FAULTS = ("invalid", "crashed", "unstable", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that went wrong: its kind, the number of the model call, and what, in a line."""

    kind: str
    call: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One conversation and its faults."""

    seed: int
    format: str
    policy: str
    mode: str
    calls: int
    faults: tuple[Fault, ...] = field(default=())


class Keeper(MemoryArchive):
    """An archive that also lists all the text it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        super().__init__()

    def put(self, entries: Any) -> None:
        """Store entries."""
        entries = list(entries)
        self.texts += [part for e in entries for part in (e.text, e.name, e.call)]
        super().put(entries)


def run_conversation(job: tuple[int, str]) -> Outcome:
    """Make the conversation of a seed and a format, compact it, and return what went wrong."""
    seed, wire = job
    rng = random.Random(seed)
    policy = rng.choice(data.policy_names())
    mode: Literal["view", "replace"] = rng.choice(("view", "replace"))
    growing = rng.random() < 0.7
    maker, archive = Maker(rng), Keeper()
    steps = GENERATORS[wire].make_conversation(maker)
    if not growing:
        steps = [[item for step in steps for item in step]]
    window = rng.choice((3_000, 6_000, 16_000))
    compactor = Compactor(policy, window=window, mode=mode, archive=archive, format=wire)
    forced = [rng.random() < 0.05 for _ in steps]
    faults = _run_calls(GENERATORS[wire], compactor, steps, forced)
    view = faults.pop() if faults and isinstance(faults[-1], list) else []
    if not any(f.kind == "crashed" for f in faults):
        faults += _find_lost(maker, steps, view, archive.texts)
    shown = f"{mode}, {'growing' if growing else 'full'}"
    return Outcome(seed=seed, format=wire, policy=policy, mode=shown, calls=len(steps), faults=tuple(faults))


def _run_calls(rules: Any, compactor: Compactor, steps: list[Any], forced: list[bool]) -> list[Any]:
    """Return the faults of all calls, and as the last element the last view."""
    faults: list[Any] = []
    given: list[Any] = []
    stored: list[Any] = []
    before: list[Any] = []
    for call, step in enumerate(steps):
        given += step
        stored += step
        kept = copy.deepcopy(stored)
        try:
            result = compactor.compact(list(stored), force="full" if forced[call] else None)
        except Exception as error:  # noqa: BLE001  (a crash is what is counted)
            where = traceback.extract_tb(error.__traceback__)[-1]
            return [*faults, Fault(kind="crashed", call=call, what=f"{error!r} at {where.name}:{where.lineno}")]
        view = list(result.messages)
        if result.fault:
            faults.append(Fault(kind="crashed", call=call, what=result.fault[:200]))
        if stored != kept:
            faults.append(Fault(kind="crashed", call=call, what="the caller's messages were changed"))
        faults += [Fault(kind="invalid", call=call, what=what) for what in rules.judge(given, view)]
        if not result.edits and view[: len(before)] != before:
            faults.append(Fault(kind="unstable", call=call, what="sent items changed without an edit"))
        before = copy.deepcopy(view)
        stored = list(view) if compactor.mode == "replace" else stored
    return [*faults, before]


def _find_lost(maker: Maker, steps: list[Any], view: list[Any], texts: list[str]) -> list[Fault]:
    """Return a fault for each field with a string that came in and is neither in the last request nor archived."""
    came = json.dumps(steps, ensure_ascii=False)
    sent, kept = json.dumps(view, ensure_ascii=False), "\n".join(texts)
    lost: dict[str, str] = {}
    for value, where in maker.fields.items():
        quoted = json.dumps(value, ensure_ascii=False)[1:-1]
        if quoted in came and quoted not in sent and value not in kept and quoted not in kept:
            lost.setdefault(where, value[:20])
    return [Fault(kind="lost", call=len(steps) - 1, what=where) for where in lost]
