"""The data of `/status.json`, of the status page and of `danshari status`: totals per session, no content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from danshari.proxy.sessions.registry import SessionRegistry
from danshari.proxy.sessions.session import ProxySession
from danshari.proxy.settings import Settings
from danshari.version import __version__

STATUS_FORMAT = 1
"""Format number of the status."""


def proxy_status(settings: Settings, sessions: SessionRegistry, untouched: Mapping[str, int]) -> dict[str, Any]:
    """Return the state of the proxy as JSON values; `untouched` are reasons why requests passed through unread."""
    rows = [session_row(session) for session in sessions.all_branches()]
    return {
        "format": STATUS_FORMAT,
        "version": __version__,
        "policy": sessions.policy.name,
        "off": settings.off,
        "untouched": dict(untouched),
        "sessions": rows,
        "total": {name: sum(row[name] for row in rows) for name in ("requests", "before", "after", "edits", "faults",
                  "rescues", "recalls", "dollars")},
    }  # fmt: skip


def session_row(session: ProxySession) -> dict[str, Any]:
    """Return one session branch as a row of JSON values.

    `price_ratio` is the input cost of what was sent over that of the unedited requests.
    """
    state, totals = session.compactor.session, asdict(session.totals)
    account = state.account
    return {
        "session": session.name,
        "client": session.client_name,
        "model": session.compactor.model.name,
        "live_edits": len(state.ledger),
        "handovers": len(state.handovers),
        "price_ratio": round(account.spent / account.untouched, 4) if account.untouched else 1.0,
        **{k: round(v, 6) if isinstance(v, float) else v for k, v in totals.items()},
    }
