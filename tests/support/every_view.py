"""The laws of every view, each a named function; one run of a session is judged by all of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from danshari import Compactor
from danshari.compaction import Compaction
from danshari.core.edits import Fold, Replace, find_stale_reasoning
from danshari.core.handover import PASTE_LIMIT
from danshari.formats import find_format
from danshari.formats.base import Format
from danshari.testing import find_lost_words, view_differences


@dataclass
class Step:
    """One request of a run, with the one before it."""

    engine: Compactor
    source: list[Any]
    result: Compaction
    wire: Format
    last: list[Any] = field(default_factory=list)
    """The messages of the request before, copied then."""

    def edited(self) -> list[int]:
        effects = self.engine.view().effects
        return [*effects.texts, *effects.gone]


def no_fault(step: Step) -> None:
    """Nothing goes wrong inside."""
    assert step.result.ok, step.result.fault


def read_after_write(step: Step) -> None:
    """The written payload reads as the view."""
    assert view_differences(step.wire, step.result.messages, step.engine.view()) == []


def valid(step: Step) -> None:
    """Every view is one that its provider accepts: pairing, order, arguments, content, encoding."""
    known = {(p.rule, p.text) for p in step.wire.check(step.source)}
    assert [str(p) for p in step.wire.check(step.result.messages) if (p.rule, p.text) not in known] == []


def whole_rounds(step: Step) -> None:
    """A round is shown with all its calls and results, or not at all."""
    shown = step.engine.view()
    parts: dict[int, set[bool]] = {}
    kept = {i for _, fold in shown.effects.folds.values() for i in fold.keep}
    for at, item in enumerate(shown.items):
        if item.kind in ("call", "result") and item.id not in kept:
            parts.setdefault(item.turn, set()).add(shown.effects.is_shown(at))
    assert all(len(states) == 1 for states in parts.values())


def newest_round(step: Step) -> None:
    """The newest assistant turn is never touched; its results only at first sight."""
    shown = step.engine.view()
    edited = [at for at in step.edited() if shown.items[at].turn == shown.items[-1].turn]
    if (
        step.engine.policy.handover.shape == "seed"
    ):  # it summarises everything but the system prompt, and the policy says so
        edited = [at for at in edited if not isinstance(shown.effects.gone.get(at), Fold)]
    thinking = [at for at in edited if shown.items[at].kind == "reasoning"]
    results = [at for at in edited if shown.items[at].kind != "reasoning"]
    assert all(shown.effects.texts[at].by == "binding" for at in thinking), "its loop is closed, its prefix changed"
    pastes = {at for at in results if len(shown.items[at].text) > PASTE_LIMIT and shown.items[at].role == "user"}
    assert all(shown.items[at].role == "tool" for at in results if at not in pastes)
    assert all(shown.effects.texts[at].by == "admit" for at in results)


def thinking_binding(step: Step) -> None:
    """On models that bind thinking no dead block is sent, unless the hints that make the provider drop it are."""
    items = step.engine.view().items
    index = {item.id: at for at, item in enumerate(items)}
    dead = find_stale_reasoning(step.engine.session.ledger, step.engine.view().effects, items, index)
    assert dead == [] or step.result.hints or not step.engine.model.binding


def untouched_same_objects(step: Step) -> None:
    """A message that no edit touches leaves as the caller's own object."""
    items = step.engine.view().items
    touched = {items[at].at[0] for at in step.edited()}
    for start in step.engine.view().effects.folds:  # a hand-over is a paragraph of the message before it
        before = [i.at[0] for i in items[:start] if i.at[0] not in touched]
        touched.update(before[-1:])
    left = {id(m) for m in step.result.messages}
    assert all(id(m) in left for at, m in enumerate(step.source) if at not in touched)


def prefix_stability(step: Step) -> None:
    """A request begins with the bytes of the one before, unless an edit of something older was committed between."""
    fresh = [e for e in step.result.edits if isinstance(e, Replace) and e.by == "admit"]
    older = len(step.result.edits) > len(fresh)
    assert older or list(step.result.messages)[: len(step.last)] == step.last


def user_words(step: Step) -> None:
    """What the user and the system wrote stays word for word."""
    assert find_lost_words(step.source, step.result, step.wire) == []


def protection(step: Step) -> None:
    """Protected tools' calls and results are never touched."""
    items = step.engine.view().items
    edited = [at for at in step.edited() if items[at].kind in ("call", "result")]
    if step.engine.policy.handover.shape == "seed":
        edited = [at for at in edited if at in step.engine.view().effects.texts]
    assert not any(items[at].name == "Skill" for at in edited)


def conservation(step: Step) -> None:
    """The original of every edited item is in the archive, byte for byte; of what has no text, its JSON."""
    items = [step.engine.view().items[at] for at in step.edited()]
    texts = [i.text if i.text or i.raw is None else json.dumps(i.raw, ensure_ascii=False, default=str) for i in items]
    assert [step.engine.archive.get(i.digest).text for i in items] == texts


def never_longer(step: Step) -> None:
    """An edit is shorter than what it replaces, and the view never larger than the source."""
    shown = step.engine.view()
    assert all(len(e.text) < len(shown.items[at].text) or not e.text for at, e in shown.effects.texts.items())
    assert step.result.after <= step.result.before


def the_purse(step: Step) -> None:
    """Where nothing forced a commit, the session costs at most (1 + purse) times doing nothing."""
    account, policy = step.engine.session.account, step.engine.policy
    free = policy.commit.mode != "gain" or forced_ever(step)
    assert free or account.spent <= (1 + policy.commit.purse) * account.untouched + 1e-6


def forced_ever(step: Step) -> bool:
    """Say whether pressure, or the user, took the decision out of the planner's hands at some time."""
    engine = step.engine
    return engine.model.window < 400_000 or any(e.by in ("evict", "summarize") for e in engine.session.ledger)


LAWS: tuple[Callable[[Step], None], ...] = (
    no_fault, read_after_write, valid, whole_rounds, newest_round, thinking_binding, untouched_same_objects,
    prefix_stability, user_words, protection, conservation, never_longer, the_purse,
)  # fmt: skip


def judge(engine: Compactor, source: list[Any], result: Compaction, wire: Format, last: list[Any]) -> list[Any]:
    """Hold one request against all laws; give its messages, copied, for the next step."""
    step = Step(engine, source, result, wire, last)
    for law in LAWS:
        law(step)
    return copy.deepcopy(list(result.messages))


def cuts(session: tuple[str, list[Any]]) -> list[int]:
    """List where a model call happens: before every assistant turn, and at the end."""
    wire = find_format(session[0])
    before: Any = None
    found = []
    for at, message in enumerate(session[1]):
        if at and wire.begins_turn(message, before):
            found.append(at)
        before = message
    return [*found, len(session[1])]
