"""Five major compactions in a row, with things said on the way that must stay, and things taken back that must go.

Facts, rules, decisions and cancellations are put into a recorded session at even distances. After each fifth of it
the session is compacted in full; the next fifth goes on from there. Two ways: *kept*, one compactor in replace mode
with its archive, and *bare*, a new one each time that finds only its own last document in the messages.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal

from danshari import data
from danshari.compactor import Compactor
from danshari.core.edits import Fold
from danshari.errors import RecallError
from danshari.formats import convert
from danshari.replay.prompt_cache import DEFAULT_MODEL
from danshari.sessions import Recorded
from danshari_bench.checks.handover import alone

GENERATIONS = 5
PER_GENERATION = 8
"""Statements put into each fifth: 2 rules, 2 facts, 2 decisions, and from the second on 2 that take one back."""
What = Literal["rule", "fact", "decision", "cancellation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """One statement put into a session."""

    what: What
    text: str
    generation: int
    takes_back: str = ""
    """Text that no longer holds once this was said."""


def seeds() -> list[Seed]:
    """Give the 40 statements; from the second fifth on, two of each overtake one of the fifth before."""
    found: list[Seed] = []
    for g in range(1, GENERATIONS + 1):
        for n in (1, 2):
            found += [Seed(what="rule", generation=g, text=f"Rule {g}.{n}: never touch table_{g}{n}_old unsaved.")]
            found += [Seed(what="fact", generation=g, text=_fact(g, n))]
            found += [Seed(what="decision", generation=g, text=_choice(g, n))]
        if g == 1:
            hosts = (f"Confirmed: host_{n}.internal answers first." for n in (1, 2))
            found += [Seed(what="fact", generation=1, text=text) for text in hosts]
            continue
        cache, store = f"cache_{g - 1}1", f"store_{g - 1}1"
        undone = f"Cancelled: {cache} no longer goes into {store}, although it is local; pool_{g} takes it."
        found += [
            Seed(what="cancellation", generation=g, takes_back=_fact(g - 1, 1), text=_fact(g - 1, 1, port=9000 + g)),
            Seed(what="cancellation", generation=g, takes_back=_choice(g - 1, 1), text=undone),
        ]
    return found


def _fact(g: int, n: int, *, port: int = 0) -> str:
    return f"Confirmed: service svc_{g}{n} listens on port {port or 8000 + 10 * g + n}."


def _choice(g: int, n: int) -> str:
    return f"Decided: cache_{g}{n} goes into store_{g}{n}, because it is local."


@dataclass(slots=True, kw_only=True)
class Lived:
    """What became of the statements of one session, by way."""

    session: str
    way: str
    sizes: list[int] = field(default_factory=list)
    """Characters of the document after each compaction."""
    words: list[int] = field(default_factory=lambda: [0, 0])
    """Lines of rules and of the user's own words verbatim in the last view, and all."""
    standing: list[int] = field(default_factory=lambda: [0, 0])
    """Statements still in force that stand in the last view, and all."""
    recalled: int = 0
    """Of those that do not stand: found by one recall."""
    gone: list[int] = field(default_factory=lambda: [0, 0])
    """Statements taken back that the document no longer holds, and all."""
    faults: list[str] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Size of the last document over the first."""
        return self.sizes[-1] / self.sizes[0] if self.sizes else 0.0


def parts(session: Recorded) -> Iterator[list[Any]]:
    """Give a session in five parts with the statements put in."""
    messages = copy.deepcopy(convert(session.messages, "anthropic", source=session.format).payload)
    starts = [n for n, m in enumerate(messages) if m["role"] == "assistant"]
    said = seeds()
    step = len(starts) / len(said)
    for number, seed in enumerate(said):
        at = starts[int(number * step)]
        if seed.what == "rule":
            _blocks(messages[at - 1]).append({"type": "text", "text": seed.text})
        else:
            blocks = _blocks(messages[at])
            first = next((n for n, b in enumerate(blocks) if b.get("type") not in ("thinking", "redacted_thinking")), 0)
            blocks.insert(first, {"type": "text", "text": seed.text})
    borders = [starts[int(len(starts) * g / GENERATIONS)] for g in range(GENERATIONS)] + [len(messages)]
    borders[0] = 0
    yield from (messages[a:b] for a, b in pairwise(borders))


def _blocks(message: Any) -> list[Any]:
    if isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    blocks: list[Any] = message["content"]
    return blocks


def live(job: tuple[Recorded, str]) -> Lived:
    """Live through one session in one way."""
    session, way = job
    made = Lived(session=session.id, way=way)
    policy = replace(alone(data.load_policy("balanced")), pinned=())
    engine = _compactor(session, policy)
    held: list[Any] = []
    text = ""
    for part in parts(session):
        if way == "bare":
            engine = _compactor(session, policy)
        result = engine.compact([*held, *part], force="full")
        if result.fault:
            made.faults.append(result.fault)
        held = list(result.messages)
        folds = [e.text for e in result.edits if isinstance(e, Fold)]
        if folds:
            text = folds[-1]
            made.sizes.append(len(text))
    _judge(made, engine, held, text, session)
    return made


def _compactor(session: Recorded, policy: Any) -> Compactor:
    return Compactor(
        policy, model=session.model or DEFAULT_MODEL, mode="replace", format="anthropic", clock=lambda: 0.0
    )


def _judge(made: Lived, engine: Compactor, held: list[Any], document: str, session: Recorded) -> None:
    view = "\n".join(str(b.get("text") or b.get("content") or "") for m in held for b in _blocks(m))
    back = {seed.takes_back for seed in seeds() if seed.takes_back}
    for seed in seeds():
        if seed.what == "rule":
            made.words[0] += seed.text in view
            made.words[1] += 1
        elif seed.text in back:
            made.gone[0] += seed.text not in document
            made.gone[1] += 1
        else:
            made.standing[1] += 1
            if seed.text in view:
                made.standing[0] += 1
            elif _recalls(engine, seed.text):
                made.recalled += 1
    markers = data.markers()
    for item in convert(session.messages, "anthropic", source=session.format).payload:
        if item["role"] == "user":
            for block in _blocks(copy.copy(item)):
                words = markers.own_words(block["text"]) if block.get("type") == "text" else ""
                lines = [x for x in words.split("\n") if x.strip()] if len(words) <= 8_000 else []
                made.words[0] += sum(line in view for line in lines)
                made.words[1] += len(lines)


def _recalls(engine: Compactor, text: str) -> bool:
    try:
        return any(text in entry.text for entry in engine.recall(text))
    except RecallError:
        return False
