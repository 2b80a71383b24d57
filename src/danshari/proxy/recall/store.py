"""Recall calls that the proxy answers: when they are offered, how they run, where they are re-inserted.

The tools are offered from a session's first request or never. Hops are stored beside the session.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, islice, takewhile
from typing import Any

from danshari.archive.base import Archive, NoteStore
from danshari.compactor import Compactor
from danshari.core.items import Piece, hash_strings
from danshari.core.recall_tools import RECALL_TOOL_NAMES, RECALL_TOOLS
from danshari.data.agents import AgentProfile
from danshari.errors import ArchiveError
from danshari.formats import Format
from danshari.formats.recall import HiddenCall, ResponseParts
from danshari.proxy.sessions.trail import answer_digest
from danshari.proxy.settings import RecallMode

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
    answer: str = ""
    """Digest of the answer that the client got in the end; empty until then."""


def names_recall_tool(tools: Any) -> bool:
    """Return whether the tools of a request include one that is called as a recall tool, at whatever depth.

    Any JSON value may stand there: a schema has properties of any name, one called `name` among them.
    """
    waiting = [tools]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            name = value.get("name")
            if isinstance(name, str) and name in RECALL_TOOL_NAMES:
                return True
            waiting += value.values()
        elif isinstance(value, Sequence) and not isinstance(value, str):
            waiting += value
    return False


def _visible_digest(pieces: Sequence[Piece]) -> str:
    """Return the digest of an answer without hidden calls; "" if there is none."""
    shown = [piece for piece in pieces if piece.kind != "call" or piece.name not in RECALL_TOOL_NAMES]
    return answer_digest(shown) or ("-" if pieces else "")


def message_digest(wire: Format, message: Any) -> str:
    """Return a digest of a message's content, independent of JSON spelling and cache marks."""
    return hash_strings(*(f"{piece.kind}:{piece.text or piece.body}" for piece in wire.split(message)))


class SessionRecalls:
    """The recall hops of one session branch, stored in the archive."""

    def __init__(self, wire: Format, compactor: Compactor, archive: Archive | None, name: str) -> None:
        self.api, self.format = wire.api, wire.api.recall
        self._wire, self._compactor = wire, compactor
        self._store = archive if isinstance(archive, NoteStore) else None
        self._name = name
        self._version = 0
        self.hops: list[RecallHop] = []
        self.offered: bool | None = None
        """Whether the tools are offered; None: not decided yet."""
        self._load()

    def decide_offer(self, values: Mapping[str, Any], mode: RecallMode, agent: AgentProfile | None, url: str) -> None:
        """Decide at the session's first request whether recall tools are offered.

        Never if the conversation already has assistant messages, if several choices are requested, if the provider
        takes no more tools, or if the decision cannot be stored. With mode `auto`, only where the provider's rules
        allow it and the agent is not known to check its tools. No more once the client has tools of these names
        itself: calls are then its own.
        """
        own = names_recall_tool(values.get("tools")) or names_recall_tool(values.get("functions"))
        if self.offered is not None:
            if own and self.offered:
                self.offered = False
                self._save()
            return
        api, messages = self.api, values[self._wire.key]
        joined = any(piece.role == "assistant" for m in messages for piece in self._wire.split(m))
        checks = agent is not None and agent.checks_tools
        wanted = mode == "on" or (mode == "auto" and api.offers_recall(values, url) and not checks)
        fits = self._have_room(values.get("tools") or ())
        self.offered = wanted and fits and not own and not joined and api.choice_count(values) == 1
        if self.offered and not self._save():
            self.offered = False

    def take_over(self, source: SessionRecalls, shared: Callable[[RecallHop], bool]) -> None:
        """Take over another branch's decision, and its hops whose answer is `shared`."""
        self.offered = source.offered
        self.hops = [hop for hop in source.hops if hop.answer and shared(hop)]
        if self.offered and not self._save():
            self.offered = False

    def add_tools(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the request's tools followed by the recall tools; without them if the client has too many by now."""
        given = list(values.get("tools") or ())
        return self.api.add_tools(values, RECALL_TOOLS) if self._have_room(given) else given

    def _have_room(self, tools: Sequence[Any]) -> bool:
        """Return whether the provider takes the recall tools beside a request's own."""
        most = self.api.most_tools
        return most is None or self.api.count_tools(tools) + len(RECALL_TOOLS) <= most

    def insert_hops(self, messages: list[Any], running: Sequence[RecallHop] = ()) -> list[Any]:
        """Return the client's messages with each stored hop inserted where it happened.

        Hops whose preceding message changed since (a rewound conversation), and those whose answer is not the one in
        the messages, are skipped; of answers that are not complete yet, only the `running` hops stand.
        """
        found = messages
        held = [
            hop
            for hop in self.hops
            if hop.at <= len(messages)
            and (hop in running or (hop.answer and hop.answer == self._answer_at(messages, hop.at)))
            and hop.mark == self.digest_before(messages, hop.at)
        ]
        for at, group in groupby(sorted(held, key=lambda hop: -hop.at), key=lambda hop: hop.at):
            hops = list(group)
            before = [hop for hop in hops if not hop.own]
            if before:
                found = self.format.remove_earlier(found, at, [hop.turn for hop in before])
            for hop in hops:
                if hop.own:
                    found = self.format.merge_hop(found, at, hop.turn, hop.results)
            if before:
                found = [*found[:at], *(m for hop in before for m in (*hop.turn.messages, *hop.results)), *found[at:]]
        return found

    def _answer_at(self, messages: Sequence[Any], at: int) -> str:
        """Return the digest of the answer that begins at message `at`; "" if none does."""
        pieces = (piece for message in islice(messages, at, None) for piece in self._wire.split(message))
        return _visible_digest(list(takewhile(lambda piece: piece.role == "assistant", pieces)))

    def confirm(self, hops: Iterable[RecallHop], last: ResponseParts) -> None:
        """Record the answer that the client got after `hops`, of which `last` is the end."""
        held = list(hops)
        turns = [hop.turn for hop in held if hop.turn is not last] + [last]
        answer = _visible_digest([piece for turn in turns for m in turn.messages for piece in self._wire.split(m)])
        self.hops = [replace(hop, answer=answer) if hop in held else hop for hop in self.hops]
        self._save()

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
        results = self.format.result_messages(turn, texts)
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
            if not self._store.save_note(self._name, "recalls", self._version, body):
                self._version, _ = self._store.load_note(self._name, "recalls")
                self._store.save_note(self._name, "recalls", self._version, body)
            self._version += 1
        except ArchiveError:
            return False
        return True

    def _load(self) -> None:
        """Load the stored hops, if there are any."""
        self._version, body = self._store.load_note(self._name, "recalls") if self._store is not None else (0, "")
        if not body:
            return
        stored = json.loads(body)
        self.offered = stored["offered"]
        for hop in stored["hops"]:
            turn = hop.pop("turn")
            turn["hidden"], turn["late"] = [HiddenCall(**call) for call in turn["hidden"]], b""
            self.hops.append(RecallHop(turn=ResponseParts(**turn), **hop))
