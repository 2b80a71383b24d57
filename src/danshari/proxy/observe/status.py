"""What the status page, `danshari status` and `/status.json` show: figures of every session, no content."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from danshari.proxy.sessions.registry import Keepers
from danshari.proxy.sessions.session import Keeper
from danshari.proxy.settings import Settings
from danshari.version import __version__

FORMAT = 1
"""Format number of the status."""


def status_of(settings: Settings, keepers: Keepers) -> dict[str, Any]:
    """Give the state of the proxy as plain JSON values."""
    rows = [row_of(keeper) for keeper in keepers.all()]
    return {
        "format": FORMAT,
        "version": __version__,
        "policy": keepers.policy.name,
        "off": settings.off,
        "sessions": rows,
        "total": {name: sum(row[name] for row in rows) for name in ("requests", "before", "after", "edits", "faults",
                  "rescues", "recalls", "dollars")},
    }  # fmt: skip


def row_of(keeper: Keeper) -> dict[str, Any]:
    """Give one session's row."""
    session, figures = keeper.compactor.session, asdict(keeper.figures)
    account = session.account
    return {
        "session": keeper.name,
        "client": keeper.client,
        "model": keeper.compactor.model.name,
        "live_edits": len(session.ledger),
        "handovers": len(session.handovers),
        "price_ratio": round(account.spent / account.untouched, 4) if account.untouched else 1.0,
        **{k: round(v, 6) if isinstance(v, float) else v for k, v in figures.items()},
    }
