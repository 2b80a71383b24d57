"""The state of one running session: ledger, calibration, account, hand-overs.

The values are immutable; every change returns a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from danshari.core.edits import Edit, Ledger, edit_from_dict, edit_to_dict

if TYPE_CHECKING:
    from danshari.core.handover import Handover
from danshari.core.pricing import Prices
from danshari.errors import VersionError

SESSION_STATE_FORMAT = 2
"""Format number of a saved session; 1 knew no hand-overs."""
MAX_HANDOVERS = 16
"""So many documents are kept, for undo."""
THRASH_LIMIT = 3
"""Major compactions in a row, each within `THRASH` turns of the last, from which another is no help."""

RATIO_LIMITS = (0.5, 2.5)
"""How far a report may stand from the estimate, as a factor.

Below, the cached part is missing; above, a server tool's internal calls were added up.
"""
UNSEEN_TOKENS = 16_000.0
"""Tokens (an estimate) that tools and a system prompt we were not given may add to a small view."""


def is_plausible(reported: float, estimated: float) -> bool:
    """Return whether a report of `reported` tokens can be true of one request estimated at `estimated` tokens."""
    low, high = RATIO_LIMITS
    return low * estimated <= reported <= max(high * estimated, estimated + UNSEEN_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The token estimate corrected by what the provider last reported.

    tokens = reported + ratio x (estimate - estimate at that report), in tokens.
    """

    reported: float = 0.0
    estimated: float = 0.0
    ratio: float = 1.0

    def tokens(self, estimate: float) -> float:
        """Return the corrected estimate of a whole view, in tokens."""
        if not self.reported:
            return estimate
        return max(self.reported + self.ratio * (estimate - self.estimated), 0.0)

    def observe(self, reported: float, estimated: float) -> Calibration:
        """Anchor on a new report of `reported` tokens.

        If the estimate changed by more than 400 tokens, the ratio moves half way to (growth reported /
        growth estimated), which is clamped to 0.5 ... 2.5 first. A report that cannot be true changes nothing.
        """
        if not is_plausible(reported, estimated):
            return self
        ratio = self.ratio
        grown = estimated - self.estimated
        if self.reported and abs(grown) > 400:
            fresh = min(max((reported - self.reported) / grown, 0.5), 2.5)
            ratio = 0.5 * ratio + 0.5 * fresh
        return Calibration(reported=reported, estimated=estimated, ratio=ratio)

    def observe_refusal(self, counted: float, estimated: float) -> Calibration:
        """Anchor on a view that the provider refused as too long.

        `counted` is the tokens that the provider counted, or the least it can have been.
        """
        return Calibration(reported=counted, estimated=estimated, ratio=min(max(counted / max(estimated, 1), 1), 2.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAccount:
    """What the session cost, and what it would have cost unchanged; in units of base input tokens."""

    spent: float = 0.0
    untouched: float = 0.0
    full: float = 0.0
    """Tokens of the caller's messages at the last request."""
    shown: float = 0.0
    """Tokens of the view at the last request."""

    def risk_budget(self, share: float) -> float:
        """Return the units that a commit may put at risk.

        (1 + share) x cost without any change - cost so far, at least 0.
        """
        return max((1 + share) * self.untouched - self.spent, 0.0)

    def record_earlier_cost(self, sent: float, turns: int, prices: Prices) -> CostAccount:
        """Record an estimate of what the session cost before danshari joined it.

        write price x `sent` + read price x `sent` x `turns` / 2: every token was written once, and on
        average half of them were read in each turn.
        """
        past = prices.write * sent + prices.read * sent * turns / 2
        return replace(self, spent=past, untouched=past, full=sent, shown=sent)

    def record_request(self, full: float, shown: float, kept: float, prices: Prices, *, cold: bool) -> CostAccount:
        """Record the cost of one request.

        `full` and `shown` are the tokens of the caller's messages and of the view; `kept` is how many
        tokens at the start of the view are unchanged since the last request, which are read from the cache
        unless it is cold.
        """
        before = 0.0 if cold else min(self.full, full)
        kept = 0.0 if cold else min(kept, shown)
        return CostAccount(
            spent=self.spent + prices.read * kept + prices.write * (shown - kept),
            untouched=self.untouched + prices.read * before + prices.write * (full - before),
            full=full,
            shown=shown,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """What a session has committed and what was last sent; an immutable value that converts to and from JSON."""

    ledger: Ledger = ()
    calibration: Calibration = field(default_factory=Calibration)
    served: str = ""
    """Id of the first item at the last request; empty before any."""
    sent: int = 0
    """Items that stood in the last request."""
    last_call: float | None = None
    """Clock reading of the last request, seconds."""
    account: CostAccount = field(default_factory=lambda: CostAccount())
    commit_turn: int = -1
    rest_until: int = 0
    """Turn before which held proposals are not weighed again."""
    commits: int = 0
    policy: str = ""
    batches: tuple[tuple[int, int], ...] = ()
    """(start, end) of each committed batch in the ledger, newest last; `undo` takes the last."""
    handovers: tuple[Handover, ...] = ()
    """The newest documents, the one in force last."""
    majors: tuple[int, ...] = ()
    """Turns of the last major compactions."""
    failures: int = 0
    """Times in a row that a summarizer was asked in vain."""
    recalled: tuple[tuple[str, int], ...] = ()
    """(digest, times) of what was recalled."""
    learned: tuple[tuple[str, float], ...] = ()
    """(tool kind, factor) by which an edit of that kind counts as riskier, 1 to 4; grows with recalls."""

    @property
    def handover(self) -> Handover | None:
        """The hand-over in force, or None."""
        return self.handovers[-1] if self.handovers else None

    def is_thrashing(self, turn: int) -> bool:
        """Return whether each of the last major compactions followed the one before within a few turns."""
        turns = (*self.majors[-THRASH_LIMIT:], turn)
        return len(turns) > THRASH_LIMIT and all(b - a <= THRASH_LIMIT for a, b in pairwise(turns))

    def record_major(self, document: Handover, turn: int) -> SessionState:
        """Record a major compaction and its document."""
        return replace(
            self,
            handovers=(*self.handovers, document)[-MAX_HANDOVERS:],
            majors=(*self.majors, turn)[-THRASH_LIMIT - 1 :],
        )

    def commit(self, edits: tuple[Edit, ...], turn: int) -> SessionState:
        """Append a batch of edits to the ledger; `undo` can take it back."""
        return replace(
            self,
            ledger=self.ledger + edits,
            commit_turn=turn,
            commits=self.commits + 1,
            batches=(*self.batches, (len(self.ledger), len(self.ledger) + len(edits))),
        )

    def append(self, edits: tuple[Edit, ...]) -> SessionState:
        """Append edits that are not a batch of their own (admission, undo)."""
        return replace(self, ledger=self.ledger + edits) if edits else self

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values with a format number."""
        c = self.calibration
        return {
            "format": SESSION_STATE_FORMAT,
            "ledger": [edit_to_dict(e) for e in self.ledger],
            "calibration": [c.reported, c.estimated, c.ratio],
            "served": self.served,
            "sent": self.sent,
            "last_call": self.last_call,
            "account": asdict(self.account),
            "commit_turn": self.commit_turn,
            "rest_until": self.rest_until,
            "commits": self.commits,
            "policy": self.policy,
            "batches": [list(b) for b in self.batches],
            "handovers": [h.to_dict() for h in self.handovers],
            "majors": list(self.majors),
            "failures": self.failures,
            "recalled": [list(pair) for pair in self.recalled],
            "learned": [list(pair) for pair in self.learned],
        }


def session_from_dict(data: Mapping[str, Any]) -> SessionState:
    """Read what `SessionState.to_dict` wrote; fields that an earlier version did not have get their defaults.

    Raises VersionError for a newer format, and KeyError, TypeError or ValueError for anything else.
    """
    if int(data.get("format", 1)) > SESSION_STATE_FORMAT:
        raise VersionError(
            f"a session of format {data['format']}, this danshari reads up to {SESSION_STATE_FORMAT}: upgrade it"
        )
    from danshari.core.handover import handover_from_dict  # only stored sessions need it

    reported, estimated, ratio = map(float, data["calibration"])
    last = data["last_call"]
    return SessionState(
        ledger=tuple(edit_from_dict(e) for e in data["ledger"]),
        calibration=Calibration(reported=reported, estimated=estimated, ratio=ratio),
        served=str(data["served"]),
        sent=int(data["sent"]),
        last_call=None if last is None else float(last),
        account=CostAccount(**{k: float(v) for k, v in data["account"].items()}),
        commit_turn=int(data["commit_turn"]),
        rest_until=int(data["rest_until"]),
        commits=int(data["commits"]),
        policy=str(data["policy"]),
        batches=tuple((int(a), int(b)) for a, b in data["batches"]),
        handovers=tuple(handover_from_dict(h) for h in data.get("handovers", ())),
        majors=tuple(map(int, data.get("majors", ()))),
        failures=int(data.get("failures", 0)),
        recalled=tuple((str(a), int(b)) for a, b in data.get("recalled", ())),
        learned=tuple((str(a), float(b)) for a, b in data.get("learned", ())),
    )
