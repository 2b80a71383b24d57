"""`danshari replay --explain ROUND`: print everything that was decided before one request, and why."""

from __future__ import annotations

from typing import Any

from danshari.analysis.tiers import tier_of
from danshari.cli.shared.common import emit_json, make_table, out
from danshari.compaction import Compaction
from danshari.compactor import Compactor
from danshari.core.edits import Replace
from danshari.core.pricing import Prices
from danshari.errors import ArgumentError
from danshari.formats import find_format
from danshari.replay.prompt_cache import request_boundaries
from danshari.sessions import RecordedSession


def explain_request(
    session: RecordedSession,
    policy: str,
    number: int,
    *,
    prices: Prices | None,
    model: str | None,
    window: int | None,
    as_json: bool,
) -> None:
    """Replay a session up to request `number` (from 1) and print that decision.

    Raises ArgumentError if the session has no such request.
    """
    places = list(request_boundaries(session, find_format(session.format)))
    if not 1 <= number <= len(places):
        raise ArgumentError(f"--explain {number}: {session.id} has requests 1 to {len(places)}")
    engine = Compactor(
        policy, model=model or session.model or None, prices=prices, window=window, format=session.format
    )
    for at in places[:number]:
        result = engine.compact(session.messages[:at])
    if as_json:
        emit_json(result.to_dict())
        return
    out.print(f"[bold]{session.id} · request {number} of {len(places)}[/bold]", highlight=False)
    out.print(str(result), highlight=False, markup=False, soft_wrap=True)
    _print_signals(result)
    _print_edits(engine, result)
    _print_held_back(engine, result)


def _print_signals(result: Compaction) -> None:
    """Print the signals, and the reason if nothing was edited."""
    s = result.signals
    parts = [
        f"phase {s.phase} for {s.phase_rounds} rounds", f"density {s.density:.2f}", f"repeats {s.repeats}",
        f"failed again {s.failed_again}", f"a round adds about {s.growth:,.0f} tokens",
    ]  # fmt: skip
    parts += [f"under edit: {', '.join(s.files)}"] if s.files else []
    parts += [f"failing: {s.failing[:80]}"] if s.failing else []
    out.print("signals: " + " · ".join(parts), highlight=False, markup=False, soft_wrap=True)
    if not result.edits:
        reason = result.trigger or "nothing was due: no signal, no pressure, or too soon after the last commit"
        out.print(f"no edit ({reason})", highlight=False, markup=False)


def _print_edits(engine: Compactor, result: Compaction) -> None:
    """Print one row per committed edit."""
    facts = engine.facts
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
            shown.add_row(type(edit).__name__, edit.why, edit.by, "", "", "")
    out.print(shown)


def _print_held_back(engine: Compactor, result: Compaction) -> None:
    """Print the 20 largest edits that were proposed but do not pay yet."""
    facts = engine.facts
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
