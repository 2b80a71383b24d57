"""Recall calls that the proxy answers: when they are offered, how they run, where they are re-inserted.

The tools are offered from a session's first request or never. Hops are stored beside the session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from danshari.archive.base import Archive, SessionStore
from danshari.compactor import Compactor
from danshari.errors import ArchiveError
from danshari.formats import Format
from danshari.proxy.recall.shape import (
    HiddenCall,
    RecallFormat,
    ResponseParts,
    load_recall_formats,
)
from danshari.proxy.sessions.branches import message_digest
from danshari.proxy.sessions.clients import AgentProfile
from danshari.proxy.settings import Settings

MAX_RECALL_HOPS = 4
"""Answers in a row that may recall; after them the model is told to go on without."""
HOP_LIMIT_TEXT = "No more recalls in this turn: go on with what you have."


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHop:
    """One model response that called recall tools, with the results."""

    at: int
    """Where the client's list has the answer that followed."""
    mark: str
    """Digest of the message before it, by which a rewound conversation is noticed."""
    turn: ResponseParts
    results: list[Any]
    own: bool
    """Whether the client answers calls of the same answer too: then both stand side by side."""


class SessionRecalls:
    """The recall hops of one session branch, stored in the archive."""

    def __init__(self, wire: Format, compactor: Compactor, archive: Archive | None, name: str) -> None:
        self.shape: RecallFormat = load_recall_formats()[wire.name]
        self._wire, self._compactor = wire, compactor
        self._store = archive if isinstance(archive, SessionStore) else None
        self._name = f"{name}:recalls"
        self._version = 0
        self.hops: list[RecallHop] = []
        self.offered: bool | None = None
        """Whether the tools are offered; None: not decided yet."""
        self._load()

    def decide_offer(self, values: Mapping[str, Any], settings: Settings, agent: AgentProfile | None) -> None:
        """Decide at the session's first request whether recall tools are offered.

        Never if the conversation already has assistant messages, if several choices are requested, or if
        the decision cannot be stored.
        """
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
        """Return the request's tools followed by the recall tools."""
        return [*(values.get("tools") or ()), *self._compactor.recall_tools()]

    def insert_hops(self, messages: list[Any]) -> list[Any]:
        """Return the client's messages with each stored hop inserted where it happened.

        Hops whose preceding message changed since (a rewound conversation) are skipped.
        """
        found = messages
        held = [
            hop for hop in self.hops if hop.at <= len(messages) and hop.mark == self.digest_before(messages, hop.at)
        ]
        for at, group in groupby(sorted(held, key=lambda hop: -hop.at), key=lambda hop: hop.at):
            hops = list(group)
            before = [hop for hop in hops if not hop.own]
            if before:
                found = self.shape.remove_earlier(found, at, [hop.turn for hop in before])
            for hop in hops:
                if hop.own:
                    found = self.shape.merge_hop(found, at, hop.turn, hop.results)
            if before:
                found = [*found[:at], *(m for hop in before for m in (*hop.turn.messages, *hop.results)), *found[at:]]
        return found

    def digest_before(self, messages: Sequence[Any], at: int) -> str:
        """Return the digest of the message before index `at`; "" at the start."""
        if not at:
            return ""
        return message_digest(self._wire, messages[at - 1])

    def run_hop(self, messages: Sequence[Any], turn: ResponseParts, number: int) -> RecallHop:
        """Run the recalls of a response and store the hop.

        `number` counts the earlier hops of this turn; from `MAX_RECALL_HOPS` on the result is
        `HOP_LIMIT_TEXT`.
        """
        texts = [self._run_recall(call) if number < MAX_RECALL_HOPS else HOP_LIMIT_TEXT for call in turn.hidden]
        results = self.shape.result_messages(turn, texts)
        hop = RecallHop(
            at=len(messages),
            mark=self.digest_before(messages, len(messages)),
            turn=turn,
            results=results,
            own=turn.others,
        )
        self.hops = [h for h in self.hops if h.at <= hop.at]
        self.hops.append(hop)
        self._save()
        return hop

    def _run_recall(self, call: HiddenCall) -> str:
        return self._compactor.run_recall(call.name, call.arguments)

    def forget(self, hop: RecallHop) -> None:
        """Remove a hop whose response did not reach the client."""
        self.hops = [h for h in self.hops if h is not hop]
        self._save()

    def _save(self) -> bool:
        """Store the hops beside the session for other processes; return False if the archive refuses."""
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
        """Load the stored hops, if there are any."""
        found = self._store.load_session(self._name) if self._store is not None else None
        if found is None:
            return
        self._version, body, _ = found
        stored = json.loads(body)
        self.offered = stored["offered"]
        for hop in stored["hops"]:
            turn = hop.pop("turn")
            turn["hidden"], turn["late"] = [HiddenCall(**call) for call in turn["hidden"]], b""
            self.hops.append(RecallHop(turn=ResponseParts(**turn), **hop))
