"""One branch of one client session: its compactor, last request body and totals, and how it compacts a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

from danshari.compaction import Compaction
from danshari.compactor import Compactor
from danshari.data.agents import AgentProfile
from danshari.formats import Format
from danshari.proxy.body.body import RequestBody
from danshari.proxy.http.encoding import CompressedBody
from danshari.proxy.http.overflow import ContextOverflow
from danshari.proxy.recall.store import RecallHop, SessionRecalls
from danshari.proxy.sessions.client_model import ClientModel
from danshari.proxy.sessions.stored import BranchIndex, Scope
from danshari.proxy.sessions.trail import Trail, compare, find_stretch
from danshari.proxy.settings import Settings

BILLED_KINDS = ("fresh", "cached", "written", "output")


class ClientIdentity(NamedTuple):
    """What a request tells about its sender."""

    wire: Format
    model: str
    """As the request names it."""
    tenant: str
    """Short hash of the credential; the credential itself is not stored."""
    key: str
    """The client's own name of its session and sub-agent; "" if it sends none."""
    agent: AgentProfile | None
    window: int | None
    """Window in tokens that the request asks for beyond the model's row."""
    url: str
    """Path and query."""


@dataclass(slots=True, kw_only=True)
class OutgoingRequest:
    """One request as it will be sent upstream, with its session and the compaction result."""

    data: bytes
    compressed: CompressedBody | None = None
    """The body as its client sent it, if it had compressed it."""
    model: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers to set."""
    session: ProxySession | None = None
    result: Compaction | None = None
    body: RequestBody | None = None
    untouched: str = ""
    """Why the request is not looked at; "" if it is."""
    fault: str = ""
    hops: list[RecallHop] = field(default_factory=list)
    """Recalls that were answered for this request so far."""


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
    wire: Format
    compactor: Compactor
    client: ClientIdentity
    """Who sent the last request."""
    body: RequestBody | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    totals: SessionTotals = field(default_factory=SessionTotals)
    recalls: SessionRecalls | None = None
    """Recalls that are answered here; None where that is switched off."""
    client_model: ClientModel | None = None
    """How hand-overs are asked of the client's own model; None: code writes them."""
    window: int | None = None
    """Window in tokens where it is not the model's own."""
    limit: int | None = None
    """Window that the provider told when it refused a request as too long."""
    source: ProxySession | None = None
    """The branch that this one forked off, until what was decided there is taken over."""
    scope: Scope
    stored: BranchIndex
    version: int = 0
    """Number of the state that this process stored or read last."""
    reload: Callable[[ProxySession], None]
    """Gives the branch a compactor and recalls with what the archive holds."""
    remembered: tuple[int, bool] = (0, False)
    """Edits, and whether there was an answer, when the trail was stored last."""

    @property
    def trail(self) -> Trail:
        """The trail of the last request."""
        return self.body.trail if self.body is not None else ()

    @property
    def client_name(self) -> str:
        """The agent's name; "" if it is not known."""
        return self.client.agent.name if self.client.agent else ""

    def compact(
        self,
        outgoing: OutgoingRequest,
        headers: Mapping[str, str],
        settings: Settings,
        refused: ContextOverflow | None = None,
    ) -> None:
        """Compact a request and write its new body; the client's bytes stay where nothing changes.

        `refused` is the provider's overflow error for this request, and forces a compaction. May wait for the archive.
        """
        body = outgoing.body
        assert body is not None
        if self.stored.version(self.name) != self.version:
            self.reload(self)  # another proxy on this archive went on with the session
        self._prepare(body, settings)
        if refused is not None:
            self.record_overflow(refused.counted, refused.limit)
        api, values, fields = self.wire.api, body.values, dict[str, Any]()
        recalls = self.recalls
        if recalls is not None and recalls.offered:
            if values.get("tools") and api.choice_count(values) == 1:
                fields["tools"] = recalls.add_tools(values)
            values = {**values, **fields, body.key: recalls.insert_hops(body.messages, outgoing.hops)}
        result = self.compactor.compact(values, force=True if refused else None)
        self._remember(body.trail)
        self.version = self.stored.version(self.name)
        outgoing.result, outgoing.fault = result, result.fault
        view = result.messages[body.key] if isinstance(result.messages, Mapping) else result.messages
        hints, changed = api.hint_changes(result.hints, body.values, headers)
        fields |= hints
        if is_same_view(view, body.messages) and not fields:
            return
        outgoing.data = body.write(body.messages if is_same_view(view, body.messages) else view, fields)
        outgoing.headers.update(changed)

    def _prepare(self, body: RequestBody, settings: Settings) -> None:
        """Bring the branch up to date for a request.

        Takes over what was decided in the branch it was forked from, follows a change of model or window, and decides
        once whether recall tools are offered.
        """
        source, self.source = self.source, None
        if source is not None and not self.compactor.session.ledger:
            self._take_over(source, body.trail)
        if self.client.model and self.client.model != self.compactor.model.name:
            self.limit = None
        self.set_model_window(self.client.model, self.limit or self.client.window)
        if self.recalls is not None:
            self.recalls.decide_offer(body.values, settings.recall, self.client.agent, self.client.url)

    def _take_over(self, source: ProxySession, trail: Trail) -> None:
        """Take over what a branch decided, and its hidden recalls as far as both have the answer they led to.

        Edits of what is not shared are void here, and its hand-over is read from the view.
        """
        shared = compare(source.trail, trail).stretches
        state = json.loads(source.compactor.save())
        session, turns = state["session"], sum(1 for stretch in trail if stretch.said)
        session["handovers"], session["majors"] = [], [turn for turn in session["majors"] if turn <= turns]
        session["commit_turn"], session["rest_until"] = min(session["commit_turn"], turns), 0
        if session["ledger"] and turns:
            self.compactor.load(json.dumps(state))
        if self.recalls is not None and source.recalls is not None:
            self.recalls.take_over(source.recalls, lambda hop: find_stretch(trail[:shared], hop.at).telling)

    def _remember(self, trail: Trail) -> None:
        """Store the trail if the branch has a state by now that is worth finding again."""
        edits, answered = len(self.compactor.session.ledger), bool(trail and trail[0].said)
        offered = self.recalls is not None and bool(self.recalls.offered)
        if (
            (edits or offered)
            and (edits, answered) != self.remembered
            and self.stored.store(self.scope, self.name, trail)
        ):
            self.remembered = edits, answered

    def may_wait(self, values: Mapping[str, Any]) -> bool:
        """Return whether compacting a request may wait for a model or for the archive."""
        recalls = self.recalls
        stored = recalls is not None and (recalls.offered or (recalls.offered is None and bool(values.get("tools"))))
        return self.client_model is not None or self.source is not None or bool(stored)

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

    def count_equal_messages(self, messages: Sequence[Any]) -> int:
        """Return how many leading messages the last request and a new one have in common."""
        held = self.body.messages if self.body is not None else []
        return sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1],
                                        zip(held, messages, strict=False)))  # fmt: skip


def is_same_view(view: Any, messages: list[Any]) -> bool:
    """Return whether a view consists of the caller's own message objects."""
    return len(view) == len(messages) and all(a is b for a, b in zip(view, messages, strict=True))
