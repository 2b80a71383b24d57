"""One call of a conversation, step by step: read, admit, decide, commit, write.

This module takes no lock, handles no errors and saves nothing. `compactor` adds those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from danshari import data
from danshari.analysis.signals import read_signals
from danshari.archive.base import Entry
from danshari.compaction import Compaction, HeldProposal
from danshari.core.edits import Edit, Fold, Replace
from danshari.core.policy import Policy
from danshari.formats import Format, detect_format
from danshari.formats.usage import estimate_floor
from danshari.pipeline.decide import (
    Decision,
    admit_new_items,
    decide_edits,
    find_trigger,
    has_bound_thinking,
    strip_dead_thinking,
)
from danshari.pipeline.major import MajorResult
from danshari.pipeline.major_trigger import maybe_compact_major, record_major
from danshari.pipeline.masking import mask_secrets
from danshari.pipeline.state import ConversationState
from danshari.pipeline.tracker import (
    ConversationTrack,
    archive_entries,
    edit_positions,
    have_same_pieces,
)
from danshari.planning.planner import (
    Situation,
    grade_pressure,
    next_evaluation_turn,
    soft_line,
)

_FOREVER_SECONDS = 1e12
"""Seconds that no session waited: the mark of a cache that cannot hold anything."""


class Pipeline(ConversationState):
    """A conversation's state together with the steps of one compaction call."""

    def resolve_format(self, payload: Any) -> tuple[Format, tuple[str, ...]]:
        """Return the format of `payload`, and notes about what is unusual in it.

        The format is detected until the conversation holds a tool call, then kept.
        """
        if self.wire is not None:
            return self.wire, ()
        if self.track is not None and self.track.facts.call_turns:
            return self.track.format, ()
        return detect_format(payload)

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
        """Run one compaction: read the new messages, admit them, decide on edits, commit them, write the view.

        `sent` is the number of messages already cached by the provider, None if this session tracks that itself.
        `until` is the number of messages that a forced major compaction may replace, 0 for no limit. `notes` is
        extended in place.
        """
        given = wire.messages(payload)
        messages = self._restore_source(wire, given)
        until += len(messages) - len(given) if until else 0  # in replace mode the caller counts the messages it holds
        track = self._follow(messages, wire, notes)
        facts = track.facts
        if not facts.items:
            return self.build_result(payload, [], Decision(), notes, "none")
        sent_items = self._count_sent_items(track, sent)
        edits = admit_new_items(track, self._admission_policy(), facts.first_sight if sent is None else sent_items)
        self.commit(edits, batch=False)
        stripped, _ = self.handle_bound_thinking() if edits else ([], [])
        edits += stripped
        self._account_earlier_rounds(track, sent_items)
        situation = self._build_situation(track, sent_items, force=force)
        decision, major = self._decide_and_commit(
            payload, situation, force=force, full=full, focus=focus or "", until=until
        )
        notes += decision.notes
        if decision.edits or edits or self.hints:
            stripped, note = self.handle_bound_thinking()
            decision.edits += stripped
            notes += note
        if situation.pressure == "hard":
            self._note_if_too_long(track, notes)
        result = self.build_result(payload, edits, decision, notes, situation.pressure, major)
        if sent is None:
            self._account_request(track, result, situation)
        if self.mode == "replace":
            self.remember_source(messages, result)
        return result

    def _decide_and_commit(
        self, payload: Any, situation: Situation, *, force: bool, full: bool, focus: str, until: int
    ) -> tuple[Decision, MajorResult]:
        """Decide on edits and commit them: gentle ones first, then a major compaction if those free too little.

        Under force, a second and harsher round of edits follows if the view is still too long.
        """
        track, turn = self.track, situation.facts.turn
        assert track is not None
        why = find_trigger(self.policy, situation, force=force) if not full else ""
        policy = replace(self.policy, pinned=(*self.policy.pinned, focus)) if focus and not full else self.policy
        able = "summarize" in policy.passes
        decision = decide_edits(track, policy, self.model, situation, why, self.session.ledger, last=not able)
        major = maybe_compact_major(self, payload, decision, force=force, full=full, focus=focus, until=until)
        if major.edits:
            plan = replace(decision.plan, why=why or "asked")
            decision = Decision(edits=list(major.edits), refused=decision.refused, plan=plan)
        decision.notes += major.notes
        self.commit(decision.edits, batch=True)
        self.session = record_major(self.session, major, turn)
        if able and why == "forced":
            left = self._build_situation(track, situation.sent, force=force)
            if left.need > 0:
                harsh = decide_edits(track, policy, self.model, left, why, self.session.ledger)
                self.commit(harsh.edits, batch=True)
                decision.edits += harsh.edits
        if why:
            self.session = replace(self.session, rest_until=next_evaluation_turn(decision.plan, turn))
        return decision, major

    def count_floor(self, tools: Any, system: Any) -> None:
        """Estimate the tokens that precede the messages: tool schemas and the system prompt."""
        self.means.tools, self.means.system = tools, system
        if (tools, system) != self.counted:
            self.counted = (tools, system)
            self.floor = estimate_floor(tools, system, data.load_estimator(self.family))

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    def _restore_source(self, wire: Format, messages: Sequence[Any]) -> Sequence[Any]:
        """Return the full source history in replace mode, where the caller holds the view that was returned last.

        The caller's messages are compared with that view. If all of them match, or a leading part of them, that
        part is replaced by the source messages behind it. Otherwise the caller's messages are returned as they
        are.
        """
        if self.mode == "view" or self.returned is None:
            return messages
        same = 0
        for old, new in zip(self.returned, messages, strict=False):
            if old is not new and old != new and not have_same_pieces(wire, old, new):
                break
            same += 1
        if same == len(self.returned):
            return [*self.source, *messages[same:]]
        if not same or len(self.kept) != len(self.returned):
            return messages
        return [*self.source[: self.kept[same - 1] + 1], *messages[same:]]

    def remember_source(self, source: Sequence[Any], result: Compaction) -> None:
        """Store the source messages behind the view returned to the caller (replace mode)."""
        track = self.track
        assert track is not None
        self.source, self.returned = list(source), list(track.format.messages(result.messages))
        self.kept = track.surviving_indices()

    def _follow(self, messages: Sequence[Any], wire: Format, notes: list[str]) -> ConversationTrack:
        """Read the new messages, or all of them anew if they do not continue the history read so far.

        Notes are added for edits that no longer apply and for an unknown model.
        """
        track = self.track
        if track is None or track.format is not wire or not track.follow(messages, self.session.ledger):
            track = ConversationTrack(
                wire, data.load_tools(), data.load_estimator(self.family), scorer=self.policy.scorer
            )
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

    def _count_sent_items(self, track: ConversationTrack, sent: int | None) -> int:
        """Count the leading items that were part of an earlier request."""
        items = track.facts.items
        if sent is not None:
            return next((at for at, item in enumerate(items) if item.at[0] >= sent), len(items))
        if self.session.served and self.session.served == items[0].id:
            return min(self.session.sent, len(items))
        return track.facts.first_sight

    def _admission_policy(self) -> Policy:
        """Return the policy with its admission limit capped at a quarter of the window.

        `admit_any` is in characters, the window in tokens. At 4 characters a token, a quarter of the window has
        as many characters as the window has tokens.
        """
        policy = self.policy
        return replace(policy, admit_any=min(policy.admit_any, self.model.window)) if policy.admit_any else policy

    def _account_earlier_rounds(self, track: ConversationTrack, sent: int) -> None:
        """Add the estimated cost of the rounds before this compactor joined the session to its account."""
        if not self.session.served and sent:
            turns = track.facts.items[sent - 1].turn
            account = self.session.account.record_earlier_cost(sum(track.facts.tokens[:sent]), turns, self.model.prices)
            self.session = replace(self.session, account=account)

    # ── weighing ─────────────────────────────────────────────────────────────────────────────────────────────

    def _build_situation(self, track: ConversationTrack, sent: int, *, force: bool) -> Situation:
        """Collect the figures that the planner decides by.

        - `rounds_left`: free tokens below the hard line divided by the average growth in tokens per round.
        - `cold`: nothing was sent, the cache does not exist or has expired, or the view is below the minimum
          that the provider caches.
        - `need`: estimated tokens above the line to reach, divided by the calibration ratio. The line is the
          soft line under force or with `commit = "trigger"`, else the hard line, which is the window less the
          reserve.
        - `purse`: units (base input tokens) that a commit may risk, infinite while nothing was sent.
        - `spare`: further tokens to free under force, so that the next forced compaction is not due at once.
        """
        session, policy, window, turn = self.session, self.policy, self.model.window, track.facts.turn
        tokens, hard = self.tokens(track), window - self.reserve
        line = min(soft_line(window, policy), hard) if force or policy.commit == "trigger" else hard
        prices = self.model.prices
        waited = self.clock() - session.last_call if session.last_call is not None else 0.0
        self.signals = read_signals(
            track.facts,
            policy,
            reported=session.calibration.reported,
            idle=waited if 0 < waited < _FOREVER_SECONDS else 0.0,
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
            purse=session.account.risk_budget(policy.purse) if sent else math.inf,
            since_commit=turn - session.commit_turn if session.commit_turn >= 0 else turn,
            signal=self.signals.trigger(policy),
            learned=dict(session.learned),
            resting=turn < session.rest_until,
            pressure=grade_pressure(tokens, window, self.reserve, policy),
            need=max(tokens - line, 0.0) / session.calibration.ratio,
            spare=policy.release * policy.active * window,
        )

    def _note_if_too_long(self, track: ConversationTrack, notes: list[str]) -> None:
        """Add a note if even the compacted view does not fit the window, with the figures."""
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
        """Archive the originals, append the edits to the ledger, then apply them to the view, in this order."""
        track = self.track
        if not edits or track is None:
            return
        self._archive_entries(archive_entries(track, edits))
        turn, written = track.facts.turn, tuple(map(self._mask_edit, edits))
        self.session = self.session.commit(written, turn) if batch else self.session.append(written)
        track.apply(written, self.session.ledger)

    def _mask_edit(self, edit: Edit) -> Edit:
        """Mask secrets in the text that an edit writes, because the ledger is stored too."""
        if not self.policy.mask_archive or not isinstance(edit, Replace | Fold):
            return edit
        return replace(edit, text=mask_secrets(edit.text))

    def _archive_entries(self, entries: Sequence[Entry]) -> None:
        """Store originals under this session's name, with secrets masked if the policy asks for it."""
        if self.policy.mask_archive:
            entries = [
                replace(entry, text=mask_secrets(entry.text), label=mask_secrets(entry.label)) for entry in entries
            ]
        self.archive.put(
            replace(entry, session=self.name, project=self.project, importance=self.policy.share(entry.tier))
            for entry in entries
        )

    def archive_all_originals(self) -> None:
        """Archive the originals of all committed edits again, under the session's present name."""
        if self.track is not None:
            self._archive_entries(archive_entries(self.track, self.session.ledger))

    def handle_bound_thinking(self) -> tuple[list[Edit], list[str]]:
        """Handle thinking blocks whose signed prefix changed.

        They are removed, or, with `thinking = "hint"`, a request field will ask the provider to drop them.
        Returns the edits committed and the notes to show.
        """
        track = self.track
        if track is None or not has_bound_thinking(track, self.model):
            return [], []
        stripped, stuck = strip_dead_thinking(track, self.session.ledger)
        if self.policy.thinking == "hint":
            self.hints = self.hints or bool(stripped) or stuck
            return [], []
        self.commit(stripped, batch=False)
        self.hints = stuck
        note = "the newest turn's thinking is bound to bytes that changed: send the hints along"
        return stripped, [note] if stuck else []

    def _account_request(self, track: ConversationTrack, result: Compaction, situation: Situation) -> None:
        """Add the request about to be sent to the session's account.

        The cached part ends at the first position that was changed and had been sent before.
        """
        facts, session = track.facts, self.session
        places = [p for e in result.edits for p in edit_positions(track, e)[:1] if p < situation.sent]
        places += [self.disturbed] if self.disturbed is not None else []
        self.disturbed = None
        kept = sum(track.sizes[: min(places)]) if places else session.account.shown
        account = session.account.record_request(facts.total, track.shown, kept, self.model.prices, cold=situation.cold)
        self.session = replace(
            session, served=facts.items[0].id, sent=len(facts.items), last_call=self.clock(), account=account
        )

    # ── the result ───────────────────────────────────────────────────────────────────────────────────────────

    def build_result(
        self,
        payload: Any,
        edits: Sequence[Edit],
        decision: Decision,
        notes: Sequence[str],
        pressure: str,
        major: MajorResult | None = None,
    ) -> Compaction:
        """Write the view and collect the `Compaction`."""
        track, chosen, money = self.track, decision.plan, self.model.prices.dollars
        assert track is not None
        after = self.tokens(track)
        return Compaction(
            messages=track.write(self.source_payload(payload, track)),
            format=track.format.name,
            policy=self.policy.name,
            model=self.model.name,
            before=round(after + max(track.facts.total - track.shown, 0.0)),  # sums drift by 1e-12
            after=round(after),
            edits=(*edits, *decision.edits),
            live=len(track.effects.texts) + len(track.effects.gone),
            held=tuple(
                HeldProposal(id=track.facts.items[p.at].id, by=p.by, why=p.why, freed=p.freed) for p in chosen.held
            ),
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
