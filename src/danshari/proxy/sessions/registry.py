"""Find the session and branch of a request by the client's key and by the messages it holds.

Clients need not send a session id.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from typing import Any

from danshari import data
from danshari.archive.base import Archive
from danshari.compactor import Compactor
from danshari.core.items import hash_strings
from danshari.formats import Format
from danshari.proxy.body.body import RequestBody
from danshari.proxy.recall.store import SessionRecalls
from danshari.proxy.sessions.branches import BranchStore, main_branch_name, message_digest
from danshari.proxy.sessions.client_model import ClientModel
from danshari.proxy.sessions.clients import client_session_key, credential_hash, detect_agent
from danshari.proxy.sessions.session import MAX_CHANGED_MESSAGES, ProxySession, window_from_beta
from danshari.proxy.settings import Settings

MAX_SESSIONS_SEARCHED = 32
"""Sessions that are looked through for one that begins as a new request does."""
MAX_BRANCHES = 8
"""Branches of one session (forks, sub-agents that began alike) kept ready."""
MAX_UNFORKED_MESSAGES = 3
"""Messages up to which a request cannot be of a stored fork: nothing has parted yet."""


class SessionRegistry:
    """All session branches in memory, in order of use.

    The least recently used session is dropped beyond the limit and read back from the archive when it
    returns.
    """

    def __init__(self, settings: Settings, archive: Archive | None) -> None:
        self.settings, self._archive = settings, archive
        self._kept: OrderedDict[str, list[ProxySession]] = OrderedDict()
        self._beginning = asyncio.Lock()
        self.policy = data.load_policy(settings.policy)

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def all_branches(self) -> list[ProxySession]:
        """Return every branch, most recently used first."""
        return sorted((k for row in self._kept.values() for k in row), key=lambda k: -k.figures.seen)

    def find_similar_body(self, raw: bytes) -> RequestBody | None:
        """Return a recent session's body with the same beginning, so that only the rest must be parsed."""
        for row in islice(reversed(self._kept.values()), MAX_SESSIONS_SEARCHED):
            for keeper in row[:2]:
                body = keeper.body
                if body is not None and body.places and raw.startswith(body.head):
                    return body
        return None

    async def find(self, wire: Format, body: RequestBody, headers: Mapping[str, str]) -> ProxySession:
        """Return the branch that a request continues, or start one.

        Archive access runs in a thread.
        """
        values = body.values
        root = derive_session_root(wire, values, headers)
        keeper = self._find_branch(root, values[wire.key])
        if keeper is None:
            async with self._beginning:
                keeper = self._find_branch(root, values[wire.key])
                if keeper is None:
                    row = self._kept.get(root, [])
                    keeper = await asyncio.to_thread(self._start_branch, root, list(row), wire, values, headers)
        row = self._kept.setdefault(root, [])
        self._kept.move_to_end(root)
        if keeper in row:
            row.remove(keeper)
        row.insert(0, keeper)
        del row[MAX_BRANCHES:]
        while len(self) > self.settings.sessions and len(self._kept) > 1:
            self._kept.popitem(last=False)
        keeper.body = body  # at once: another branch may come before this one was decided on
        agent = detect_agent(headers)
        keeper.client = agent.name if agent else keeper.client
        keeper.figures.seen = time.time()
        return keeper

    def _find_branch(self, root: str, messages: list[Any]) -> ProxySession | None:
        """Return the loaded branch that the messages continue; None if there is none."""
        return next(
            (k for k in self._kept.get(root, ()) if k.count_changed_messages(messages) <= MAX_CHANGED_MESSAGES), None
        )

    def _start_branch(
        self, root: str, row: list[ProxySession], wire: Format, values: Mapping[str, Any], headers: Mapping[str, str]
    ) -> ProxySession:
        """Start a branch: a stored one that fits, the session's first, or a fork of the most similar one."""
        messages, model = values[wire.key], str(values.get("model") or "")
        branches, taken = BranchStore(root, wire, self._archive), {k.name for k in row}
        name = branches.find_fork(messages) if len(messages) > MAX_UNFORKED_MESSAGES else ""
        window, source = window_from_beta(headers, model), None
        if not name or name in taken:
            name = main_branch_name(root)
            if name in taken:
                best = max(row, key=lambda k: k.common_prefix_length(messages))
                shared = best.common_prefix_length(messages)
                name, source = branches.add_fork(messages, shared), best if shared > 1 else None
        door = ClientModel(wire.name) if self.settings.handover == "model" else None
        made = Compactor(
            self.policy,
            model=model or None,
            window=window,
            archive=self._archive,
            session=name,
            project=f"{self.settings.project or 'proxy'}/{credential_hash(headers)}",
            confined=True,
            format=wire.name,
            summarizer=door.summarizer() if door else None,
        )
        recalls = SessionRecalls(wire, made, self._archive, name) if self.settings.recall != "off" else None
        return ProxySession(name=name, compactor=made, window=window, door=door, recalls=recalls, source=source)


def derive_session_root(wire: Format, values: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Return the id of a session: a hash of tenant, format, the client's key and its first user message."""
    first = ""
    for message in values[wire.key]:
        if any(piece.role == "user" for piece in wire.split(message)):
            first = message_digest(wire, message)
            break
    return hash_strings(credential_hash(headers), wire.name, client_session_key(headers, values), first)[:16]
