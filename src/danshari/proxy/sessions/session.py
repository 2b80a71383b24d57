"""One branch of one client session: its compactor, its last request body and its totals."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.proxy.body.body import RequestBody
from danshari.proxy.recall.store import SessionRecalls
from danshari.proxy.sessions.client_model import ClientModel
from danshari.proxy.sessions.clients import detect_agent
from danshari.proxy.settings import Settings

MAX_CHANGED_MESSAGES = 6
"""Messages that may differ (moved cache marks, a taken-back turn) in a request that still continues a session."""
WIDE_WINDOW_BETA = ("context-1m", 1_000_000)
"""A beta by which a request asks for a wider window than its model's row has, and that window in tokens."""
BILLED_KINDS = ("fresh", "cached", "written", "output")


@dataclass(slots=True, kw_only=True)
class SessionTotals:
    """Totals of one session branch since it was loaded."""

    requests: int = 0
    before: float = 0.0
    """Estimated tokens that would have been sent."""
    after: float = 0.0
    """Estimated tokens that were sent."""
    edits: int = 0
    faults: int = 0
    rescues: int = 0
    recalls: int = 0
    billed: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BILLED_KINDS, 0.0))
    """Tokens as the provider reported them."""
    dollars: float = 0.0
    seen: float = 0.0
    """Seconds since the epoch of the last request."""
    last: tuple[str, ...] = ()
    """The last decisions, newest first; no content."""


@dataclass(slots=True, kw_only=True)
class ProxySession:
    """One branch of one client session: a compactor, the last request body and the totals."""

    name: str
    compactor: Compactor
    client: str = ""
    body: RequestBody | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    figures: SessionTotals = field(default_factory=SessionTotals)
    recalls: SessionRecalls | None = None
    """Recalls that are answered here; None where that is switched off."""
    door: ClientModel | None = None
    """How hand-overs are asked of the client's own model; None: code writes them."""
    window: int | None = None
    """Window in tokens where it is not the model's own."""
    limit: int | None = None
    """Window that the provider told when it refused a request as too long."""
    source: ProxySession | None = None
    """The branch that this one forked off, until what was decided there is taken over."""

    def prepare(self, values: Mapping[str, Any], headers: Mapping[str, str], settings: Settings) -> None:
        """Bring the branch up to date for a request; may wait for the archive.

        Copies the state of the branch it was forked from, follows a change of model or window, and decides
        once whether recall tools are offered.
        """
        if self.source is not None and not self.compactor.session.ledger:
            self.compactor.load(self.source.compactor.save())
        self.source = None
        name = str(values.get("model") or "")
        if name and name != self.compactor.model.name:
            self.limit = None
        self.set_model_window(name, self.limit or window_from_beta(headers, name))
        if self.recalls is not None:
            self.recalls.decide_offer(values, settings, detect_agent(headers))

    def set_model_window(self, model: str, window: int | None) -> None:
        """Set the compactor's model and window (tokens) if either changed."""
        if model and (model != self.compactor.model.name or window != self.window):
            self.compactor.set_model(model, window=window)
            self.window = window

    def record_overflow(self, counted: int | None, limit: int | None) -> None:
        """Learn from a provider's overflow error: its token count, and possibly a smaller window.

        The new window is `limit` (tokens) if the provider told one, else 95 % of the refused request's
        tokens. It applies only if it is smaller than the model's window.
        """
        held = int(0.95 * (counted or self.compactor.session.account.shown or 0))
        found = limit or min(held, self.compactor.model.window) or None
        if found and found < self.compactor.model.window:
            self.limit = found
            self.set_model_window(self.compactor.model.name, found)
        self.compactor.overflowed(counted)

    def count_changed_messages(self, messages: Sequence[Any]) -> int:
        """Count the last request's messages that a new one lacks or changes, by position.

        Stops beyond `MAX_CHANGED_MESSAGES`.
        """
        held = self.body.messages if self.body is not None else []
        missing = max(len(held) - len(messages), 0)
        for old, new in zip(held, messages, strict=False):
            missing += old is not new and old != new
            if missing > MAX_CHANGED_MESSAGES:
                break
        return missing

    def common_prefix_length(self, messages: Sequence[Any]) -> int:
        """Return how many leading messages the last request and a new one have in common."""
        held = self.body.messages if self.body is not None else []
        pairs = zip(held, messages, strict=False)
        return next(
            (n for n, (old, new) in enumerate(pairs) if old is not new and old != new), min(len(held), len(messages))
        )


def window_from_beta(headers: Mapping[str, str], model: str) -> int | None:
    """Return the window (tokens) that a beta header asks for; None if the model's own window applies."""
    asked, tokens = WIDE_WINDOW_BETA
    return (
        tokens
        if asked in headers.get("anthropic-beta", "") and data.find_model(model or None).window < tokens
        else None
    )
