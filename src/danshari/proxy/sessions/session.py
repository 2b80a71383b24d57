"""One branch of one session: its compactor, the last body, and what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from danshari import data
from danshari.compactor import Compactor
from danshari.proxy.body.body import Body
from danshari.proxy.recall.store import Recalls
from danshari.proxy.sessions.client_model import Door
from danshari.proxy.sessions.clients import agent_of
from danshari.proxy.settings import Settings

MOVED = 6
"""Messages that may differ (moved cache marks, a taken-back turn) in a request that still continues a session."""
WIDE = ("context-1m", 1_000_000)
"""A beta by which a request asks for a wider window than its model's row has, and that window in tokens."""
BILLED = ("fresh", "cached", "written", "output")


@dataclass(slots=True, kw_only=True)
class Figures:
    """What one session came to so far."""

    requests: int = 0
    before: float = 0.0
    """Estimated tokens that would have been sent."""
    after: float = 0.0
    """Estimated tokens that were sent."""
    edits: int = 0
    faults: int = 0
    rescues: int = 0
    recalls: int = 0
    billed: dict[str, float] = field(default_factory=lambda: dict.fromkeys(BILLED, 0.0))
    """Tokens as the provider reported them."""
    dollars: float = 0.0
    seen: float = 0.0
    """Seconds since the epoch of the last request."""
    last: tuple[str, ...] = ()
    """The last decisions, newest first; no content."""


@dataclass(slots=True, kw_only=True)
class Keeper:
    """One branch of one session: a compactor, the last body, and what it came to."""

    name: str
    compactor: Compactor
    client: str = ""
    body: Body | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    figures: Figures = field(default_factory=Figures)
    recalls: Recalls | None = None
    """Recalls that are answered here; None where that is switched off."""
    door: Door | None = None
    """How hand-overs are asked of the client's own model; None: code writes them."""
    window: int | None = None
    """Window in tokens where it is not the model's own."""
    limit: int | None = None
    """Window that the provider told when it refused a request as too long."""
    source: Keeper | None = None
    """The branch that this one forked off, until what was decided there is taken over."""

    def prepare(self, values: Mapping[str, Any], headers: Mapping[str, str], settings: Settings) -> None:
        """Take over what a fork inherits, follow a switch of the model, decide on recalls; may wait for the archive."""
        if self.source is not None and not self.compactor.session.ledger:
            self.compactor.load(self.source.compactor.save())
        self.source = None
        name = str(values.get("model") or "")
        if name and name != self.compactor.model.name:
            self.limit = None
        self.resize(name, self.limit or wide_window(headers, name))
        if self.recalls is not None:
            self.recalls.decide(values, settings, agent_of(headers))

    def resize(self, model: str, window: int | None) -> None:
        """Follow a switch of the model or of its window."""
        if model and (model != self.compactor.model.name or window != self.window):
            self.compactor.set_model(model, window=window)
            self.window = window

    def refused(self, counted: int | None, limit: int | None) -> None:
        """Learn from a refusal: the provider's count, and a window where the model's row promised more."""
        held = int(0.95 * (counted or self.compactor.session.account.shown or 0))
        found = limit or min(held, self.compactor.model.window) or None
        if found and found < self.compactor.model.window:
            self.limit = found
            self.resize(self.compactor.model.name, found)
        self.compactor.overflowed(counted)

    def distance(self, messages: Sequence[Any]) -> int:
        """Count messages of the last request that a new one does not hold at their places; stops beyond `MOVED`."""
        held = self.body.messages if self.body is not None else []
        missing = max(len(held) - len(messages), 0)
        for old, new in zip(held, messages, strict=False):
            missing += old is not new and old != new
            if missing > MOVED:
                break
        return missing

    def shared(self, messages: Sequence[Any]) -> int:
        """Count the messages that both begin with."""
        held = self.body.messages if self.body is not None else []
        pairs = zip(held, messages, strict=False)
        return next(
            (n for n, (old, new) in enumerate(pairs) if old is not new and old != new), min(len(held), len(messages))
        )


def wide_window(headers: Mapping[str, str], model: str) -> int | None:
    """Give the window a beta asks for; None where the model's row holds."""
    asked, tokens = WIDE
    return tokens if asked in headers.get("anthropic-beta", "") and data.model(model or None).window < tokens else None
