"""The laws of every view, over generated sessions run round by round. `make laws` draws 10,000 sessions for each."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from danshari import Compactor, compact
from danshari.archive import MemoryArchive
from danshari.compaction import Compaction
from danshari.core.edits import Drop, Fold, Replace, covering, dead_reasoning, edit_from_dict, edit_to_dict, view
from danshari.core.placeholder import is_ours
from danshari.formats import named
from danshari.testing import broken_promises, reads_as

from .strategies import FORMATS, Setting, odd_messages, sessions, settings_of_runs

Session = tuple[str, list[Any]]


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


def cuts(session: Session) -> list[int]:
    wire = named(session[0])
    before: Any = None
    found = []
    for at, message in enumerate(session[1]):
        if at and wire.begins_turn(message, before):
            found.append(at)
        before = message
    return [*found, len(session[1])]


def run(session: Session, setting: Setting) -> Iterator[tuple[Compactor, list[Any], Compaction]]:
    """Live through a session: one compaction before every model call."""
    engine = compactor(session, setting)
    for number, at in enumerate(cuts(session)):
        source = session[1][:at]
        yield engine, source, engine.compact(source, force=setting.force and number % 3 == 2)


@given(sessions())
def test_lens_identity(session: Session) -> None:
    """Writing what was read gives the same objects."""
    wire = named(session[0])
    written = wire.write(session[1], view(wire.read(session[1]), ()))
    assert len(written) == len(session[1])
    assert all(a is b for a, b in zip(written, session[1], strict=True))


@given(sessions(), settings_of_runs)
def test_no_fault(session: Session, setting: Setting) -> None:
    """Nothing goes wrong inside on well-formed sessions."""
    for _, _, result in run(session, setting):
        assert result.ok, result.fault


@given(sessions(), settings_of_runs)
def test_read_after_write(session: Session, setting: Setting) -> None:
    """The written payload reads as the view."""
    for engine, _, result in run(session, setting):
        assert reads_as(named(session[0]), result.messages, engine.view()) == []


@given(sessions(), settings_of_runs)
def test_valid(session: Session, setting: Setting) -> None:
    """Every view is one that its provider accepts: pairing, order, arguments, content, encoding."""
    wire = named(session[0])
    for _, source, result in run(session, setting):
        known = {(p.rule, p.text) for p in wire.check(source)}
        assert [str(p) for p in wire.check(result.messages) if (p.rule, p.text) not in known] == []


@given(sessions(), settings_of_runs)
def test_whole_rounds(session: Session, setting: Setting) -> None:
    """A round is shown with all its calls and results, or not at all."""
    for engine, _, _ in run(session, setting):
        shown = engine.view()
        parts: dict[int, set[bool]] = {}
        for at, item in enumerate(shown.items):
            if item.kind in ("call", "result"):
                parts.setdefault(item.turn, set()).add(shown.effects.shown(at))
        assert all(len(states) == 1 for states in parts.values())


@given(sessions(), settings_of_runs)
def test_newest_round(session: Session, setting: Setting) -> None:
    """The newest assistant turn is never touched; its results only at first sight."""
    for engine, _, _ in run(session, setting):
        shown = engine.view()
        newest = shown.items[-1].turn
        for at in {*shown.effects.texts, *shown.effects.gone}:
            item = shown.items[at]
            if item.turn == newest:
                assert item.role == "tool"
                assert shown.effects.texts[at].by == "admit"


@given(sessions(), settings_of_runs)
def test_thinking_binding(session: Session, setting: Setting) -> None:
    """On models that bind thinking no dead block is sent, unless the hints that make the provider drop it are."""
    for engine, _, result in run(session, setting):
        if engine.model.binding and not result.hints:
            items = engine.view().items
            index = {item.id: at for at, item in enumerate(items)}
            assert dead_reasoning(engine.session.ledger, engine.view().effects, items, index) == []


@given(sessions(), settings_of_runs)
def test_purity(session: Session, setting: Setting) -> None:
    """The caller's list and messages are never changed."""
    before = copy.deepcopy(session[1])
    for _ in run(session, setting):
        pass
    assert session[1] == before


