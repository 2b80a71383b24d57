"""Mend what a provider is sure to refuse in a conversation that came in broken: interrupted calls, stray results.

The mend of a message depends on nothing after the next agent turn, so a growing conversation keeps its prefix.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from danshari.core.edits import Mend
from danshari.core.items import Piece
from danshari.core.text import is_valid_text, replace_surrogates
from danshari.formats.base import SHAPE_ERRORS, Format

INTERRUPTED = "[interrupted: this call was never answered; whether it took effect is unknown]"
"""The result that a call gets which has none."""
STRAY = "[a tool result whose call is not in this conversation]"
"""The first line of the user's text that a stray result becomes."""


class Mended(NamedTuple):
    """Messages after mending."""

    messages: list[Any]
    mends: tuple[Mend, ...]
    origins: list[int]
    """For every message the index of the one it came from; for an added one, of the message before it."""


class _Place(NamedTuple):
    """Where a call or a result stands: message, and ordinals of its pieces."""

    message: int
    ordinals: tuple[int, ...]
    piece: Piece


@dataclass(slots=True)
class _Run:
    """Neighbouring messages of the agent: one turn, with its calls and the results found for them."""

    end: int
    """Index of its last message."""
    calls: list[_Place] = field(default_factory=list)
    answers: dict[int, _Place] = field(default_factory=dict)
    """Number of the call → its result."""
    strays: int = 0


def mend_messages(wire: Format, messages: Sequence[Any], waiting: Collection[str] = ()) -> Mended:
    """Return the messages with what the provider would refuse mended; unbroken ones stay the same objects.

    Calls without a result get one that says so, except those whose id is in `waiting`, as long as nothing but results
    follows them. Results far from their calls move to them, and results without a call become text of the user.
    """
    mends: list[Mend] = []
    clean = [_clean_message(wire, message, at, mends) for at, message in enumerate(messages)]
    if not wire.can_answer:
        return Mended(clean, tuple(mends), list(range(len(clean))))
    pieces = [wire.name_calls(wire.split(m), clean, at) for at, m in enumerate(clean)]
    runs, strays = _pair(wire, clean, pieces)
    changes = _Changes({}, {})
    last_near: dict[int, int] = {}
    for run in runs:
        behind = _look_behind(wire, run, pieces)
        last_near |= dict.fromkeys(behind.near, max(behind.near, default=-1))
        if run.calls and not _is_settled(wire, run, behind, waiting):
            _answer_run(wire, run, clean, changes, mends, behind)
    for stray in strays:
        changes.taken.setdefault(stray.message, set()).update(stray.ordinals)
        said = wire.user_message(f"{STRAY}\n{stray.piece.text or '(it held no text)'}")
        changes.added.setdefault(last_near.get(stray.message, stray.message), []).append(said)
        mends.append(Mend(kind="stray result", at=stray.message, text=f"result {stray.piece.call!r} has no call"))
    out, origins = _write(wire, clean, changes)
    return Mended(out, tuple(sorted(mends, key=lambda mend: mend.at)), origins)


def _clean_message(wire: Format, message: Any, at: int, mends: list[Mend]) -> Any:
    """Return the message without half surrogates and without contents that are refused for being empty."""
    plain = wire.as_message(message)
    if not wire.can_answer or not isinstance(plain, Mapping):
        return message
    fixed = _without_surrogates(plain)
    if fixed is not plain:
        mends.append(Mend(kind="half surrogate", at=at, text="half a character cannot be sent; a ? stands for it"))
    try:
        filled = wire.fill_empty(fixed)
    except SHAPE_ERRORS:
        filled = fixed
    if filled is not fixed:
        mends.append(Mend(kind="empty content", at=at, text="nothing in it"))
    return message if filled is plain else filled


