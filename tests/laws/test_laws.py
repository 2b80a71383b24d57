"""The laws of every view, over generated sessions run round by round; `make laws` draws 10,000 sessions for each."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from danshari import Compactor, compact
from danshari.archive import MemoryArchive
from danshari.compaction import Compaction
from danshari.core.edits import Drop, Fold, Replace, digest_items, edit_from_dict, edit_to_dict, view
from danshari.formats import find_format
from danshari.formats.building import unique_call_ids
from tests.support.every_view import cuts, judge
from tests.support.strategies import FORMATS, Setting, odd_messages, sessions, settings_of_runs

Session = tuple[str, list[Any]]


SHARDS = 4
"""The two long laws run in shards, so that two cores share them."""


def compactor(session: Session, setting: Setting, **more: Any) -> Compactor:
    return Compactor(
        setting.policy,
        model=setting.model,
        window=setting.window,
        prices=setting.prices,
        format=session[0],
        clock=lambda: 0.0,
        **more,
    )


def run(session: Session, setting: Setting) -> Iterator[tuple[Compactor, list[Any], Compaction]]:
    """Live through a session: one compaction before every model call."""
    engine = compactor(session, setting)
    for number, at in enumerate(cuts(session)):
        source = session[1][:at]
        yield engine, source, engine.compact(source, force=setting.force and number % 3 == 2)


@given(sessions())
def test_lens_identity(session: Session) -> None:
    """Writing what was read gives the same objects."""
    wire = find_format(session[0])
    written = wire.write(session[1], view(wire.read(session[1]), ()))
    assert len(written) == len(session[1])
    assert all(a is b for a, b in zip(written, session[1], strict=True))


@pytest.mark.parametrize("shard", range(SHARDS))
@settings(parent=settings(), max_examples=max(settings().max_examples // SHARDS, 1))
@given(sessions(), settings_of_runs)
def test_every_view(shard: int, session: Session, setting: Setting) -> None:
    """One run of a session, every request judged by all laws of `every_view`; the caller's messages stay as they were."""
    before = copy.deepcopy(session[1])
    last: list[Any] = []
    for engine, source, result in run(session, setting):
        last = judge(engine, source, result, find_format(session[0]), last)
    assert session[1] == before


