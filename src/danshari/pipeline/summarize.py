"""Puts a ladder's questions to a summarizer: native requests, warm or flat, with a time limit and a bill."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from danshari.core.items import Item
from danshari.core.policy import Policy
from danshari.core.summary import Reply, Request
from danshari.errors import GivenUp, ModelError
from danshari.formats import Format
from danshari.handovers.ladder import Ask, Outcome
from danshari.summarizers import Summarizer, called

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a request to a summarizer is built from."""

    wire: Format
    messages: Sequence[Any]
    """The view as it would be sent to the agent's model."""
    payload: Any
    system: Any
    tools: Any
    policy: Policy
    model: str
    """The agent's."""
    hints: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the agent's own request carries for bound thinking."""


def request_of(ask: Ask, scene: Scene) -> Request:
    """Write one question in the conversation's own format."""
    policy = scene.policy
    plain = Request(
        format=scene.wire.name,
        messages=[],
        model=policy.summary_model,
        most=policy.summary_tokens,
        effort=policy.summary_effort,
    )
    if ask.how == "warm":
        payload = scene.payload if isinstance(scene.payload, Mapping) else {}
        body = {k: v for k, v in payload.items() if k != scene.wire.key}
        main = copy.deepcopy(list(scene.messages))  # a door may write cache marks into them
        messages = [*main, scene.wire.user_message(ask.instruction)]
        return replace(
            plain,
            messages=messages,
            system=copy.deepcopy(scene.system),
            tools=copy.deepcopy(scene.tools),
            model=plain.model or scene.model,
            warm=True,
            body={**copy.deepcopy(body), **scene.hints},
        )
    number, count = ask.part
    text = f'<transcript part="{number}/{count}">\n{ask.transcript}\n</transcript>\n\n{ask.instruction}'
    return replace(plain, messages=[scene.wire.user_message(text)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who waits for a compaction: the event loop it runs on, and whether it gave up."""

    loop: asyncio.AbstractEventLoop | None = None
    gone: Callable[[], bool] = lambda: False


NOBODY = Caller()
CALLER: ContextVar[Caller | None] = ContextVar("danshari_caller", default=None)
"""Set by `acompact` for its own call; a thread it starts inherits it."""


def driven(
    ladder: Generator[Ask, Reply, Outcome], scene: Scene, summarizer: Summarizer | None, caller: Caller
) -> Outcome:
    """Run a ladder to its end; faults of the summarizer are thrown into it. Raises GivenUp if the caller gave up."""
    try:
        ask = next(ladder)
        while True:
            if caller.gone():
                raise GivenUp("given up by the caller")
            try:
                if summarizer is None:
                    raise ModelError("there is no summarizer")
                reply = called(
                    summarizer,
                    request_of(ask, scene),
                    seconds=scene.policy.summary_seconds,
                    loop=caller.loop,
                    gone=caller.gone,
                )
            except GivenUp:
                raise
            except ModelError as error:
                ask = ladder.throw(error)
                continue
            ask = ladder.send(reply)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome


def flattened(items: Sequence[Item], mask: Callable[[str], str]) -> list[str]:
    """Write items as plain text, uncut: who, what, and for calls and results the tool."""
    texts = []
    for item in items:
        if item.kind == "reasoning" or (not item.text and item.kind != "media"):
            continue
        what = {"call": f"calls {item.name}", "result": f"result of {item.name}", "media": "image or file"}.get(
            item.kind, ""
        )
        head = f"[{item.turn} {item.role}{' ' + what if what else ''}{' failed' if item.failed else ''}]"
        texts.append(f"{head}\n{mask(item.text)}")
    return texts
