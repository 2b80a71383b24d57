"""`danshari replay --explain REQUEST`: print everything that was decided before one request, and why."""

from __future__ import annotations

from typing import Any

from danshari.analysis.facts import Facts
from danshari.analysis.tiers import tier_of
from danshari.cli.shared.common import emit_json, make_table, out
from danshari.compaction import Compaction
from danshari.compactor import Compactor
from danshari.core.edits import Drop, Fold, Replace, Restore
from danshari.core.pricing import Prices
from danshari.formats import find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari.replay.replay import replay_until
from danshari.sessions import RecordedSession


def explain_request(
    session: RecordedSession,
    policy: str,
    number: int,
    *,
    prices: Prices | None,
    model: str | None,
    window: int | None,
    idle: bool,
    as_json: bool,
) -> None:
    """Replay a session up to request `number` (from 1) and print what was decided before it.

    Raises ArgumentError if the session has no such request.
    """
    compactor, result = replay_until(session, policy, number, prices=prices, model=model, window=window, idle=idle)
    if as_json:
        emit_json(result.to_dict())
        return
    total = sum(1 for _ in request_boundaries(session, find_format(session.format)))
    out.print(f"{session.id} · request {number} of {total}", style="bold", highlight=False)
    out.print(str(result), highlight=False, soft_wrap=True)
    _print_signals(result)
    _print_edits(compactor, result)
    _print_held_back(compactor, result)


def _print_signals(result: Compaction) -> None:
    """Print the signals, and the reason if nothing was edited."""
    s = result.signals
    parts = [
        f"phase {s.phase} for {s.phase_rounds} rounds", f"density {s.density:.2f}", f"repeats {s.repeats}",
        f"failed again {s.failed_again}", f"a round adds about {s.growth:,.0f} tokens",
    ]  # fmt: skip
    parts += [f"under edit: {', '.join(s.files)}"] if s.files else []
    parts += [f"failing: {s.failing[:80]}"] if s.failing else []
    out.print("signals: " + " · ".join(parts), highlight=False, soft_wrap=True)
    if not result.edits:
        reason = result.trigger or "nothing was due: no signal, no pressure, or too soon after the last commit"
        out.print(f"no edit ({reason})", highlight=False)


def _print_edits(compactor: Compactor, result: Compaction) -> None:
    """Print one row per committed edit."""
    facts = compactor.facts
    if not result.edits or facts is None:
        return
    shown = make_table("item", "why", "pass", "tier", "round", "characters", left=2, title="edits")
    for edit in result.edits:
        if isinstance(edit, Replace):
            at = facts.index[edit.id]
            item = facts.items[at]
            act = facts.act_at(at)
            what = f"{item.name or item.kind} {(act.path or act.command)[:44] if act else ''}"
            shown.add_row(
                what, edit.why, edit.by, tier_of(facts, at), str(item.turn), f"{len(item.text):,} → {len(edit.text):,}"
            )
        else:
            shown.add_row(_EDIT_NAMES[type(edit)], edit.why, edit.by, "", _format_rounds(facts, edit), "")
    out.print(shown)


_EDIT_NAMES: dict[type, str] = {Fold: "hand-over", Drop: "rounds dropped", Restore: "shown again"}


def _format_rounds(facts: Facts, edit: Fold | Drop | Restore) -> str:
    """Format the rounds that an edit concerns as `3` or `3–7`."""
    ends = (edit.id, edit.id) if isinstance(edit, Restore) else (edit.first, edit.last)
    first, last = (facts.items[facts.index[end]].turn for end in ends)
    return str(first) if first == last else f"{first}–{last}"


def _print_held_back(compactor: Compactor, result: Compaction) -> None:
    """Print the 20 largest edits that were proposed but do not pay yet."""
    facts = compactor.facts
    if not result.held or facts is None:
        return
    shown = make_table(
        "item", "why", "pass", "tier", "round", "tokens", left=2, title="held back: these do not pay yet"
    )
    for held in sorted(result.held, key=lambda h: -h.freed)[:20]:
        at: Any = next((n for n, item in enumerate(facts.items) if item.id == held.id), None)
        if at is not None:
            act = facts.act_at(at)
            what = f"{facts.items[at].name} {(act.path or act.command)[:44] if act else ''}"
            shown.add_row(what, held.why, held.by, tier_of(facts, at), str(facts.items[at].turn), f"{held.freed:,.0f}")
    out.print(shown)
