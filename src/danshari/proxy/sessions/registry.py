"""Find the branch of a request by who sent it, the client's own key, and by what was said and found in it.

A request continues the branch of its scope (tenant, format, key) whose trail it extends. If it extends none it starts a
branch, which takes over what was decided for the answers that it shares with another branch: a fork, a rewound or a
resumed session. Words that two conversations begin with say nothing.
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
from danshari.data.agents import detect_agent, session_headers
from danshari.formats import Format
from danshari.formats.api import ProviderApi
from danshari.proxy.body.body import RequestBody
from danshari.proxy.http.request import ClientRequest
from danshari.proxy.recall.store import SessionRecalls
from danshari.proxy.sessions.client_model import ClientModel
from danshari.proxy.sessions.session import ClientIdentity, ProxySession
from danshari.proxy.sessions.stored import BranchIndex, Scope
from danshari.proxy.sessions.trail import (
    Stretch,
    Trail,
    begins_alike,
    compare,
    continues_cut,
    longest_run,
    prefix_digest,
    question_mark,
    read_trail,
)
from danshari.proxy.settings import Settings

MAX_BODIES_SEARCHED = 64
"""Sessions that are looked through for a body that begins as a new one does."""
_MAX_INLINE_CHARS = 20_000
"""Characters of a body up to which it is read at once; larger ones in a thread."""
_MAX_INLINE_MESSAGES = 4
"""New messages of a known body up to which they are."""


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


class SessionRegistry:
    """All session branches in memory, in order of use.

    The least recently used is dropped beyond the limit and read back from the archive when it returns.
    """

    def __init__(self, settings: Settings, archive: Archive | None) -> None:
        self.settings, self._archive = settings, archive
        self._kept: OrderedDict[str, ProxySession] = OrderedDict()
        self._stored = BranchIndex(archive)
        self._beginning = asyncio.Lock()
        self.policy = data.load_policy(settings.policy)

    def __len__(self) -> int:
        return len(self._kept)

    def all_branches(self) -> list[ProxySession]:
        """Return every branch, most recently used first."""
        return sorted(self._kept.values(), key=lambda k: -k.totals.seen)

    def find_similar_body(self, raw: bytes) -> RequestBody | None:
        """Return a recent session's body with the same beginning, so that only the rest must be parsed."""
        for session in islice(reversed(self._kept.values()), MAX_BODIES_SEARCHED):
            body = session.body
            if body is not None and body.places and raw.startswith(body.head):
                return body
        return None

    async def find(self, client: ClientIdentity, body: RequestBody) -> ProxySession:
        """Return the branch that a request continues, or start one.

        Archive access runs in a thread.
        """
        wire, known = client.wire, body.trail
        if len(body.text) <= _MAX_INLINE_CHARS or (
            known and len(body.messages) - known[-1].end <= _MAX_INLINE_MESSAGES
        ):
            body.trail = read_trail(wire, body.messages, known)
        else:
            body.trail = await asyncio.to_thread(read_trail, wire, body.messages, known)
        scope = Scope(client.tenant, wire.name, client.key)
        session = self._find_branch(scope, body)
        if session is None or len(body.trail) > len(session.trail) + 1:  # the archive may know one that went further
            async with self._beginning:
                session = self._find_branch(scope, body)
                if session is None or len(body.trail) > len(session.trail) + 1:
                    row = list(self._kept.values())
                    session = await asyncio.to_thread(self._start_branch, scope, row, client, body.trail, session)
                    self._kept[session.name] = session
                session.body = body
        self._kept[session.name] = session
        self._kept.move_to_end(session.name)
        while len(self._kept) > self.settings.sessions:
            self._kept.popitem(last=False)
        session.body = body  # at once: another branch may come before this one was decided on
        session.client = client if client.agent else client._replace(agent=session.client.agent)
        session.totals.seen = time.time()
        return session

    def _find_branch(self, scope: Scope, body: RequestBody) -> ProxySession | None:
        """Return the loaded branch that a request continues, the one with most in common; None if there is none."""
        trail = body.trail
        own = [session for session in reversed(self._kept.values()) if session.scope == scope]
        shared = [(compare(session.trail, trail), session) for session in own]
        fits = [(same.stretches, session) for same, session in shared if same.continues]
        if len(fits) > 1:  # runs that nothing but reminders tells apart so far
            most = max(fits, key=lambda pair: pair[0])[0]
            fits.sort(key=lambda pair: -pair[1].count_equal_messages(body.messages) if pair[0] == most else 1)
        best = max(fits, key=lambda pair: pair[0], default=None)
        if best and len(best[1].trail) == len(trail):  # that one was there already: is it another run's next request?
            best = next((pair for pair in fits if len(pair[1].trail) == len(trail) - 1), best)
        if best is None and scope.key:
            return next((session for session in own if continues_cut(session.trail, trail)), None)
        return best[1] if best else None

    def _start_branch(
        self,
        scope: Scope,
        row: list[ProxySession],
        client: ClientIdentity,
        trail: list[Stretch],
        behind: ProxySession | None,
    ) -> ProxySession:
        """Start a branch: a stored one that fits, or a new one, which takes over what it shares with another.

        `behind` is a loaded branch that the request continues, with more than one answer between; it is returned if no
        stored one has more in common.
        """
        taken = {session.name for session in row}
        stored = self._stored.find(scope, trail, lambda name: name not in taken)
        loaded = compare(behind.trail, trail).stretches if behind is not None else -1
        if stored.name and stored.shared > loaded:
            return self._create_session(stored.name, scope, client)
        if behind is not None and loaded:
            return behind
        session = self._create_session(self._free_name(scope, trail, taken), scope, client)
        related = [s for s in row if s.scope == scope or (scope.tenant and s.scope[:2] == scope[:2])]
        ranks = [((compare(s.trail, trail).stretches, longest_run(s.trail, trail)[0]), s) for s in related]
        best, source = max(ranks, key=lambda pair: pair[0], default=((0, 0), None))
        if stored.shared > best[0] and stored.source not in taken:
            best, source = (stored.shared, 0), self._create_session(stored.source, scope, client)
        if not any(best):  # not even an answer: at most what the first request was sent with
            source = next((s for s in related if s.scope == scope and begins_alike(s.trail, trail)), None)
        session.source = source
        return session

    def _free_name(self, scope: Scope, trail: Trail, taken: set[str]) -> str:
        """Return a name that no other branch has: of what the session began with, and for forks of the prefix too."""
        root = hash_strings(*scope, question_mark(trail))[:16]
        name, number = main_branch_name(root), 0
        while name in taken or not self._stored.is_free(name):
            name = f"{main_branch_name(root)}-{hash_strings(prefix_digest(trail), str(number))[:10]}"
            number += 1
        return name

    def _create_session(self, name: str, scope: Scope, client: ClientIdentity) -> ProxySession:
        """Create a branch with its compactor, which takes up what the archive holds under its name."""
        model = ClientModel(client.wire) if self.settings.handover == "model" else None
        owner = client.tenant or name  # without a credential nothing is shared
        compactor = Compactor(
            self.policy,
            model=client.model or None,
            window=client.window,
            archive=self._archive,
            session=name,
            project=f"{self.settings.project or 'proxy'}/{owner}",
            confined=True,
            format=client.wire.name,
            summarizer=model.summarizer() if model else None,
        )
        recalls = None
        if self.settings.recall != "off":
            recalls = SessionRecalls(client.wire, compactor, self._archive, name)
        return ProxySession(
            name=name, wire=client.wire, compactor=compactor, client=client, window=client.window, client_model=model,
            recalls=recalls, scope=scope, stored=self._stored,
        )  # fmt: skip


def main_branch_name(root: str) -> str:
    """Return the name of a session's first branch."""
    return f"proxy-{root}"
