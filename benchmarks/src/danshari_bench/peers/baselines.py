"""Simple baselines without an environment: newest results, masking, first and last part of each result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from danshari.replay.simulate import CompactFunction, Contender, ContenderSetting

KEEP_RESULTS = 10
"""Results kept by keep-last; the window that was published as harmless for one scaffold and ruinous for another."""
BATCH_KEEP, BATCH = 4, 8
"""Results kept, and rounds between two changes, of the batched form."""
END_CHARACTERS = 2_000
"""Characters of head and tail kept at arrival."""
MASKING_EVENTS = 10
"""Events kept by OpenHands' observation masking (the default of its configuration)."""
_CLEARED = "[old tool result cleared]"
_MASKED = "<MASKED>"


def keep_last(setting: ContenderSetting) -> CompactFunction:
    """Blank all results but the newest: 10, or as many as the budget holds."""

    def compact(messages: list[Any]) -> Sequence[Any]:
        results = _result_places(messages)
        keep = KEEP_RESULTS if setting.budget is None else _count_fitting(messages, results, setting.budget)
        return _blank_results(messages, results[: max(len(results) - keep, 0)])

    return _reuse_messages(compact)


def keep_last_batched(setting: ContenderSetting) -> CompactFunction:
    """Blank all results but the newest 4 (or what the budget holds), moving the limit only every 8 rounds."""
    border = rounds = 0

    def compact(messages: list[Any]) -> Sequence[Any]:
        nonlocal border, rounds
        results = _result_places(messages)
        if rounds % BATCH == 0:
            keep = BATCH_KEEP if setting.budget is None else _count_fitting(messages, results, setting.budget)
            border = max(border, len(results) - keep)
        rounds += 1
        return _blank_results(messages, results[:border])

    return _reuse_messages(compact)


def openhands_masking(events: int, setting: ContenderSetting) -> CompactFunction:
    """Mask every result before the newest events, as OpenHands did up to 1.6.0 (a call is an event too).

    That version also dropped the turns whose results were masked; here, as in the papers, calls stay.
    """
    del setting

    def compact(messages: list[Any]) -> Sequence[Any]:
        left, border = events, len(messages)
        while border > 0 and left > 0:
            border -= 1
            left -= max(1, len(messages[border].get("tool_calls") or ()))
        shown = list(messages)
        for at in _result_places(messages):
            if at < border:
                shown[at] = {**messages[at], "content": _MASKED}
        return shown

    return _reuse_messages(compact)


def masking_contender(events: int = MASKING_EVENTS) -> Contender:
    """Return the masking contender for a window of `events`; other windows than the default are in its name."""
    return Contender(
        name="openhands-masking" if events == MASKING_EVENTS else f"openhands-masking:{events}",
        about=f"OpenHands observation masking, newest {events} events",
        start=partial(openhands_masking, events),
        format="openai-chat",
    )


def keep_ends(setting: ContenderSetting) -> CompactFunction:
    """Keep only the first and last part of every result."""
    del setting

    def compact(messages: list[Any]) -> Sequence[Any]:
        return [_cut_middle(m) if m.get("role") == "tool" else m for m in messages]

    return _reuse_messages(compact)


def _reuse_messages(compact: Callable[[list[Any]], Sequence[Any]]) -> CompactFunction:
    """Wrap a baseline so that equal messages are returned as the same objects, which makes scoring faster."""
    known: dict[tuple[int, str], Any] = {}

    def compact_again(messages: list[Any]) -> Sequence[Any]:
        shown = []
        for source, message in zip(messages, compact(messages), strict=True):
            if source is message:
                shown.append(message)
            else:
                shown.append(known.setdefault((id(source), message["content"]), message))
        return shown

    return compact_again


def _result_places(messages: Sequence[Any]) -> list[int]:
    return [at for at, m in enumerate(messages) if m.get("role") == "tool"]


def _count_fitting(messages: Sequence[Any], results: Sequence[int], budget: int) -> int:
    """Return how many of the newest results fit the budget (tokens, at four characters each)."""
    left = budget - sum(len(str(m)) for m in messages if m.get("role") != "tool") / 4
    for kept, at in enumerate(reversed(results)):
        left -= len(str(messages[at].get("content"))) / 4
        if left < 0:
            return max(kept, 1)
    return len(results)


def _blank_results(messages: list[Any], places: Sequence[int]) -> list[Any]:
    shown = list(messages)
    for at in places:
        content = messages[at].get("content")
        if not isinstance(content, str) or len(content) > len(_CLEARED):
            shown[at] = {**messages[at], "content": _CLEARED}
    return shown


def _cut_middle(message: Any) -> Any:
    text = message.get("content")
    if not isinstance(text, str) or len(text) <= END_CHARACTERS + 100:
        return message
    half = END_CHARACTERS // 2
    return {**message, "content": f"{text[:half]}\n[{len(text) - END_CHARACTERS} characters cut]\n{text[-half:]}"}


BASELINES: tuple[Contender, ...] = (
    Contender(
        name="keep-last", about=f"newest {KEEP_RESULTS} results", start=keep_last, format="openai-chat", budgeted=True
    ),
    Contender(
        name="keep-last-batched",
        about=f"newest {BATCH_KEEP} results, moved every {BATCH} rounds",
        start=keep_last_batched,
        format="openai-chat",
        budgeted=True,
    ),
    masking_contender(),
    Contender(
        name="ends",
        about=f"first and last {END_CHARACTERS // 2} characters of each result",
        start=keep_ends,
        format="openai-chat",
    ),
)
