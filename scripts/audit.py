"""Sample references and actions for a manual audit, and count the recorded verdicts.

    python scripts/audit.py sample FOLDER... > sheet.jsonl      what a person needs to judge
    python scripts/audit.py report                              precision from docs/results/audit.json

A verdict names session, round and atom only; the texts stay with the recordings.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from danshari_bench.comparison.plan import LONG_ROUNDS, common_atoms, survey_session

from danshari.cli.shared.common import load_sessions
from danshari.replay.references import (
    HOT,
    RoundNeeds,
    SessionNeeds,
    find_needs,
)

EVENTS, ACTIONS, SEED = 200, 50, 13
VERDICTS = Path(__file__).parent.parent / "docs/results/audit.json"


def sample(folders: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield sampled references, half of them old and half recent, and sampled actions, evenly over sources."""
    sessions, _ = load_sessions(folders)
    none: frozenset[str] = frozenset()
    surveys = [survey_session((s, "strict", none)) for s in sessions]
    common = common_atoms(sessions, surveys)
    events: dict[tuple[str, bool], list[dict[str, Any]]] = defaultdict(list)
    actions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for session, survey in zip(sessions, surveys, strict=True):
        if survey.rounds < LONG_ROUNDS:
            continue
        needs = find_needs(session, common=common)
        for r in needs.rounds:
            if r.acts:
                actions[session.collection].append(_action_row(needs, r))
            for reference in r.references:
                events[session.collection, reference.age > HOT].append(_event_row(needs, r, reference))
    draw = random.Random(SEED)
    sources = sorted({source for source, _ in events})
    for old in (True, False):
        yield from _draw_evenly([events[source, old] for source in sources], EVENTS // 2, draw)
    yield from _draw_evenly([actions[source] for source in sources], ACTIONS, draw)


def _draw_evenly(pools: list[list[dict[str, Any]]], count: int, draw: random.Random) -> list[dict[str, Any]]:
    """Draw `count` rows from all pools in turn."""
    left = [draw.sample(pool, len(pool)) for pool in pools]
    drawn: list[dict[str, Any]] = []
    while len(drawn) < count and any(left):
        for pool in left:
            if pool and len(drawn) < count:
                drawn.append(pool.pop())
    return drawn


def _call_texts(needs: SessionNeeds, r: RoundNeeds, most: int) -> str:
    turn = needs.facts.items[r.items].turn
    items = [i for i in needs.facts.items[r.items :] if i.turn == turn and i.kind == "call"]
    return "\n".join(f"{i.name} {i.text}" for i in items)[:most]


def _event_row(needs: SessionNeeds, r: RoundNeeds, reference: Any) -> dict[str, Any]:
    lines = [needs.lines.keys[n] for n, rank in needs.held[reference.atom].items() if rank < reference.held]
    text = _call_texts(needs, r, 10**6)
    at = max(text.find(reference.atom), 0)
    item = needs.facts.items[reference.place]
    return {
        "what": "event", "session": needs.session.id, "source": needs.session.collection, "round": r.number,
        "atom": reference.atom, "age": reference.age, "content": reference.content,
        "used": text[max(0, at - 200) : at + 200], "last_seen_in": f"{item.role} {item.kind} {item.name}",
        "lines": [line[:200] for line in lines[-3:]],
    }  # fmt: skip


def _action_row(needs: SessionNeeds, r: RoundNeeds) -> dict[str, Any]:
    return {
        "what": "action", "session": needs.session.id, "source": needs.session.collection, "round": r.number,
        "calls": _call_texts(needs, r, 1800), "counted": [[x.atom, x.age] for x in r.references][:60],
    }  # fmt: skip


def report() -> dict[str, Any]:
    """Count the verdicts: precision of references by age, and actions by verdict."""
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    events = [v for v in verdicts["verdicts"] if v["what"] == "event"]
    actions = [v for v in verdicts["verdicts"] if v["what"] == "action"]
    groups = {
        "all": events,
        "older than 3 rounds": [v for v in events if v["age"] > HOT],
        "up to 3 rounds": [v for v in events if v["age"] <= HOT],
        "locators": [v for v in events if not v["content"]],
        "content": [v for v in events if v["content"]],
    }
    counted = {name: Counter(v["verdict"] for v in group) for name, group in groups.items()}
    return {
        "events": {
            name: {**dict(sorted(c.items())), "precision": round(c["true"] / max(sum(c.values()), 1), 3)}
            for name, c in counted.items()
        },
        "actions": dict(sorted(Counter(v["verdict"] for v in actions).items())),
        "earlier versions": verdicts["earlier"],
    }


def main() -> None:
    """Run `sample` or `report`."""
    if sys.argv[1:2] == ["report"]:
        print(json.dumps(report(), indent=1))
    elif sys.argv[1:2] == ["sample"] and sys.argv[2:]:
        for row in sample([Path(p) for p in sys.argv[2:]]):
            print(json.dumps(row, ensure_ascii=False))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
