"""The plain policies everyone knows, without an environment: keep the last N, in steps, head and tail at arrival."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from danshari.replay.simulate import Compact, Contender, Setting

KEEP = 10
"""Results kept by keep-last; the window that was published as harmless for one scaffold and ruinous for another."""
BATCH_KEEP, BATCH = 4, 8
"""Results kept, and rounds between two changes, of the batched form."""
ENDS = 2_000
"""Characters of head and tail kept at arrival."""
EVENTS = 10
"""Events kept by OpenHands' observation masking (the default of its configuration)."""
_CLEARED = "[old tool result cleared]"
_MASKED = "<MASKED>"


def keep_last(setting: Setting) -> Compact:
    """Blank all but the newest results: 10, or as many as the budget holds."""

    def compact(messages: list[Any]) -> Sequence[Any]:
        results = _results(messages)
        keep = KEEP if setting.budget is None else _fitting(messages, results, setting.budget)
        return _blanked(messages, results[: max(len(results) - keep, 0)])

    return _remembering(compact)


def keep_last_batched(setting: Setting) -> Compact:
    """Blank all but the newest 4 results (or what the budget holds), but move the border only every 8 rounds."""
    border = rounds = 0

    def compact(messages: list[Any]) -> Sequence[Any]:
        nonlocal border, rounds
        results = _results(messages)
        if rounds % BATCH == 0:
            keep = BATCH_KEEP if setting.budget is None else _fitting(messages, results, setting.budget)
            border = max(border, len(results) - keep)
        rounds += 1
        return _blanked(messages, results[:border])

    return _remembering(compact)


def openhands_masking(events: int, setting: Setting) -> Compact:
    """Mask every result before the newest events, as OpenHands did up to 1.6.0 (a call is an event too).

    On the wire that version also dropped the turns whose results were masked; here, as in the papers, calls stay.
    """
    del setting

    def compact(messages: list[Any]) -> Sequence[Any]:
        left, border = events, len(messages)
        while border > 0 and left > 0:
            border -= 1
            left -= max(1, len(messages[border].get("tool_calls") or ()))
        shown = list(messages)
        for at in _results(messages):
            if at < border:
                shown[at] = {**messages[at], "content": _MASKED}
        return shown

    return _remembering(compact)


def masking(events: int = EVENTS) -> Contender:
    """Make the contender with another window; the name says so."""
    return Contender(
        name="openhands-masking" if events == EVENTS else f"openhands-masking:{events}",
        about=f"OpenHands observation masking, newest {events} events",
        start=partial(openhands_masking, events),
        format="openai-chat",
    )


def ends(setting: Setting) -> Compact:
    """Keep the first and last part of every result from the moment it arrives."""
    del setting

    def compact(messages: list[Any]) -> Sequence[Any]:
        return [_cut(m) if m.get("role") == "tool" else m for m in messages]

    return _remembering(compact)


def _remembering(compact: Callable[[list[Any]], Sequence[Any]]) -> Compact:
    """Give equal messages back as the same objects, so that looking at a view costs only what changed."""
    known: dict[tuple[int, str], Any] = {}

    def again(messages: list[Any]) -> Sequence[Any]:
        shown = []
        for source, message in zip(messages, compact(messages), strict=True):
            if source is message:
                shown.append(message)
            else:
                shown.append(known.setdefault((id(source), message["content"]), message))
        return shown

    return again


def _results(messages: Sequence[Any]) -> list[int]:
    return [at for at, m in enumerate(messages) if m.get("role") == "tool"]


def _fitting(messages: Sequence[Any], results: Sequence[int], budget: int) -> int:
    left = budget - sum(len(str(m)) for m in messages if m.get("role") != "tool") / 4
    for kept, at in enumerate(reversed(results)):
        left -= len(str(messages[at].get("content"))) / 4
        if left < 0:
            return max(kept, 1)
    return len(results)


def _blanked(messages: list[Any], places: Sequence[int]) -> list[Any]:
    shown = list(messages)
    for at in places:
        content = messages[at].get("content")
        if not isinstance(content, str) or len(content) > len(_CLEARED):
            shown[at] = {**messages[at], "content": _CLEARED}
    return shown


def _cut(message: Any) -> Any:
    text = message.get("content")
    if not isinstance(text, str) or len(text) <= ENDS + 100:
        return message
    half = ENDS // 2
    return {**message, "content": f"{text[:half]}\n[{len(text) - ENDS} characters cut]\n{text[-half:]}"}


BASELINES: tuple[Contender, ...] = (
    Contender(name="keep-last", about=f"newest {KEEP} results", start=keep_last, format="openai-chat", budgeted=True),
    Contender(
        name="keep-last-batched",
        about=f"newest {BATCH_KEEP} results, moved every {BATCH} rounds",
        start=keep_last_batched,
        format="openai-chat",
        budgeted=True,
    ),
    masking(),
    Contender(name="ends", about=f"first and last {ENDS // 2} characters of each result", start=ends,
              format="openai-chat"),
)  # fmt: skip
