"""One conversation under one policy, step by step: a list goes in, a `Compaction` comes out.

No lock, no fault handling and no saving here; `compactor` adds those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from danshari import data
from danshari.analysis.signals import signals
from danshari.archive.base import Entry
from danshari.compaction import Compaction, Held
from danshari.core.edits import Edit, Fold, Replace
from danshari.core.policy import Policy
from danshari.formats import Format, detect
from danshari.formats.usage import floor_of
from danshari.pipeline.decide import (
    Decision,
    admitted,
    binds,
    decide,
    strip_dead,
    weigh,
)
from danshari.pipeline.major import Major
from danshari.pipeline.major_trigger import booked, of_moment
from danshari.pipeline.masking import masked
from danshari.pipeline.state import Standing
from danshari.pipeline.tracker import (
    Track,
    originals,
    same_pieces,
    touched_by,
)
from danshari.planning.planner import (
    Situation,
    pressure_of,
    rest_after,
    soft_line,
)

_FOREVER = 1e12
"""Seconds that no session waited: the mark of a cache that cannot hold anything."""


class Run(Standing):
    """What one call does to a running conversation."""

    def format_of(self, payload: Any) -> tuple[Format, tuple[str, ...]]:
        """Detect the format anew only until the conversation has shown messages that one format alone has."""
        if self.wire is not None:
            return self.wire, ()
        if self.track is not None and self.track.facts.call_turns:
            return self.track.format, ()
        return detect(payload)

    def compact(
        self,
        payload: Any,
        wire: Format,
        notes: list[str],
        *,
        force: bool = False,
        full: bool = False,
        sent: int | None = None,
        focus: str | None = None,
        until: int = 0,
    ) -> Compaction:
        """Follow the conversation, admit, weigh, commit, write; `full` asks for a major compaction."""
        given = wire.messages(payload)
        messages = self._recovered(wire, given)
        until += len(messages) - len(given) if until else 0  # in replace mode the caller counts the messages it holds
        track = self._follow(messages, wire, notes)
        facts = track.facts
        if not facts.items:
            return self.result(payload, [], Decision(), notes, "none")
        sent_items = self._sent_items(track, sent)
        edits = admitted(track, self._admission(), facts.first_sight if sent is None else sent_items)
        self.commit(edits, batch=False)
        stripped, _ = self.bind() if edits else ([], [])
        edits += stripped
        self._join(track, sent_items)
        situation = self._situation(track, sent_items, force=force)
        decision, major = self._decided(payload, situation, force=force, full=full, focus=focus or "", until=until)
        notes += decision.notes
        if decision.edits or edits or self.hints:
            stripped, note = self.bind()
            decision.edits += stripped
            notes += note
        if situation.pressure == "hard":
            self._fits(track, notes)
        result = self.result(payload, edits, decision, notes, situation.pressure, major)
        if sent is None:
            self._book(track, result, situation)
        if self.mode == "replace":
            self.remember(messages, result)
        return result

    def _decided(
        self, payload: Any, situation: Situation, *, force: bool, full: bool, focus: str, until: int
    ) -> tuple[Decision, Major]:
        """Weigh the gentle edits, make a hand-over where they do not suffice, go on by force; all of it committed."""
        track, turn = self.track, situation.facts.turn
        assert track is not None
        why = weigh(self.policy, situation, force=force) if not full else ""
        policy = replace(self.policy, pinned=(*self.policy.pinned, focus)) if focus and not full else self.policy
        able = "summarize" in policy.passes
        decision = decide(track, policy, self.model, situation, why, self.session.ledger, last=not able)
        major = of_moment(self, payload, decision, force=force, full=full, focus=focus, until=until)
        if major.edits:
            plan = replace(decision.plan, why=why or "asked")
            decision = Decision(edits=list(major.edits), refused=decision.refused, plan=plan)
        decision.notes += major.notes
        self.commit(decision.edits, batch=True)
        self.session = booked(self.session, major, turn)
        if able and why == "forced":
            left = self._situation(track, situation.sent, force=force)
            if left.need > 0:
                harsh = decide(track, policy, self.model, left, why, self.session.ledger)
                self.commit(harsh.edits, batch=True)
                decision.edits += harsh.edits
        if why:
            self.session = replace(self.session, rest_until=rest_after(decision.plan, turn))
        return decision, major

    def count_floor(self, tools: Any, system: Any) -> None:
        """Count what comes before the messages: tool schemas and the system prompt."""
        self.means.tools, self.means.system = tools, system
        if (tools, system) != self.counted:
            self.counted = (tools, system)
            self.floor = floor_of(tools, system, data.estimator(self.family))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def _recovered(self, wire: Format, messages: Sequence[Any]) -> Sequence[Any]:
        """In replace mode, put the source back where the caller holds a view that we returned, or a beginning of it."""
        if self.mode == "view" or self.returned is None:
            return messages
        same = 0
        for old, new in zip(self.returned, messages, strict=False):
            if old is not new and old != new and not same_pieces(wire, old, new):
                break
            same += 1
        if same == len(self.returned):
            return [*self.source, *messages[same:]]
        if not same or len(self.kept) != len(self.returned):
            return messages
        return [*self.source[: self.kept[same - 1] + 1], *messages[same:]]

    def remember(self, source: Sequence[Any], result: Compaction) -> None:
        """In replace mode, keep the source behind what the caller will hold."""
        track = self.track
        assert track is not None
        self.source, self.returned = list(source), list(track.format.messages(result.messages))
        self.kept = track.surviving()

    def _follow(self, messages: Sequence[Any], wire: Format, notes: list[str]) -> Track:
        track = self.track
        if track is None or track.format is not wire or not track.follow(messages, self.session.ledger):
            track = Track(wire, data.tools(), data.estimator(self.family), scorer=self.policy.scorer)
            track.follow(messages, self.session.ledger)
            track.resolve(self.session.ledger)
        self.track = track
        if track.effects.void:
            notes.append(f"{len(track.effects.void)} edits rest: this history does not hold what they changed")
        if not self.model.known:
            notes.append(
                f"unknown model {self.model.name or '(none given)'}: window {self.model.window:,} tokens is assumed"
            )
        return track

    def _sent_items(self, track: Track, sent: int | None) -> int:
        """Count the items that stood in an earlier request."""
        items = track.facts.items
        if sent is not None:
            return next((at for at, item in enumerate(items) if item.at[0] >= sent), len(items))
        if self.session.served and self.session.served == items[0].id:
            return min(self.session.sent, len(items))
        return track.facts.first_sight

    def _admission(self) -> Policy:
        """Give the policy with its outsize limit no larger than a quarter of the window (4 characters a token)."""
        policy = self.policy
        return replace(policy, admit_any=min(policy.admit_any, self.model.window)) if policy.admit_any else policy

    def _join(self, track: Track, sent: int) -> None:
        """Book what a session cost before it was joined in mid-way."""
        if not self.session.served and sent:
            turns = track.facts.items[sent - 1].turn
            account = self.session.account.joined(sum(track.facts.tokens[:sent]), turns, self.model.prices)
            self.session = replace(self.session, account=account)

    # ── weighing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _situation(self, track: Track, sent: int, *, force: bool) -> Situation:
        session, policy, window, turn = self.session, self.policy, self.model.window, track.facts.turn
        tokens, hard = self.tokens(track), window - self.reserve
        line = min(soft_line(window, policy), hard) if force or policy.commit == "trigger" else hard
        prices = self.model.prices
        waited = self.clock() - session.last_call if session.last_call is not None else 0.0
        self.signals = signals(
            track.facts, policy, reported=session.calibration.reported, idle=waited if 0 < waited < _FOREVER else 0.0
        )
        growth = max(track.facts.total / max(turn, 1), 1.0)
        return Situation(
            facts=track.facts,
            sizes=track.sizes,
            sent=sent,
            prices=prices,
            cold=sent == 0 or not prices.ttl or waited > prices.ttl or 0 < tokens < prices.minimum,
            rounds_seen=turn,
            rounds_left=max((hard - tokens) / growth, 0.0),
            purse=session.account.purse(policy.purse) if sent else math.inf,
            since_commit=turn - session.commit_turn if session.commit_turn >= 0 else turn,
            signal=self.signals.trigger(policy),
            learned=dict(session.learned),
            resting=turn < session.rest_until,
            pressure=pressure_of(tokens, window, self.reserve, policy),
            need=max(tokens - line, 0.0) / session.calibration.ratio,
            spare=policy.release * policy.active * window,
        )

    def _fits(self, track: Track, notes: list[str]) -> None:
        shown, window = self.tokens(track), self.model.window
        if self.floor + self.reserve >= window:
            notes.append(
                f"cannot fit: the fixed floor alone is {self.floor + self.reserve:,.0f} tokens (system prompt and "
                f"tools {self.floor:,.0f}, kept for the answer {self.reserve:,.0f}), the window holds {window:,}"
            )
        elif shown > window - self.reserve:
            fixed = f", of them {self.floor:,.0f} system prompt and tools" if self.floor else ""
            notes.append(
                f"cannot fit: {shown:,.0f} tokens remain{fixed}, the window holds {window:,} less {self.reserve:,.0f} "
                "for the answer; the newest round and the user's words are never cut"
            )

    # ── committing ───────────────────────────────────────────────────────────────────────────────────────────

    def commit(self, edits: Sequence[Edit], *, batch: bool) -> None:
        """Archive the originals, then append the edits to the ledger, then show them."""
        track = self.track
        if not edits or track is None:
            return
        self._archive(originals(track, edits))
        turn, written = track.facts.turn, tuple(map(self._masked, edits))
        self.session = self.session.commit(written, turn) if batch else self.session.append(written)
        track.apply(written, self.session.ledger)

    def _masked(self, edit: Edit) -> Edit:
        """Mask secrets in what an edit writes, for the ledger is stored beside the originals."""
        if not self.policy.mask_archive or not isinstance(edit, Replace | Fold):
            return edit
        return replace(edit, text=masked(edit.text))

    def _archive(self, entries: Sequence[Entry]) -> None:
        """Store originals under this session's name, their secrets masked where the policy says so."""
        if self.policy.mask_archive:
            entries = [replace(entry, text=masked(entry.text), label=masked(entry.label)) for entry in entries]
        self.archive.put(
            replace(entry, session=self.name, project=self.project, importance=self.policy.share(entry.tier))
            for entry in entries
        )

    def archive_again(self) -> None:
        """Store the originals of all committed edits under this session's present name."""
        if self.track is not None:
            self._archive(originals(self.track, self.session.ledger))

    def bind(self) -> tuple[list[Edit], list[str]]:
        """See to thinking whose prefix changed: leave it out, or ask the provider to drop it; give edits and notes."""
        track = self.track
        if track is None or not binds(track, self.model):
            return [], []
        stripped, stuck = strip_dead(track, self.session.ledger)
        if self.policy.thinking == "hint":
            self.hints = self.hints or bool(stripped) or stuck
            return [], []
        self.commit(stripped, batch=False)
        self.hints = stuck
        note = "the newest turn's thinking is bound to bytes that changed: send the hints along"
        return stripped, [note] if stuck else []

    def _book(self, track: Track, result: Compaction, situation: Situation) -> None:
        """Book the request that the caller is about to send."""
        facts, session = track.facts, self.session
        places = [p for e in result.edits for p in touched_by(track, e)[:1] if p < situation.sent]
        places += [self.disturbed] if self.disturbed is not None else []
        self.disturbed = None
        kept = sum(track.sizes[: min(places)]) if places else session.account.shown
        account = session.account.send(facts.total, track.shown, kept, self.model.prices, cold=situation.cold)
        self.session = replace(
            session, served=facts.items[0].id, sent=len(facts.items), last_call=self.clock(), account=account
        )

    # ── the result ───────────────────────────────────────────────────────────────────────────────────────────

    def result(
        self,
        payload: Any,
        edits: Sequence[Edit],
        decision: Decision,
        notes: Sequence[str],
        pressure: str,
        major: Major | None = None,
    ) -> Compaction:
        """Write the view and say what was done."""
        track, chosen, money = self.track, decision.plan, self.model.prices.dollars
        assert track is not None
        after = self.tokens(track)
        return Compaction(
            messages=track.write(self.shape(payload, track)),
            format=track.format.name,
            policy=self.policy.name,
            model=self.model.name,
            before=round(after + max(track.facts.total - track.shown, 0.0)),  # sums drift by 1e-12
            after=round(after),
            edits=(*edits, *decision.edits),
            live=len(track.effects.texts) + len(track.effects.gone),
            held=tuple(Held(id=track.facts.items[p.at].id, by=p.by, why=p.why, freed=p.freed) for p in chosen.held),
            refused=tuple(decision.refused),
            trigger=chosen.why,
            pressure=pressure,
            earn=money(chosen.earn),
            cost=money(chosen.cost + chosen.faults + (major.units if major else 0.0)),
            handover=major.document if major else None,
            rungs=major.rungs if major else (),
            survived=major.survived if major else (),
            hints=track.format.hints() if self.hints else {},
            signals=self.signals,
            notes=tuple(notes),
        )
