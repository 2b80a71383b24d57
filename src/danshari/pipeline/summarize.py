"""Requests to a summarizer: written in the conversation's format, sent with a time limit.

A request is *warm* (the agent's own request with an instruction at its end, so its prompt cache is used)
or a flat transcript.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from danshari.core.items import Item
from danshari.core.policy import Policy
from danshari.core.summary import Reply, Request
from danshari.errors import ModelError, SummaryCancelled
from danshari.formats import Format
from danshari.handovers.ladder import SummaryOutcome, SummaryQuestion
from danshari.summarizers import Summarizer, call_summarizer

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryContext:
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


def build_summary_request(ask: SummaryQuestion, scene: SummaryContext) -> Request:
    """Write one question to the summarizer as a request in the conversation's format."""
    policy = scene.policy
    plain = Request(
        format=scene.wire.provider_format.name,
        messages=[],
        model=policy.summary.model,
        most=policy.summary.tokens,
        effort=policy.summary.effort,
    )
    if ask.how == "warm":
        payload = scene.payload if isinstance(scene.payload, Mapping) else {}
        body = {k: v for k, v in payload.items() if k != scene.wire.key}
        main = copy.deepcopy(list(scene.messages))  # a summarizer may write cache marks into them
        messages = [*main, scene.wire.user_message(ask.instruction)]
        return replace(
            plain,
            format=scene.wire.name,
            messages=messages,
            system=copy.deepcopy(scene.system),
            tools=copy.deepcopy(scene.tools),
            model=plain.model or scene.model,
            warm=True,
            body={**copy.deepcopy(body), **scene.hints},
        )
    number, count = ask.part
    text = f'<transcript part="{number}/{count}">\n{ask.transcript}\n</transcript>\n\n{ask.instruction}'
    return replace(plain, messages=[scene.wire.provider_format.user_message(text)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who waits for a compaction: its event loop, and a function that tells whether it was cancelled."""

    loop: asyncio.AbstractEventLoop | None = None
    gone: Callable[[], bool] = lambda: False


NO_CALLER = Caller()
current_caller: ContextVar[Caller | None] = ContextVar("danshari_caller", default=None)
"""Set by `acompact` for its own call; a thread it starts inherits it."""


def run_ladder(
    ladder: Generator[SummaryQuestion, Reply, SummaryOutcome],
    scene: SummaryContext,
    summarizer: Summarizer | None,
    caller: Caller,
) -> SummaryOutcome:
    """Run the summarizer steps to their end and return the outcome.

    Summarizer errors are thrown into the generator, which tries its next step. Raises SummaryCancelled if
    the caller gave up.
    """
    try:
        ask = next(ladder)
        while True:
            if caller.gone():
                raise SummaryCancelled("given up by the caller")
            try:
                if summarizer is None:
                    raise ModelError("there is no summarizer")
                reply = call_summarizer(
                    summarizer,
                    build_summary_request(ask, scene),
                    seconds=scene.policy.summary.seconds,
                    loop=caller.loop,
                    gone=caller.gone,
                )
            except SummaryCancelled:
                raise
            except ModelError as error:
                ask = ladder.throw(error)
                continue
            ask = ladder.send(reply)
    except StopIteration as end:
        outcome: SummaryOutcome = end.value
        return outcome


def flatten_items(items: Sequence[Item], mask: Callable[[str], str]) -> list[str]:
    """Write items as plain text, uncut, each under a heading with its turn, role, and tool or media."""
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
