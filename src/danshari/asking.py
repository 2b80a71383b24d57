"""Puts a ladder's questions to a summarizer: native requests, warm or flat, with a time limit and a bill."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from danshari.core.model import Item
from danshari.core.policy import Policy
from danshari.core.request import Reply, Request
from danshari.errors import ModelError
from danshari.formats import Format
from danshari.models import Summarizer, called
from danshari.passes.summarize import Ask, Outcome

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


def request_of(ask: Ask, scene: Scene) -> Request:
    """Write one question in the conversation's own format."""
    policy = scene.policy
    plain = Request(
        format=scene.wire.name,
        messages=[],
        model=policy.summary_model or scene.model,
        most=policy.summary_tokens,
        effort=policy.summary_effort,
    )
    if ask.how == "warm":
        body = {k: v for k, v in scene.payload.items() if k != scene.wire.key} if _is_request(scene.payload) else {}
        messages = [*scene.messages, scene.wire.user_message(ask.instruction)]
        return replace(plain, messages=messages, system=scene.system, tools=scene.tools, warm=True, body=body)
    number, count = ask.part
    text = f'<transcript part="{number}/{count}">\n{ask.transcript}\n</transcript>\n\n{ask.instruction}'
    return replace(plain, messages=[scene.wire.user_message(text)])


def _is_request(payload: Any) -> bool:
    return isinstance(payload, Mapping)


def driven(
    ladder: Generator[Ask, Reply, Outcome],
    scene: Scene,
    summarizer: Summarizer | None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    gone: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run a ladder to its end; every fault of the summarizer is thrown into it."""
    try:
        ask = next(ladder)
        while True:
            if gone() or summarizer is None:
                raise ModelError("given up by the caller")
            try:
                request = request_of(ask, scene)
                reply = called(summarizer, request, seconds=scene.policy.summary_seconds, loop=loop, gone=gone)
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