def _without_surrogates(value: Any) -> Any:
    """Return a JSON value whose strings can be encoded; the same object if they can already."""
    if isinstance(value, str):
        return value if is_valid_text(value) else replace_surrogates(value)
    if isinstance(value, Mapping):
        made = {key: _without_surrogates(v) for key, v in value.items()}
        return made if any(made[key] is not v for key, v in value.items()) else value
    if isinstance(value, list):
        items = [_without_surrogates(v) for v in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def _pair(wire: Format, clean: Sequence[Any], pieces: Sequence[Sequence[Piece]]) -> tuple[list[_Run], list[_Place]]:
    """Find the agent's turns with their calls, the result of each call, and the results that have none.

    A result belongs to the newest turn with an unanswered call of its id, there to the first such call.
    """
    runs: list[_Run] = []
    strays: list[_Place] = []
    before: Any = None
    for at, parts in enumerate(pieces):
        message = wire.as_message(clean[at])
        known = isinstance(message, Mapping)
        if known and wire.begins_turn(message, before):
            runs.append(_Run(at))
        before = message if known else None
        if runs and any(p.role == "assistant" for p in parts):
            runs[-1].end = at
        for ordinal, piece in enumerate(parts):
            if piece.kind == "call" and runs:
                runs[-1].calls.append(_Place(at, (ordinal,), piece))
            elif piece.kind == "result":
                place = _Place(at, _ordinals_of(parts, ordinal), piece)
                if not _give_answer(runs, place):
                    strays.append(place)
                    if runs:
                        runs[-1].strays += 1
    return runs, strays


def _ordinals_of(parts: Sequence[Piece], ordinal: int) -> tuple[int, ...]:
    """Return the ordinals of a result and of the media inside it."""
    end = ordinal + 1
    while end < len(parts) and parts[end].role == "tool" and parts[end].kind != "result":
        end += 1
    return tuple(range(ordinal, end))


def _give_answer(runs: list[_Run], place: _Place) -> bool:
    """Note the result at the call that it answers; return False if no call waits for it."""
    for run in reversed(runs):
        for number, call in enumerate(run.calls):
            if call.piece.call == place.piece.call and number not in run.answers:
                run.answers[number] = place
                return True
    return False


class _Behind(NamedTuple):
    """What stands behind a turn."""

    near: set[int]
    """Messages with the results that stand right behind it."""
    results: int
    """Number of results in them."""
    end: int
    """The last message that holds nothing but results, or what may stand between; the turn's own if there is none."""
    followed: bool
    """Whether anything but results follows, so that nobody is about to add more of them."""


def _look_behind(wire: Format, run: _Run, pieces: Sequence[Sequence[Piece]]) -> _Behind:
    """Collect the results right behind a turn, up to the first piece of another kind."""
    near: set[int] = set()
    results, end = 0, run.end
    for at in range(run.end + 1, len(pieces)):
        for piece in pieces[at]:
            if piece.kind == "result":
                near.add(at)
                results += 1
            elif piece.role != "tool" and not (piece.role == "system" and wire.system_between):
                return _Behind(near, results, end, followed=True)
        end = at
    return _Behind(near, results, end, followed=False)


def _is_settled(wire: Format, run: _Run, behind: _Behind, waiting: Collection[str]) -> bool:
    """Return whether the provider takes a turn as it is: each call answered at its place, or about to be answered."""
    missing = [c.piece.call for number, c in enumerate(run.calls) if number not in run.answers]
    if missing and not behind.followed and not run.strays:
        return all(call in waiting for call in missing)
    if not wire.answers_follow:
        return not missing
    near = all(answer.message in behind.near for answer in run.answers.values())
    return near and behind.results == len(run.answers) == len(run.calls)


class _Changes(NamedTuple):
    """What leaves messages, and what is put behind them."""

    taken: dict[int, set[int]]
    """Message → ordinals of the pieces that leave it."""
    added: dict[int, list[Any]]
    """Message → the messages put behind it."""


def _answer_run(
    wire: Format,
    run: _Run,
    clean: Sequence[Any],
    changes: _Changes,
    mends: list[Mend],
    behind: _Behind,
) -> None:
    """Put the results of a turn behind it, and one that says so for each call without a result.

    Messages that hold nothing else stay where they are, if they stand right behind the turn.
    """
    found = sorted(run.answers.items(), key=lambda pair: pair[1].message)
    answers: list[Any] = []
    for number, place in found if wire.answers_follow else ():
        if place.message in behind.near and place.message <= behind.end and not wire.one_answer:
            continue
        answers.append(_only(wire, clean[place.message], place.ordinals))
        changes.taken.setdefault(place.message, set()).update(place.ordinals)
        if place.message not in behind.near:
            call = run.calls[number]
            text = f"the result of {call.piece.name} stood at message {place.message}"
            mends.append(Mend(kind="misplaced result", at=call.message, text=text))
    for number, call in enumerate(run.calls):
        if number not in run.answers:
            answers.append(wire.answer(call.piece, INTERRUPTED))
            mends.append(Mend(kind="unanswered call", at=call.message, text=f"{call.piece.name} was never answered"))
    changes.added.setdefault(behind.end, [])[:0] = wire.join_answers(answers)


def _only(wire: Format, message: Any, ordinals: Sequence[int]) -> Any:
    """Return a copy of the message with these pieces alone."""
    plain = wire.as_message(message)
    others = {n: None for n in range(len(wire.split(plain))) if n not in ordinals}
    return wire.patch(plain, others) if others else message


def _write(wire: Format, clean: Sequence[Any], changes: _Changes) -> tuple[list[Any], list[int]]:
    """Return the changed messages, and for each the index of the one it came from or stands behind."""
    out: list[Any] = []
    origins: list[int] = []
    for at, message in enumerate(clean):
        left: Any = message
        if at in changes.taken:
            plain = wire.as_message(message)
            gone = len(changes.taken[at]) == len(wire.split(plain))
            left = None if gone else wire.patch(plain, dict.fromkeys(changes.taken[at]))
        made = [*([] if left is None else [left]), *changes.added.get(at, ())]
        out += made
        origins += [at] * len(made)
    return out, origins
