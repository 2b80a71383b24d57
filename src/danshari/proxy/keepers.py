"""Sessions of clients that do not say so: found again by the client's own key and by what a request holds."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from danshari import data
from danshari.archive.base import Archive
from danshari.compactor import Compactor
from danshari.core.model import hashed
from danshari.formats import Format
from danshari.proxy.bodies import Body
from danshari.proxy.clients import credential, key_of
from danshari.proxy.doors import Door
from danshari.proxy.recalls import Recalls
from danshari.proxy.settings import Settings

MOVED = 6
"""Messages that may differ (moved cache marks, a taken-back turn) in a request that still continues a session."""
NEAREST = 32
"""Sessions that are looked through for one that begins as a new request does."""
BRANCHES = 8
"""Branches of one session (forks, sub-agents that began alike) kept ready."""
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
    billed: dict[str, float] = field(
        default_factory=lambda: {"fresh": 0.0, "cached": 0.0, "written": 0.0, "output": 0.0}
    )
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


class Keepers:
    """All sessions, the newest used last; what falls out is read back from the archive when it is called again."""

    def __init__(self, settings: Settings, archive: Archive | None) -> None:
        self.settings, self._archive = settings, archive
        self._kept: OrderedDict[str, list[Keeper]] = OrderedDict()
        self.policy = data.load_policy(settings.policy)

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def all(self) -> list[Keeper]:
        """Give every branch, the newest used first."""
        return sorted((k for row in self._kept.values() for k in row), key=lambda k: -k.figures.seen)

    def nearest(self, raw: bytes) -> Body | None:
        """Give the body of a session used lately that begins as this one does, so that only the rest is read."""
        for row in islice(reversed(self._kept.values()), NEAREST):
            for keeper in row[:2]:
                body = keeper.body
                if body is not None and body.places and raw.startswith(body.head):
                    return body
        return None

    def find(
        self, root: str, wire: Format, values: Mapping[str, Any], headers: Mapping[str, str], client: str
    ) -> Keeper:
        """Give the branch a request continues, or a new one, which takes over what is known of what both hold."""
        row = self._kept.setdefault(root, [])
        self._kept.move_to_end(root)
        messages = values[wire.key]
        keeper = next((k for k in row if k.distance(messages) <= MOVED), None)
        if keeper is None:
            keeper = self._begin(root, row, wire, values, headers)
        else:
            row.remove(keeper)
        row.insert(0, keeper)
        del row[BRANCHES:]
        self._trim()
        keeper.client = client or keeper.client
        keeper.figures.seen = time.time()
        self._model(keeper, values, headers)
        return keeper

    def _begin(
        self, root: str, row: list[Keeper], wire: Format, values: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Keeper:
        number = len(row) + 1
        while any(k.name == _named(root, number) for k in row):
            number += 1
        name, window = _named(root, number), _window(headers, str(values.get("model") or ""))
        door = Door(wire.name) if self.settings.handover == "model" else None
        made = Compactor(
            self.policy,
            model=str(values.get("model") or "") or None,
            window=window,
            archive=self._archive,
            session=name,
            project=self.settings.project,
            format=wire.name,
            summarizer=door.summarizer() if door else None,
        )
        best = max(row, key=lambda k: k.shared(values[wire.key]), default=None)
        if best is not None and best.shared(values[wire.key]) > 1 and not made.session.ledger:
            made.load(best.compactor.save())  # edits of what both hold stand in the fork too
        recalls = Recalls(wire, made, self._archive, name) if self.settings.recall != "off" else None
        return Keeper(name=name, compactor=made, window=window, door=door, recalls=recalls)

    def _model(self, keeper: Keeper, values: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        """Follow a switch of the model, or of its window, in mid-session."""
        name = str(values.get("model") or "")
        if name and name != keeper.compactor.model.name:
            keeper.limit = None
        keeper.resize(name, keeper.limit or _window(headers, name))

    def _trim(self) -> None:
        while len(self) > self.settings.sessions and len(self._kept) > 1:
            self._kept.popitem(last=False)


def root_of(wire: Format, values: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Name a session: tenant, format, the client's own key, and what its first user message says."""
    first: list[str] = []
    for message in values[wire.key]:
        pieces = wire.split(message)
        if any(piece.role == "user" for piece in pieces):
            first = [f"{piece.kind}:{piece.text or piece.body}" for piece in pieces]
            break
    return hashed(credential(headers), wire.name, key_of(headers, values), *first)[:16]


def _named(root: str, number: int) -> str:
    return f"proxy-{root}" if number == 1 else f"proxy-{root}-{number}"


def _window(headers: Mapping[str, str], model: str) -> int | None:
    """Give the window a beta asks for; None where the model's row holds."""
    asked, tokens = WIDE
    return tokens if asked in headers.get("anthropic-beta", "") and data.model(model or None).window < tokens else None