@pytest.mark.parametrize("shard", range(SHARDS))
@settings(parent=settings(), max_examples=max(settings().max_examples // SHARDS, 1))
@given(sessions(), settings_of_runs, st.integers(0, 8))
def test_twins(shard: int, session: Session, setting: Setting, when: int) -> None:
    """The same bytes: again, from a re-parsed history, saved and loaded in mid-way, in replace mode, and async."""
    plain = [result.messages for _, _, result in run(session, setting)]
    assert plain == [result.messages for _, _, result in run(session, setting)], "determinism"
    again = (session[0], [dict(reversed(m.items())) for m in json.loads(json.dumps(session[1]))])
    assert plain == [result.messages for _, _, result in run(again, setting)], "re-parsed history"
    assert plain == _saved(session, setting, when), "save and load"
    assert plain == asyncio.run(_async(session, setting)), "sync is async"
    viewed = [result.messages for _, _, result in run(session, replace(setting, force=False))]
    assert viewed == _stored(session, setting), "replace mode is view mode"


def _saved(session: Session, setting: Setting, when: int) -> list[Any]:
    engine = compactor(session, setting)
    found = []
    for number, at in enumerate(cuts(session)):
        if number == when:
            saved = engine.save()
            engine = compactor(session, setting)
            engine.load(saved)
        found.append(engine.compact(session[1][:at], force=setting.force and number % 3 == 2).messages)
    return found


async def _async(session: Session, setting: Setting) -> list[Any]:
    engine = compactor(session, setting)
    return [
        (await engine.acompact(session[1][:at], force=setting.force and number % 3 == 2)).messages
        for number, at in enumerate(cuts(session))
    ]


def _stored(session: Session, setting: Setting) -> list[Any]:
    engine = compactor(session, setting, mode="replace")
    held: list[Any] = []
    found, last = [], 0
    for at in cuts(session):
        held = list(engine.compact(copy.deepcopy([*held, *session[1][last:at]])).messages)
        found.append(held)
        last = at
    return found


@given(sessions(), settings_of_runs)
def test_idempotence(session: Session, setting: Setting) -> None:
    """Compacting a compacted list without any state gives the same list."""
    fixed = {"policy": setting.policy, "model": setting.model, "window": 400_000, "format": session[0]}
    once = compact(session[1], **fixed)
    assert compact(once.messages, **fixed).messages == once.messages


@given(sessions(), settings_of_runs)
def test_undo(session: Session, setting: Setting) -> None:
    """Undo shows again what the last batch changed, and nothing is lost."""
    engine = compactor(session, setting)
    after = compact_until_committed(engine, session)
    assume(after is not None)
    start, end = engine.session.batches[-1]
    batch = engine.session.ledger[start:end]
    undone = engine.undo()
    effects = engine.view().effects
    index = {item.id: at for at, item in enumerate(engine.view().items)}
    assert not any(effects.texts.get(index[e.id]) == e for e in batch if isinstance(e, Replace))
    assert undone.after >= after


def compact_until_committed(engine: Compactor, session: Session) -> float | None:
    """Compact before every model call until a batch is committed, at last by force; give the size it left, or None."""
    forces: list[Any] = [*[None for _ in cuts(session)], True, "full"]
    for at, force in zip([*cuts(session), len(session[1]), len(session[1])], forces, strict=True):
        before = engine.session.commits
        after = engine.compact(session[1][:at], force=force).after
        if engine.session.commits > before:
            return after
    return None


@given(odd_messages(), settings_of_runs)
def test_odd_content_passes(messages: list[Any], setting: Setting) -> None:
    """Whatever the messages hold: no exception, no changed input; the fault, if any, is said."""
    before = copy.deepcopy(messages)
    engine = Compactor(setting.policy, model=setting.model, window=setting.window)
    result = engine.compact(messages)
    assert messages == before
    assert result.ok, result.fault
    assert compact(messages, policy=setting.policy).ok


@given(sessions())
def test_edits_are_data(session: Session) -> None:
    """Edits survive JSON; a ledger over another history is void and changes nothing."""
    engine = Compactor("literal", format=session[0])
    engine.compact(session[1])
    ledger = engine.session.ledger
    again = tuple(edit_from_dict(json.loads(json.dumps(edit_to_dict(e)))) for e in ledger)
    assert again == ledger
    other = find_format(session[0]).read(session[1][:1])
    assert not view(other, ledger).effects.texts


@given(sessions(), st.integers(0, 10), st.integers(1, 6))
def test_fold_and_drop(session: Session, start: int, length: int) -> None:
    """A fold or drop of whole rounds leaves a valid payload that reads as its view."""
    wire = find_format(session[0])
    items = wire.read(session[1])
    closed = sorted({i.turn for i in items if i.role == "assistant" and i.turn < items[-1].turn})
    assume(closed)
    start %= len(closed)
    turns = closed[start : start + length]
    span = [at for at, i in enumerate(items) if i.turn in turns and i.role in ("assistant", "tool")]
    first, last = items[span[0]].id, items[span[-1]].id
    keep = tuple(i.id for i in items[span[0] : span[-1] + 1] if i.role in ("user", "system"))
    fold = Fold(first=first, last=last, keep=keep, text="HAND-OVER", covers=digest_items(items[span[0] : span[-1] + 1]))
    for edit in (fold, Drop(first=first, last=last)):
        shown = view(items, [edit])
        written = wire.write(session[1], shown)
        known = {(p.rule, p.text) for p in wire.check(session[1])}
        assert [str(p) for p in wire.check(written) if (p.rule, p.text) not in known] == []
        texts = [i.text for i in wire.read(written)]
        assert ("HAND-OVER" in "\n".join(texts)) == isinstance(edit, Fold)


@pytest.mark.parametrize("name", FORMATS)
@given(session=sessions())
def test_conversion_carries_words_and_pairs(name: str, session: Session) -> None:
    """Converting keeps texts, calls and results; what is lost is named."""
    from danshari import convert

    converted = convert(session[1], name, source=session[0])
    assert find_format(name).check(converted.payload) == [] or session[0] == name
    old = unique_call_ids(find_format(session[0]).read(session[1]))
    new = unique_call_ids(find_format(name).read(converted.payload))

    def kinds(items: Any) -> list[tuple[str, str]]:
        return sorted(
            (i.kind, i.call or i.text.strip())
            for i in items
            if i.kind in ("call", "result", "text") and (i.call or i.text.strip())
        )

    assert kinds(old) == kinds(new)


def test_an_archive_given_by_the_caller_is_used() -> None:
    """Conservation holds for the caller's own archive too."""
    own = MemoryArchive()
    engine = Compactor("literal", archive=own)
    messages = [{"role": "user", "content": "go"}]
    for n in range(8):
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"{n} " * 400},
        ]
    result = engine.compact(messages)
    assert len(own) == 2 * len(result.edits) == 8  # texts, and the messages that held them
