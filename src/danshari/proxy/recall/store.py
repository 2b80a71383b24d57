"""Recalls in the loop: offered from a session's first request or never, answered here, put back into every request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from danshari.archive.base import Archive, Sessions
from danshari.compactor import Compactor
from danshari.errors import ArchiveError
from danshari.formats import Format
from danshari.proxy.recall.shape import (
    Hidden,
    Shape,
    Turn,
    shapes,
)
from danshari.proxy.sessions.branches import said
from danshari.proxy.sessions.clients import Agent
from danshari.proxy.settings import Settings

MOST = 4
"""Answers in a row that may recall; after them the model is told to go on without."""
LIMIT = "No more recalls in this turn: go on with what you have."


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One answer of the model that asked for recalls, and what it was told."""

    at: int
    """Where the client's list has the answer that followed."""
    mark: str
    """Digest of the message before it, by which a rewound conversation is noticed."""
    turn: Turn
    results: list[Any]
    own: bool
    """Whether the client answers calls of the same answer too: then both stand side by side."""


class Recalls:
    """Hidden recalls of one session."""

    def __init__(self, wire: Format, compactor: Compactor, archive: Archive | None, name: str) -> None:
        self.shape: Shape = shapes()[wire.name]
        self._wire, self._compactor = wire, compactor
        self._store = archive if isinstance(archive, Sessions) else None
        self._name = f"{name}:recalls"
        self._version = 0
        self.hops: list[Hop] = []
        self.offered: bool | None = None
        """Whether the tools are offered; None: not decided yet."""
        self._load()

    def decide(self, values: Mapping[str, Any], settings: Settings, agent: Agent | None) -> None:
        """Decide with a session's first request; in one that was joined later, never."""
        if self.offered is not None:
            return
        messages = values[self._wire.key]
        joined = any(piece.role == "assistant" for m in messages for piece in self._wire.split(m))
        checks = agent is not None and agent.checks_tools
        wanted = settings.recall == "on" or (settings.recall == "auto" and bool(values.get("tools")) and not checks)
        if self._wire.name == "openai-responses" and settings.recall != "on":
            wanted = (
                wanted and values.get("store") is False
            )  # a stored answer can be gone on from, hidden call included
        self.offered = wanted and not joined and int(values.get("n") or 1) == 1
        if self.offered and not self._save():
            self.offered = False

    def tools(self, values: Mapping[str, Any]) -> list[Any]:
        """Give the request's tools with the recall tools after them."""
        return [*(values.get("tools") or ()), *self._compactor.recall_tools()]

    def with_hops(self, messages: list[Any]) -> list[Any]:
        """Give the client's messages with every hop where it happened."""
        found = messages
        held = [hop for hop in self.hops if hop.at <= len(messages) and hop.mark == self.mark(messages, hop.at)]
        for at, group in groupby(sorted(held, key=lambda hop: -hop.at), key=lambda hop: hop.at):
            hops = list(group)
            before = [hop for hop in hops if not hop.own]
            if before:
                found = self.shape.rest(found, at, [hop.turn for hop in before])
            for hop in hops:
                if hop.own:
                    found = self.shape.merged(found, at, hop.turn, hop.results)
            if before:
                found = [*found[:at], *(m for hop in before for m in (*hop.turn.messages, *hop.results)), *found[at:]]
        return found

    def mark(self, messages: Sequence[Any], at: int) -> str:
        """Give the digest of the message before a place, by what it says."""
        if not at:
            return ""
        return said(self._wire, messages[at - 1])

    def answer(self, messages: Sequence[Any], turn: Turn, number: int) -> Hop:
        """Run the recalls of an answer and note the hop; `number`: answers before it in this turn."""
        texts = [self._run(call) if number < MOST else LIMIT for call in turn.hidden]
        results = self.shape.results(turn, texts)
        hop = Hop(
            at=len(messages), mark=self.mark(messages, len(messages)), turn=turn, results=results, own=turn.others
        )
        self.hops = [h for h in self.hops if h.at <= hop.at]
        self.hops.append(hop)
        self._save()
        return hop

    def _run(self, call: Hidden) -> str:
        return self._compactor.run_recall(call.name, call.arguments)

    def forget(self, hop: Hop) -> None:
        """Take a hop back whose answer did not reach the client."""
        self.hops = [h for h in self.hops if h is not hop]
        self._save()

    def _save(self) -> bool:
        """Store the hops beside the session, so that another process goes on with them; False if that cannot be."""
        if self._store is None:
            return True
        body = json.dumps({"offered": self.offered, "hops": [asdict(hop) for hop in self.hops]}, default=str)
        try:
            if not self._store.save_session(self._name, self._version, body, (), 0):
                self._version = self._store.session_version(self._name)
                self._store.save_session(self._name, self._version, body, (), 0)
            self._version += 1
        except ArchiveError:
            return False
        return True

    def _load(self) -> None:
        found = self._store.load_session(self._name) if self._store is not None else None
        if found is None:
            return
        self._version, body, _ = found
        stored = json.loads(body)
        self.offered = stored["offered"]
        for hop in stored["hops"]:
            turn = hop.pop("turn")
            turn["hidden"], turn["late"] = [Hidden(**call) for call in turn["hidden"]], b""
            self.hops.append(Hop(turn=Turn(**turn), **hop))
