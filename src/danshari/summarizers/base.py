"""Summarizers: what counts as one, how its answers are read, and the time limit around a call."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from danshari.core.summary import Reply, Request
from danshari.errors import ArgumentError, ModelError, SummaryCancelled
from danshari.formats import FORMATS

if TYPE_CHECKING:
    import asyncio

SummarizerFunction = Callable[[Request], Any]
"""Takes a request, gives a `Reply`, a text, a mapping or an SDK's response object; may be a coroutine function."""
_POLL_SECONDS = 0.05
"""Seconds between two looks at whether the caller gave up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    """A function that answers summary requests, with its context window, price and name."""

    function: SummarizerFunction
    window: int = 0
    """Context window in tokens; 0: the agent's own."""
    same_model: bool = False
    """Whether it is the agent's own model, so that a warm request reads the agent's cached prefix."""
    name: str = ""
    price: float = 0.0
    """Dollars per million input tokens; 0: the agent's own."""


def as_summarizer(value: Any) -> Summarizer:
    """Return a Summarizer, made from a callable if needed. Raises ArgumentError for anything else."""
    if isinstance(value, Summarizer):
        return value
    if callable(value):
        return Summarizer(function=value, name=getattr(value, "__name__", type(value).__name__))
    raise ArgumentError(f"summarizer must be a callable or a danshari Summarizer, not {type(value).__name__}")


def call_summarizer(
    summarizer: Summarizer,
    request: Request,
    *,
    seconds: float,
    loop: asyncio.AbstractEventLoop | None = None,
    gone: Callable[[], bool] = lambda: False,
) -> Reply:
    """Call the summarizer and wait at most `seconds` for the answer.

    Raises ModelError for any failure or no answer in time, SummaryCancelled once `gone()` is true. A
    coroutine runs on `loop` if one is given. A call that hangs is abandoned in a daemon thread.
    """
    box: list[Any] = []

    def work() -> None:
        try:
            value = summarizer.function(request)
            if inspect.isawaitable(value):
                value = _run_awaitable(value, loop, seconds)
            box.append(as_reply(value))
        except BaseException as fault:  # noqa: BLE001  (whatever it raises is an answer: none)
            box.append(fault)

    thread = threading.Thread(target=work, name="danshari-summarizer", daemon=True)
    thread.start()
    waited = 0.0
    while thread.is_alive() and waited < seconds:
        thread.join(min(_POLL_SECONDS, seconds - waited))
        waited += _POLL_SECONDS
        if gone():
            raise SummaryCancelled("given up by the caller")
    if not box:
        raise ModelError(f"no answer within {seconds:g} seconds")
    if isinstance(box[0], ModelError):
        raise box[0]
    if isinstance(box[0], BaseException):
        raise ModelError(f"{type(box[0]).__name__}: {box[0]}"[:300]) from box[0]
    reply: Reply = box[0]
    return reply


async def _await(value: Any) -> Any:
    return await value


def _run_awaitable(value: Any, loop: asyncio.AbstractEventLoop | None, seconds: float) -> Any:
    """Run an awaitable on `loop` if that is running, else on a loop of its own, and return its result."""
    import asyncio  # only coroutine functions need it, and it costs more than the rest

    if loop is not None and loop.is_running():
        return asyncio.run_coroutine_threadsafe(_await(value), loop).result(seconds)
    return asyncio.run(_await(value))


def as_reply(value: Any) -> Reply:
    """Read an answer: a Reply, a text, or a chat completion, message or response (dict or SDK object).

    Raises ModelError if it holds no text.
    """
    if isinstance(value, Reply):
        sizes = (value.read, value.cached, value.written)
        if not isinstance(value.text, str) or not all(isinstance(n, int) and n >= 0 for n in sizes):
            raise ModelError(f"a Reply that holds no text or no sizes: {str(value)[:200]}")
        return value
    if isinstance(value, str):
        return Reply(text=value)
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    if not isinstance(value, Mapping):
        raise ModelError(f"an answer of type {type(value).__name__}; expected text or a provider's response")
    for read in (*(wire.api.read_reply for wire in FORMATS.values()), _read_plain):
        if (reply := read(value)) is not None:
            return reply
    raise ModelError(f"an answer without text; its fields: {', '.join(map(str, list(value)[:8]))}")


def _read_plain(value: Mapping[str, Any]) -> Reply | None:
    """Read a mapping with a `text` field, or return None if it has another shape."""
    text = value.get("text")
    if not isinstance(text, str) and "tool_calls" not in value:
        return None
    calls = value.get("tool_calls")
    return Reply(
        text=text if isinstance(text, str) else "",
        finish=str(value.get("finish_reason") or value.get("finish") or "stop"),
        calls=len(calls) if isinstance(calls, list) else 0,
    )
