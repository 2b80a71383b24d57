"""Find the session and branch of a request by who sent it and by the messages it holds.

Clients need not send a session id. A request continues a session if its sender, format and first user message are the
same and at most `MAX_CHANGED_MESSAGES` (in `session.py`) of the messages seen before are changed or missing; otherwise
it is a branch of that session or a new one. Where branches of a session diverge is stored beside it, so that a later
process can match requests to them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from danshari import data
from danshari.archive.base import Archive, NoteStore
from danshari.compactor import Compactor
from danshari.core.items import hash_strings
from danshari.data.agents import detect_agent, session_headers
from danshari.errors import ArchiveError
from danshari.formats import Format
from danshari.formats.api import ProviderApi
from danshari.proxy.body.body import RequestBody
from danshari.proxy.http.request import ClientRequest
from danshari.proxy.recall.store import SessionRecalls, message_digest
from danshari.proxy.sessions.client_model import ClientModel
from danshari.proxy.sessions.session import MAX_CHANGED_MESSAGES, ClientIdentity, ProxySession
from danshari.proxy.settings import Settings

MAX_SESSIONS_SEARCHED = 32
"""Sessions that are looked through for one that begins as a new request does."""
MAX_BRANCHES = 8
"""Branches of one session (forks, sub-agents that began alike) kept ready."""
MAX_UNFORKED_MESSAGES = 3
"""Messages up to which a request cannot be of a stored fork: nothing has parted yet."""


def identify_client(wire: Format, request: ClientRequest, values: Mapping[str, Any]) -> ClientIdentity:
    """Return what a request tells about its sender."""
    headers, api = request.headers, wire.api
    model = api.model_of(request.path, values)
    window = api.wide_window(headers)
    return ClientIdentity(
        wire=wire,
        model=model,
        tenant=hash_credential(api.credential(headers, request.query)),
        key=client_session_key(api, headers, values),
        agent=detect_agent(headers),
        window=window if window and data.find_model(model or None).window < window else None,
        url=f"{request.path}?{request.query}",
    )


def hash_credential(credential: str) -> str:
    """Return a short hash, which keeps tenants' sessions apart; "" if none was sent. The credential is not stored."""
    return hash_strings("credential", credential)[:8] if credential else ""


