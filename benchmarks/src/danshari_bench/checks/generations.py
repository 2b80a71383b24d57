"""Five major compactions in a row, with statements inserted that must survive or must disappear.

Rules, facts, decisions and cancellations are put into a recorded session at even distances. After
each fifth the session is compacted in full and continued. Two modes: `kept` uses one compactor in
replace mode with its archive, `bare` a new compactor each time, which sees only the last document
among the messages.
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
from danshari.sessions import RecordedSession
from danshari_bench.checks.handover import isolate_handover

GENERATIONS = 5
PER_GENERATION = 8
"""Statements put into each fifth: 2 rules, 2 facts, 2 decisions, and from the second on 2 that take one back."""
StatementKind = Literal["rule", "fact", "decision", "cancellation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement inserted into a session."""

    what: StatementKind
    text: str
    generation: int
    takes_back: str = ""
    """Text that no longer holds once this was said."""


def make_statements() -> list[Statement]:
    """Return the 40 statements; from the second fifth on, two of each fifth cancel one of the fifth before."""
    found: list[Statement] = []
    for g in range(1, GENERATIONS + 1):
        for n in (1, 2):
            found += [Statement(what="rule", generation=g, text=f"Rule {g}.{n}: never touch table_{g}{n}_old unsaved.")]
            found += [Statement(what="fact", generation=g, text=_fact_text(g, n))]
            found += [Statement(what="decision", generation=g, text=_decision_text(g, n))]
        if g == 1:
            hosts = (f"Confirmed: host_{n}.internal answers first." for n in (1, 2))
            found += [Statement(what="fact", generation=1, text=text) for text in hosts]
            continue
        cache, store = f"cache_{g - 1}1", f"store_{g - 1}1"
        undone = f"Cancelled: {cache} no longer goes into {store}, although it is local; pool_{g} takes it."
        found += [
            Statement(
                what="cancellation",
                generation=g,
                takes_back=_fact_text(g - 1, 1),
                text=_fact_text(g - 1, 1, port=9000 + g),
            ),
            Statement(what="cancellation", generation=g, takes_back=_decision_text(g - 1, 1), text=undone),
        ]
    return found


def _fact_text(g: int, n: int, *, port: int = 0) -> str:
    return f"Confirmed: service svc_{g}{n} listens on port {port or 8000 + 10 * g + n}."


def _decision_text(g: int, n: int) -> str:
    return f"Decided: cache_{g}{n} goes into store_{g}{n}, because it is local."


@dataclass(slots=True, kw_only=True)
class GenerationResult:
    """What became of the inserted statements in one session, for one mode."""

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


def session_parts(session: RecordedSession) -> Iterator[list[Any]]:
    """Yield the session in five parts with the statements inserted."""
    messages = copy.deepcopy(convert(session.messages, "anthropic", source=session.format).payload)
    starts = [n for n, m in enumerate(messages) if m["role"] == "assistant"]
    said = make_statements()
    step = len(starts) / len(said)
    for number, seed in enumerate(said):
        at = starts[int(number * step)]
        if seed.what == "rule":
            _content_blocks(messages[at - 1]).append({"type": "text", "text": seed.text})
        else:
            blocks = _content_blocks(messages[at])
            first = next((n for n, b in enumerate(blocks) if b.get("type") not in ("thinking", "redacted_thinking")), 0)
            blocks.insert(first, {"type": "text", "text": seed.text})
    borders = [starts[int(len(starts) * g / GENERATIONS)] for g in range(GENERATIONS)] + [len(messages)]
    borders[0] = 0
    yield from (messages[a:b] for a, b in pairwise(borders))


def _content_blocks(message: Any) -> list[Any]:
    if isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    blocks: list[Any] = message["content"]
    return blocks


def run_generations(job: tuple[RecordedSession, str]) -> GenerationResult:
    """Run the five compactions on one session in one mode."""
    session, way = job
    made = GenerationResult(session=session.id, way=way)
    policy = replace(isolate_handover(data.load_policy("balanced")), pinned=())
    engine = _make_compactor(session, policy)
    held: list[Any] = []
    text = ""
    for part in session_parts(session):
        if way == "bare":
            engine = _make_compactor(session, policy)
        result = engine.compact([*held, *part], force="full")
        if result.fault:
            made.faults.append(result.fault)
        held = list(result.messages)
        folds = [e.text for e in result.edits if isinstance(e, Fold)]
        if folds:
            text = folds[-1]
            made.sizes.append(len(text))
    _count_statements(made, engine, held, text, session)
    return made


def _make_compactor(session: RecordedSession, policy: Any) -> Compactor:
    return Compactor(
        policy, model=session.model or DEFAULT_MODEL, mode="replace", format="anthropic", clock=lambda: 0.0
    )


def _count_statements(
    made: GenerationResult, engine: Compactor, held: list[Any], document: str, session: RecordedSession
) -> None:
    """Count the statements that the last view holds, that one recall finds, and that are rightly gone."""
    view = "\n".join(str(b.get("text") or b.get("content") or "") for m in held for b in _content_blocks(m))
    back = {seed.takes_back for seed in make_statements() if seed.takes_back}
    for seed in make_statements():
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
            elif _can_recall(engine, seed.text):
                made.recalled += 1
    markers = data.load_markers()
    for item in convert(session.messages, "anthropic", source=session.format).payload:
        if item["role"] == "user":
            for block in _content_blocks(copy.copy(item)):
                words = markers.human_text(block["text"]) if block.get("type") == "text" else ""
                lines = [x for x in words.split("\n") if x.strip()] if len(words) <= 8_000 else []
                made.words[0] += sum(line in view for line in lines)
                made.words[1] += len(lines)


def _can_recall(engine: Compactor, text: str) -> bool:
    """Return whether one recall with the text as query finds it."""
    try:
        return any(text in entry.text for entry in engine.recall(text))
    except RecallError:
        return False
