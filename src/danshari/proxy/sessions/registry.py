"""Sessions of clients that do not say so: found again by the client's own key and by what a request holds."""

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
from danshari.core.items import hashed
from danshari.formats import Format
from danshari.proxy.body.body import Body
from danshari.proxy.recall.store import Recalls
from danshari.proxy.sessions.branches import Branches, main_branch, said
from danshari.proxy.sessions.client_model import Door
from danshari.proxy.sessions.clients import agent_of, credential, key_of
from danshari.proxy.sessions.session import MOVED, Keeper, wide_window
from danshari.proxy.settings import Settings

NEAREST = 32
"""Sessions that are looked through for one that begins as a new request does."""
BRANCHES = 8
"""Branches of one session (forks, sub-agents that began alike) kept ready."""
ALONE = 3
"""Messages up to which a request cannot be of a stored fork: nothing has parted yet."""


class Keepers:
    """All sessions, the newest used last; what falls out is read back from the archive when it is called again."""

    def __init__(self, settings: Settings, archive: Archive | None) -> None:
        self.settings, self._archive = settings, archive
        self._kept: OrderedDict[str, list[Keeper]] = OrderedDict()
        self._beginning = asyncio.Lock()
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

    async def find(self, wire: Format, body: Body, headers: Mapping[str, str]) -> Keeper:
        """Give the branch a request continues, or a new one; what must wait for the archive does so in a thread."""
        values = body.values
        root = root_of(wire, values, headers)
        keeper = self._held(root, values[wire.key])
        if keeper is None:
            async with self._beginning:
                keeper = self._held(root, values[wire.key])
                if keeper is None:
                    row = self._kept.get(root, [])
                    keeper = await asyncio.to_thread(self._begin, root, list(row), wire, values, headers)
        row = self._kept.setdefault(root, [])
        self._kept.move_to_end(root)
        if keeper in row:
            row.remove(keeper)
        row.insert(0, keeper)
        del row[BRANCHES:]
        while len(self) > self.settings.sessions and len(self._kept) > 1:
            self._kept.popitem(last=False)
        keeper.body = body  # at once: another branch may come before this one was decided on
        agent = agent_of(headers)
        keeper.client = agent.name if agent else keeper.client
        keeper.figures.seen = time.time()
        return keeper

    def _held(self, root: str, messages: list[Any]) -> Keeper | None:
        return next((k for k in self._kept.get(root, ()) if k.distance(messages) <= MOVED), None)

    def _begin(
        self, root: str, row: list[Keeper], wire: Format, values: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Keeper:
        """Make a branch: a stored one that fits, the session's first, or a fork of the one that shares most."""
        messages, model = values[wire.key], str(values.get("model") or "")
        branches, taken = Branches(root, wire, self._archive), {k.name for k in row}
        name = branches.fitting(messages) if len(messages) > ALONE else ""
        window, source = wide_window(headers, model), None
        if not name or name in taken:
            name = main_branch(root)
            if name in taken:
                best = max(row, key=lambda k: k.shared(messages))
                shared = best.shared(messages)
                name, source = branches.fork(messages, shared), best if shared > 1 else None
        door = Door(wire.name) if self.settings.handover == "model" else None
        made = Compactor(
            self.policy,
            model=model or None,
            window=window,
            archive=self._archive,
            session=name,
            project=f"{self.settings.project or 'proxy'}/{credential(headers)}",
            confined=True,
            format=wire.name,
            summarizer=door.summarizer() if door else None,
        )
        recalls = Recalls(wire, made, self._archive, name) if self.settings.recall != "off" else None
        return Keeper(name=name, compactor=made, window=window, door=door, recalls=recalls, source=source)


def root_of(wire: Format, values: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    """Name a session: tenant, format, the client's own key, and what its first user message says."""
    first = ""
    for message in values[wire.key]:
        if any(piece.role == "user" for piece in wire.split(message)):
            first = said(wire, message)
            break
    return hashed(credential(headers), wire.name, key_of(headers, values), first)[:16]