def client_session_key(api: ProviderApi, headers: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Return the client's own key for its session and sub-agent, from headers or the body; "" if it sends none."""
    named, parts = session_headers()
    key = next((headers[name] for name in named if headers.get(name)), "") or api.session_key(values)
    return key + "".join(f" {headers[name]}" for name in parts if name in headers)


def derive_session_root(client: ClientIdentity, messages: Sequence[Any]) -> str:
    """Return the id of a session: a hash of tenant, format, the client's key and its first user message."""
    wire, first = client.wire, ""
    for message in messages:
        if any(piece.role == "user" for piece in wire.split(message)):
            first = message_digest(wire, message)
            break
    return hash_strings(client.tenant, wire.name, client.key, first)[:16]


def main_branch_name(root: str) -> str:
    """Return the name of a session's first branch."""
    return f"proxy-{root}"


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
        return sorted((k for row in self._kept.values() for k in row), key=lambda k: -k.totals.seen)

    def find_similar_body(self, raw: bytes) -> RequestBody | None:
        """Return a recent session's body with the same beginning, so that only the rest must be parsed."""
        for row in islice(reversed(self._kept.values()), MAX_SESSIONS_SEARCHED):
            for session in row[:2]:
                body = session.body
                if body is not None and body.places and raw.startswith(body.head):
                    return body
        return None

    async def find(self, client: ClientIdentity, body: RequestBody) -> ProxySession:
        """Return the branch that a request continues, or start one.

        Archive access runs in a thread.
        """
        root = derive_session_root(client, body.messages)
        session = self._find_branch(root, body.messages)
        if session is None:
            async with self._beginning:
                session = self._find_branch(root, body.messages)
                if session is None:
                    row = self._kept.get(root, [])
                    session = await asyncio.to_thread(self._start_branch, root, list(row), client, body.messages)
        row = self._kept.setdefault(root, [])
        self._kept.move_to_end(root)
        if session in row:
            row.remove(session)
        row.insert(0, session)
        del row[MAX_BRANCHES:]
        while len(self) > self.settings.sessions and len(self._kept) > 1:
            self._kept.popitem(last=False)
        session.body = body  # at once: another branch may come before this one was decided on
        session.client = client if client.agent else client._replace(agent=session.client.agent)
        session.totals.seen = time.time()
        return session

    def _find_branch(self, root: str, messages: list[Any]) -> ProxySession | None:
        """Return the loaded branch that the messages continue; None if there is none."""
        return next(
            (k for k in self._kept.get(root, ()) if k.count_changed_messages(messages) <= MAX_CHANGED_MESSAGES), None
        )

    def _start_branch(
        self, root: str, row: list[ProxySession], client: ClientIdentity, messages: list[Any]
    ) -> ProxySession:
        """Start a branch: a stored one that fits, the session's first, or a fork of the most similar one."""
        branches, taken = BranchStore(root, client.wire, self._archive), {k.name for k in row}
        name = branches.find_fork(messages) if len(messages) > MAX_UNFORKED_MESSAGES else ""
        source = None
        if not name or name in taken:
            name = main_branch_name(root)
            if name in taken:
                best = max(row, key=lambda k: k.common_prefix_length(messages))
                shared = best.common_prefix_length(messages)
                name, source = branches.add_fork(messages, shared), best if shared > 1 else None
        return self._create_session(name, client, source)

    def _create_session(self, name: str, client: ClientIdentity, source: ProxySession | None) -> ProxySession:
        """Create a branch with its compactor, which takes up what the archive holds under its name."""
        model = ClientModel(client.wire) if self.settings.handover == "model" else None
        compactor = Compactor(
            self.policy,
            model=client.model or None,
            window=client.window,
            archive=self._archive,
            session=name,
            project=f"{self.settings.project or 'proxy'}/{client.tenant}",
            confined=True,
            format=client.wire.name,
            summarizer=model.summarizer() if model else None,
        )
        recalls = None
        if self.settings.recall != "off":
            recalls = SessionRecalls(client.wire, compactor, self._archive, name)
        return ProxySession(
            name=name, wire=client.wire, compactor=compactor, client=client, window=client.window, client_model=model,
            recalls=recalls, source=source,
        )  # fmt: skip


class BranchStore:
    """The stored forks of one session.

    Each is a name, the index of the first message of its own, and that message's digest.
    """

    def __init__(self, root: str, wire: Format, archive: Archive | None) -> None:
        self._store = archive if isinstance(archive, NoteStore) else None
        self._main, self._wire = main_branch_name(root), wire

    def _load(self) -> tuple[int, list[list[Any]]]:
        version, stored = self._store.load_note(self._main, "branches") if self._store is not None else (0, "")
        return version, json.loads(stored or "[]")

    def find_fork(self, messages: Sequence[Any]) -> str:
        """Return the name of the stored fork that a request belongs to; "" if it belongs to none."""
        fits = [
            (at, name)
            for name, at, mark in self._load()[1]
            if at < len(messages) and message_digest(self._wire, messages[at]) == mark
        ]
        return max(fits)[1] if fits else ""

    def add_fork(self, messages: Sequence[Any], at: int) -> str:
        """Store a new fork whose first message of its own is at index `at`, and return its name.

        An archive error is ignored: the fork is then known to this process only.
        """
        at = min(at, len(messages) - 1)
        mark = message_digest(self._wire, messages[at])
        name = f"{self._main}-{mark[:10]}"
        version, stored = self._load()
        if self._store is not None and [name, at, mark] not in stored:
            try:
                self._store.save_note(self._main, "branches", version, json.dumps([*stored, [name, at, mark]]))
            except ArchiveError:
                return name  # it is found again while this process lives
        return name