@given(sessions(), settings_of_runs)
def test_untouched_stay_the_same_objects(session: Session, setting: Setting) -> None:
    """A message that no edit touches leaves as the caller's own object."""
    for engine, source, result in run(session, setting):
        shown = engine.view()
        touched = {shown.items[at].at[0] for at in {*shown.effects.texts, *shown.effects.gone}}
        left = {id(m) for m in result.messages}
        assert all(id(m) in left for at, m in enumerate(source) if at not in touched)


@given(sessions(), settings_of_runs)
def test_prefix_stability(session: Session, setting: Setting) -> None:
    """A request begins with the bytes of the one before, unless an edit of something older was committed between."""
    last: list[Any] = []
    for engine, _, result in run(session, setting):
        messages = list(result.messages)
        fresh = {e.id for e in result.edits if isinstance(e, Replace) and e.by == "admit"}
        if len(fresh) == len(result.edits):
            assert messages[: len(last)] == last
        last = copy.deepcopy(messages)
        assert engine.session.sent == len(engine.view().items)


@given(sessions(), settings_of_runs)
def test_determinism(session: Session, setting: Setting) -> None:
    """The same calls give the same bytes."""
    first = [json.dumps(result.messages) for _, _, result in run(session, setting)]
    assert first == [json.dumps(result.messages) for _, _, result in run(session, setting)]


@given(sessions(), settings_of_runs)
def test_reparsed_history(session: Session, setting: Setting) -> None:
    """An equal, re-parsed history with other key order gives the same view."""
    plain = [result.messages for _, _, result in run(session, setting)]
    again = (session[0], [dict(reversed(m.items())) for m in json.loads(json.dumps(session[1]))])
    assert plain == [result.messages for _, _, result in run(again, setting)]


@given(sessions(), settings_of_runs, st.integers(0, 12))
def test_save_and_load(session: Session, setting: Setting, when: int) -> None:
    """A session saved and loaded in mid-way goes on to the byte."""
    plain = [result.messages for _, _, result in run(session, setting)]
    engine = compactor(session, setting)
    for number, at in enumerate(cuts(session)):
        if number == when:
            saved = engine.save()
            engine = compactor(session, setting)
            engine.load(saved)
        result = engine.compact(session[1][:at], force=setting.force and number % 3 == 2)
        assert result.messages == plain[number]


@given(sessions(rounds=4), settings_of_runs)
def test_sync_is_async(session: Session, setting: Setting) -> None:
    """Both colours give the same result."""
    one, two = compactor(session, setting), compactor(session, setting)

    async def live() -> list[Any]:
        return [(await two.acompact(session[1][:at])).messages for at in cuts(session)]

    assert [one.compact(session[1][:at]).messages for at in cuts(session)] == asyncio.run(live())


@given(sessions(), settings_of_runs)
def test_user_words(session: Session, setting: Setting) -> None:
    """What the user and the system wrote stays word for word."""
    for _, source, result in run(session, setting):
        assert broken_promises(source, result, named(session[0])) == []


@given(sessions(), settings_of_runs)
def test_protection(session: Session, setting: Setting) -> None:
    """Protected tools' calls and results are never touched."""
    for engine, _, _ in run(session, setting):
        shown = engine.view()
        assert not any(
            shown.items[at].name == "Skill"
            for at in {*shown.effects.texts, *shown.effects.gone}
            if shown.items[at].kind in ("call", "result")
        )


@given(sessions(), settings_of_runs)
def test_conservation(session: Session, setting: Setting) -> None:
    """The original of every edited item is in the archive, byte for byte."""
    for engine, _, _ in run(session, setting):
        shown = engine.view()
        for at in {*shown.effects.texts, *shown.effects.gone}:
            item = shown.items[at]
            assert engine.archive.get(item.digest).text == item.text


@given(sessions(), settings_of_runs)
def test_never_longer(session: Session, setting: Setting) -> None:
    """An edit is shorter than what it replaces, and the view never larger than the source."""
    for engine, _, result in run(session, setting):
        shown = engine.view()
        assert all(len(e.text) < len(shown.items[at].text) or not e.text for at, e in shown.effects.texts.items())
        assert result.after <= result.before


@given(sessions(), settings_of_runs)
def test_idempotence(session: Session, setting: Setting) -> None:
    """Compacting a compacted list without any state changes nothing more."""
    once = compact(session[1], policy=setting.policy, model=setting.model, window=400_000, format=session[0])
    twice = compact(once.messages, policy=setting.policy, model=setting.model, window=400_000, format=session[0])
    assert [e for e in twice.edits if is_ours(_text(twice, e))] == []
    thrice = compact(twice.messages, policy=setting.policy, model=setting.model, window=400_000, format=session[0])
    assert thrice.after <= twice.after <= once.after


def _text(result: Compaction, edit: Any) -> str:
    items = {i.id: i.text for i in named(result.format).read(result.messages)}
    return items.get(getattr(edit, "id", ""), "")


@given(sessions(), settings_of_runs)
def test_replace_mode_is_view_mode(session: Session, setting: Setting) -> None:
    """A caller that stores what we return gets the views that a caller of the full history gets."""
    viewing = compactor(session, setting)
    storing = compactor(session, setting, mode="replace")
    held: list[Any] = []
    last = 0
    for at in cuts(session):
        held = [*held, *session[1][last:at]]
        last = at
        shown = viewing.compact(session[1][:at]).messages
        held = list(storing.compact(copy.deepcopy(held)).messages)
        assert held == shown


@given(sessions(), settings_of_runs)
def test_undo(session: Session, setting: Setting) -> None:
    """Undo shows again what the last batch changed, and nothing is lost."""
    engine = compactor(session, setting)
    for at in cuts(session):
        before = engine.session
        result = engine.compact(session[1][:at])
        if engine.session.commits > before.commits:
            batch = engine.session.ledger[engine.session.undone[-1] :]
            undone = engine.undo()
            effects = engine.view().effects
            index = {item.id: at for at, item in enumerate(engine.view().items)}
            assert not any(index[e.id] in effects.texts for e in batch if isinstance(e, Replace))
            assert undone.after >= result.after
            return


@given(sessions(), settings_of_runs)
def test_the_purse_bounds_the_loss(session: Session, setting: Setting) -> None:
    """Where nothing forces a commit, no session costs more than (1 + purse) times doing nothing."""
    if setting.policy in ("literal", "off") or setting.window < 400_000 or setting.force:
        return
    for engine, _, _ in run(session, setting):
        account = engine.session.account
        assert account.spent <= (1 + engine.policy.purse) * account.untouched + 1e-6


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
    other = named(session[0]).read(session[1][:1])
    assert not view(other, ledger).effects.texts


@given(sessions(), st.integers(0, 10), st.integers(1, 6))
def test_fold_and_drop(session: Session, start: int, length: int) -> None:
    """A fold or drop of whole rounds leaves a valid payload that reads as its view."""
    wire = named(session[0])
    items = wire.read(session[1])
    turns = sorted({i.turn for i in items if i.role == "assistant" and i.turn < items[-1].turn})[start : start + length]
    if not turns:
        return
    span = [at for at, i in enumerate(items) if i.turn in turns and i.role in ("assistant", "tool")]
    first, last = items[span[0]].id, items[span[-1]].id
    keep = tuple(i.id for i in items[span[0] : span[-1] + 1] if i.role in ("user", "system"))
    fold = Fold(first=first, last=last, keep=keep, text="HAND-OVER", covers=covering(items[span[0] : span[-1] + 1]))
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
    assert named(name).check(converted.payload) == [] or session[0] == name
    old, new = named(session[0]).read(session[1]), named(name).read(converted.payload)

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
    assert len(own) == len(result.edits) == 4
