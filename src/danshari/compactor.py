"""The façade: `compact` for one list, `Compactor` for a running conversation. Pure meets impure here.

The caller's list is never changed. Wrong arguments raise; odd content passes through with a note; a fault inside
danshari is caught in one place (`Compactor._safely`), and the last good view is sent instead.
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from danshari import data
from danshari.archive.base import Archive, Entry, MemoryArchive, entry_of
from danshari.compaction import Compaction, Held
from danshari.core.edits import Drop, Edit, Effects, Fold, Insert, Replace, Restore, View
from danshari.core.facts import Facts
from danshari.core.plan import Plan, Situation, pressure_of, rest_after, soft_line
from danshari.core.policy import Policy
from danshari.core.prices import Model, Prices
from danshari.core.session import Session, session_from_dict
from danshari.deciding import Decision, admitted, binds, decide, strip_dead, weigh
from danshari.errors import ArgumentError, RecallError, SessionError, VersionError
from danshari.formats import Format, detect, named
from danshari.track import Track
from danshari.usage import input_tokens

_log = logging.getLogger("danshari")
SAVE_FORMAT = 1
"""Format number of `Compactor.save`."""
Force = Literal["full"] | bool | None


def compact(
    messages: Any, *, policy: str | Path | Policy = "balanced", model: str | Model | None = None,
    window: int | None = None, prices: Prices | None = None, sent: int = 0, format: str | None = None,  # noqa: A002
) -> Compaction:  # fmt: skip
    """Compact one list of messages (or one request), without any state.

    `sent` is how many leading messages a provider has already seen: editing those costs cache writes, the rest is
    free. The result of compacting a result is the same list again.
    """
    if isinstance(sent, bool) or not isinstance(sent, int) or sent < 0:
        raise ArgumentError(f"sent = {sent!r}; must be a number of messages, 0 or more")
    return Compactor(policy, model=model, window=window, prices=prices, format=format)._once(messages, sent)


class Compactor:
    """Follows one conversation: call `compact` before every model call, `observe` after it.

    In view mode the caller keeps the full history and passes it every time. In replace mode the caller stores what
    `compact` returns and appends to that. `clock` gives seconds; it is read once per call.
    """

    def __init__(
        self, policy: str | Path | Policy = "balanced", *, model: str | Model | None = None,
        window: int | None = None, prices: Prices | None = None, mode: Literal["view", "replace"] = "view",
        archive: Archive | None = None, format: str | None = None,  # noqa: A002
        on_compaction: Callable[[Compaction], None] | None = None, clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        if mode not in ("view", "replace"):
            raise ArgumentError(f"mode = {mode!r}; must be 'view' or 'replace'")
        self.policy = data.load_policy(policy)
        self.mode = mode
        self.archive: Archive = archive if archive is not None else MemoryArchive()
        self.on_compaction = on_compaction
        self._prices, self._window = prices, window
        self.model = self._model(model)
        self._format: Format | None = named(format) if format else None
        self._clock = clock
        self._session = Session(policy=self.policy.name)
        self._track: Track | None = None
        self._source: list[Any] = []
        self._returned: list[Any] | None = None
        self._extra_tokens = 0.0
        self._extra_key: Any = None
        self._hints = False
        self._lock = threading.RLock()

    # ── settings ────────────────────────────────────────────────────────────────────────────────────────────

    def _model(self, model: str | Model | None) -> Model:
        if model is not None and not isinstance(model, str | Model):
            raise ArgumentError(f"model must be a name or a Model, not {type(model).__name__}")
        row = model if isinstance(model, Model) else data.model(model)
        if self._window is not None:
            if isinstance(self._window, bool) or not isinstance(self._window, int) or self._window <= 0:
                raise ArgumentError(f"window = {self._window!r}; must be a positive number of tokens")
            row = replace(row, window=self._window)
        if self._prices is not None:
            if not isinstance(self._prices, Prices):
                raise ArgumentError(f"prices must be danshari.Prices, not {type(self._prices).__name__}")
            row = replace(row, prices=self._prices)
        return row

    def set_model(self, model: str | Model | None = None, *, window: int | None = None) -> None:
        """Switch the model in mid-session; the ledger stays, prices, window and estimate follow."""
        with self._lock:
            self._window = window
            family = self.model.family
            self.model = self._model(model if model is not None else replace(self.model, window=window or self.model.window))
            if self.model.family != family:
                self._track = None
                self._session = replace(self._session, calibration=type(self._session.calibration)())

    @property
    def reserve(self) -> float:
        """Tokens kept free for the answer."""
        return min(self.policy.reserve * self.model.window, float(self.model.output))

    # ── the main way in ─────────────────────────────────────────────────────────────────────────────────────

    def compact(
        self, messages: Any, *, tools: Any = None, system: Any = None, focus: str | None = None, force: Force = None
    ) -> Compaction:
        """Decide what to send for the next model call.

        `tools` and `system` are counted, never changed. `force` brings the view under the policy's soft line now.
        `focus` names what matters next; the hand-over will read it. Raises FormatError for what is no list of
        messages; odd content never raises.
        """
        with self._lock:
            self._floor(tools, system)
            return self._safely(messages, force=bool(force))

    async def acompact(self, messages: Any, **options: Any) -> Compaction:
        """Do what `compact` does without holding up the event loop."""
        import asyncio  # costs more than the rest of this module, and only async callers need it

        return await asyncio.to_thread(self.compact, messages, **options)

    def preview(self, messages: Any, *, force: Force = None) -> Compaction:
        """Show what `compact` would do; nothing is committed."""
        with self._lock:
            saved = (self._session, self._track, self._source, self._returned, self._hints, self.archive)
            self._track, self.archive = None, MemoryArchive()
            callback, self.on_compaction = self.on_compaction, None
            try:
                return self._safely(messages, force=bool(force))
            finally:
                self._session, self._track, self._source, self._returned, self._hints, self.archive = saved
                self.on_compaction = callback

    def _once(self, messages: Any, sent: int) -> Compaction:
        """Run statelessly: what was not sent yet is first sight."""
        return self._safely(messages, force=False, sent=sent)

    def _safely(self, payload: Any, *, force: bool, sent: int | None = None) -> Compaction:
        """Fail open: on any fault the last good ledger is replayed, or the caller's messages go out as they are."""
        format, notes = self._known_format(payload)  # noqa: A001
        messages = format.messages(payload)
        before = self._session
        try:
            result = self._compact(payload, messages, format, list(notes), force, sent)
        except Exception as fault:
            _log.exception("danshari failed open")
            self._session = before
            result = self._fallback(payload, format, f"{type(fault).__name__}: {fault}")
        if _log.isEnabledFor(logging.INFO):
            _log.info("compaction", extra={"danshari": result.to_dict()})
        if self.on_compaction is not None:
            self.on_compaction(result)
        return result

    def _known_format(self, payload: Any) -> tuple[Format, tuple[str, ...]]:
        """Detect the format anew only until the conversation has shown messages that one format alone has."""
        if self._format is not None:
            return self._format, ()
        if self._track is not None and self._track.facts.call_turns:
            return self._track.format, ()
        return detect(payload)

    def _fallback(self, payload: Any, format: Format, fault: str) -> Compaction:  # noqa: A002
        track, self._track = self._track, None
        shown = payload
        if track is not None and list(format.messages(payload)) == track.messages:
            track.resolve(self._session.ledger)
            shown = track.write(payload)
        return Compaction(messages=shown, format=format.name, policy=self.policy.name, model=self.model.name, fault=fault)

    # ── one compaction, step by step ────────────────────────────────────────────────────────────────────────

    def _compact(
        self, payload: Any, messages: Sequence[Any], format: Format, notes: list[str], force: bool, sent: int | None  # noqa: A002
    ) -> Compaction:  # fmt: skip
        source = self._recovered(messages)
        track = self._follow(source, format, notes)
        facts = track.facts
        if not facts.items:
            return self._result(payload, track, [], Decision(), notes, "none")
        first = self._first_sight(track, sent)
        edits = admitted(track, self._admission(), first)
        self._commit(track, edits, batch=False)
        sent_items = self._sent_items(track, sent)
        if not self._session.served and sent_items:
            before = sum(facts.tokens[:sent_items])
            account = self._session.account.joined(before, facts.items[sent_items - 1].turn, self.model.prices)
            self._session = replace(self._session, account=account)
        situation = self._situation(track, sent_items, force=force)
        why = weigh(self.policy, situation, force=force)
        decision = decide(track, self.policy, self.model, situation, why, self._session.ledger)
        notes += decision.notes
        if decision.edits:
            self._commit(track, decision.edits, batch=True)
        self._session = replace(self._session, rest_until=rest_after(decision.plan, facts.turn) if why else self._session.rest_until)
        if decision.edits or edits:
            self._bind(track, edits, decision, notes)
        shown = self._session.calibration.tokens(track.shown + self._extra_tokens)
        if shown > self.model.window - self.reserve and situation.pressure == "hard":
            notes.append(f"cannot fit: {shown:,.0f} tokens remain of a window of {self.model.window:,} "
                         f"({self.reserve:,.0f} reserved); the newest round and the user's words are never cut")  # fmt: skip
        result = self._result(payload, track, edits, decision, notes, situation.pressure)
        self._sent(track, result, source, sent, situation)
        return result

    def _recovered(self, messages: Sequence[Any]) -> Sequence[Any]:
        """In replace mode, put the source back where the caller holds a view that we returned."""
        if self.mode == "view" or self._returned is None:
            return messages
        known = len(self._returned)
        if list(messages[:known]) == self._returned:
            return [*self._source, *messages[known:]]
        return messages

    def _follow(self, source: Sequence[Any], format: Format, notes: list[str]) -> Track:  # noqa: A002
        track = self._track
        if track is None or track.format is not format or not track.follow(source, self._session.ledger):
            family = "literal" if self.policy.estimate == "literal" else self.model.family
            track = Track(format, data.tools(), data.estimator(family))
            track.follow(source, self._session.ledger)
            track.resolve(self._session.ledger)
        self._track = track
        if track.effects.void and not self._session.undone == ():
            notes.append(f"{len(track.effects.void)} edits rest: this history does not hold what they changed")
        if not self.model.known and self._window is None:
            notes.append(f"unknown model {self.model.name or '(none given)'}: a window of {self.model.window:,} tokens is assumed")
        return track

    def _admission(self) -> Policy:
        """Give the policy with its outsize limit no larger than a quarter of the window (4 characters a token)."""
        policy = self.policy
        return replace(policy, admit_any=min(policy.admit_any, self.model.window)) if policy.admit_any else policy

    def _first_sight(self, track: Track, sent: int | None) -> int:
        if sent is not None:
            return self._sent_items(track, sent)
        return track.facts.first_sight

    def _sent_items(self, track: Track, sent: int | None) -> int:
        """Count the items that stood in an earlier request."""
        items = track.facts.items
        if sent is not None:
            return next((at for at, item in enumerate(items) if item.at[0] >= sent), len(items))
        if self._session.served and self._session.served == items[0].id:
            return min(self._session.sent, len(items))
        return track.facts.first_sight

    def _situation(self, track: Track, sent: int, *, force: bool) -> Situation:
        session, facts, policy = self._session, track.facts, self.policy
        tokens = session.calibration.tokens(track.shown + self._extra_tokens)
        line = soft_line(self.model.window, policy)
        pressure = pressure_of(tokens, self.model.window, self.reserve, policy)
        hard = self.model.window - self.reserve
        crossed = line if force or policy.commit == "trigger" else hard
        need = max(tokens - min(crossed, hard), 0.0)
        now, prices = self._clock(), self.model.prices
        idle = session.last_call is not None and now - session.last_call > prices.ttl
        cold = sent == 0 or idle or (0 < tokens < prices.minimum)
        since = facts.turn - session.commit_turn if session.commit_turn >= 0 else facts.turn
        return Situation(
            facts=facts, sizes=track.sizes, sent=sent, prices=prices, cold=cold, rounds_seen=facts.turn,
            rounds_left=self._rounds_left(tokens, hard), purse=session.account.purse(policy.purse) if sent else math.inf,
            spare=policy.release * policy.active * self.model.window, since_commit=since, resting=facts.turn < session.rest_until, pressure=pressure, need=need,
        )  # fmt: skip

    def _rounds_left(self, tokens: float, hard: float) -> float:
        """Forecast the rounds until the window is full, at the growth per round seen so far."""
        facts = self._track.facts if self._track else None
        if facts is None or facts.turn < 1:
            return math.inf
        growth = facts.total / facts.turn
        return max((hard - tokens) / max(growth, 1.0), 0.0)

    def _commit(self, track: Track, edits: Sequence[Edit], *, batch: bool) -> None:
        """Archive the originals, then append the edits to the ledger, then show them."""
        if not edits:
            return
        self.archive.put(self._originals(track, edits))
        turn = track.facts.turn
        session = self._session
        self._session = session.commit(tuple(edits), turn) if batch else session.append(tuple(edits))
        track.apply(edits, self._session.ledger)

    def _originals(self, track: Track, edits: Sequence[Edit]) -> list[Entry]:
        facts = track.facts
        entries = []
        for edit in edits:
            if isinstance(edit, Replace):
                span = [facts.index[edit.id]]
            elif isinstance(edit, Drop | Fold):
                span = list(range(facts.index[edit.first], facts.index[edit.last] + 1))
            else:
                continue
            for at in span:
                call = facts.call_of.get(at)
                entries.append(entry_of(facts.items[at], facts.items[call].text[:300] if call is not None else ""))
        return entries

    def _bind(self, track: Track, edits: Sequence[Edit], decision: Decision, notes: list[str]) -> None:
        """See to thinking whose prefix changed: leave it out, or ask the provider to drop it."""
        if not binds(track.facts, self.model, self.policy):
            return
        stripped, stuck = strip_dead(track, self._session.ledger)
        if self.policy.thinking == "hint":
            self._hints = self._hints or bool(stripped) or stuck
            return
        self._commit(track, stripped, batch=False)
        decision.edits += stripped
        if stuck:
            self._hints = True
            notes.append("the newest turn's thinking is bound to bytes that changed: send the hints along")

    def _result(
        self, payload: Any, track: Track, edits: Sequence[Edit], decision: Decision, notes: Sequence[str], pressure: str
    ) -> Compaction:
        chosen: Plan = decision.plan
        calibrated = self._session.calibration.tokens
        saved = track.facts.total - track.shown
        after = calibrated(track.shown + self._extra_tokens)
        money = self.model.prices.dollars
        return Compaction(
            messages=track.write(self._payload(payload, track)), format=track.format.name, policy=self.policy.name,
            model=self.model.name, before=round(after + saved), after=round(after),
            edits=(*edits, *decision.edits), live=len(track.effects.texts) + len(track.effects.gone),
            held=tuple(Held(id=track.facts.items[p.at].id, by=p.by, why=p.why, freed=p.freed) for p in chosen.held),
            refused=tuple(decision.refused), trigger=chosen.why, pressure=pressure,
            earn=money(chosen.earn), cost=money(chosen.cost + chosen.faults),
            hints=track.format.hints(payload) if self._hints else {}, notes=tuple(notes),
        )  # fmt: skip

    def _payload(self, payload: Any, track: Track) -> Any:
        """Give the source in the shape of the caller's payload (they differ in replace mode only)."""
        if self.mode == "view":
            return payload
        return {**payload, track.format.key: track.messages} if isinstance(payload, Mapping) else track.messages

    def _sent(
        self, track: Track, result: Compaction, source: Sequence[Any], sent: int | None, situation: Situation
    ) -> None:
        """Book the request that the caller is about to send."""
        if sent is None:
            facts = track.facts
            places = [p for e in result.edits for p in _places(track, e) if p < situation.sent]
            kept = sum(track.sizes[: min(places)]) if places else self._session.account.shown
            account = self._session.account.send(
                facts.total, track.shown, kept, self.model.prices, cold=situation.cold
            )  # fmt: skip
            self._session = replace(
                self._session, served=facts.items[0].id, sent=len(facts.items), last_call=self._clock(), account=account
            )
        if self.mode == "replace":
            self._source = list(source)
            self._returned = list(track.format.messages(result.messages))

    def _floor(self, tools: Any, system: Any) -> None:
        """Count what comes before the messages: tool schemas and the system prompt."""
        key = (id(tools), id(system))
        if key == self._extra_key:
            return
        self._extra_key = key
        family = "literal" if self.policy.estimate == "literal" else self.model.family
        count = data.estimator(family)
        texts = [v if isinstance(v, str) else json.dumps(v, default=str) for v in (tools, system) if v]
        self._extra_tokens = sum(count(text) for text in texts)

    def view(self) -> View:
        """Give the items and effects behind the last compaction; empty before the first."""
        track = self._track
        return View(track.facts.items, track.effects) if track else View((), Effects())

    def last_view(self) -> list[Any]:
        """Give the messages of the last view in replace mode; empty where nothing was returned yet."""
        return list(self._returned or ())

    def view_format(self) -> Format:
        """Give the format of the conversation; chat completions before the first compaction."""
        return self._track.format if self._track else self._format or named("openai-chat")

    @property
    def facts(self) -> Facts | None:
        """Analyses of the conversation as last seen; None before the first compaction."""
        return self._track.facts if self._track else None

    @property
    def session(self) -> Session:
        """Ledger, calibration and marks; a value that never changes under you."""
        return self._session

    # ── after the call, and later ───────────────────────────────────────────────────────────────────────────

    def observe(self, usage: Any) -> None:
        """Learn from the usage a provider reported for the last view (an SDK object, its dict, or input tokens).

        Anthropic's `input_tokens` leave cached tokens out, OpenAI's `prompt_tokens` hold them; both are understood.
        """
        reported = input_tokens(usage)
        with self._lock:
            if reported and self._track is not None:
                estimate = self._track.shown + self._extra_tokens
                calibration = self._session.calibration.observe(reported, estimate)
                self._session = replace(self._session, calibration=calibration)

    def recall(self, query: str, *, limit: int = 5) -> list[Entry]:
        """Find originals by the id a placeholder shows, or by words; raises RecallError if nothing is found."""
        try:
            return [self.archive.get(query)]
        except RecallError:
            found = self.archive.search(query, limit=limit)
            if not found:
                raise
            return found

    def undo(self) -> Compaction:
        """Take the last batch back; the ledger is appended to, so the undo itself can be replayed."""
        with self._lock:
            if self._track is None or not self._session.undone:
                raise ArgumentError("nothing to undo: no batch was committed in this session")
            start = self._session.undone[-1]
            track, newest = self._track, self._track.facts.items[-1].id
            edits: list[Edit] = []
            for edit in self._session.ledger[start:]:
                ids = [edit.id] if isinstance(edit, Replace) else _span(track, edit)
                edits += [Restore(id=i, by="undo", why="undone", seen=newest) for i in ids]
            self._session = replace(self._session.append(tuple(edits)), undone=self._session.undone[:-1])
            track.resolve(self._session.ledger)
            payload = self._source if self.mode == "replace" else track.messages
            result = self._result(payload, track, edits, Decision(), [], "none")
            if self.mode == "replace":
                self._returned = list(track.format.messages(result.messages))
            return result

    def pin(self, *texts: str) -> None:
        """Protect every item that contains one of `texts`, and show those again that were edited."""
        if not texts or not all(isinstance(t, str) and t for t in texts):
            raise ArgumentError("pin needs one or more non-empty texts")
        with self._lock:
            self.policy = replace(self.policy, pinned=(*self.policy.pinned, *texts))
            if self._track is None:
                return
            items, newest = self._track.facts.items, self._track.facts.items[-1].id
            edits = tuple(
                Restore(id=items[at].id, by="pin", why="pinned", seen=newest)
                for at in {*self._track.effects.texts, *self._track.effects.gone}
                if any(text in items[at].text for text in texts)
            )
            self._session = self._session.append(edits)
            self._track.resolve(self._session.ledger)

    def save(self) -> str:
        """Give the session as JSON text: ledger, calibration, source (replace mode) and the in-memory archive."""
        with self._lock:
            archive = self.archive.to_dict() if isinstance(self.archive, MemoryArchive) else None
            return json.dumps({
                "danshari": SAVE_FORMAT, "session": self._session.to_dict(), "mode": self.mode,
                "source": self._source, "returned": self._returned, "archive": archive,
                "pinned": list(self.policy.pinned), "hints": self._hints,
            }, ensure_ascii=False, default=_jsonable)  # fmt: skip

    def load(self, saved: str | bytes) -> None:
        """Take up a saved session; raises SessionError for anything else, VersionError for a newer format."""
        try:
            stored = json.loads(saved)
            version = stored["danshari"]
            if not isinstance(version, int) or version > SAVE_FORMAT:
                raise VersionError(f"saved with format {version}, this danshari reads up to {SAVE_FORMAT}: upgrade it")
            session = session_from_dict(stored["session"])
            entries = [Entry(**entry) for entry in stored["archive"] or ()]
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, VersionError):
                raise
            raise SessionError(f"this is no saved danshari session: {type(error).__name__}: {error}") from None
        with self._lock:
            self._session, self._track, self.mode = session, None, stored["mode"]
            self._source, self._returned = stored["source"], stored["returned"]
            self._hints = bool(stored["hints"])
            self.policy = replace(self.policy, pinned=tuple(stored["pinned"]))
            self.archive.put(entries)


def _places(track: Track, edit: Edit) -> list[int]:
    """Give the first position an edit changes."""
    index = track.facts.index
    first = edit.id if isinstance(edit, Replace | Restore) else edit.after if isinstance(edit, Insert) else edit.first
    return [index[first]] if first in index else []


def _span(track: Track, edit: Edit) -> list[Any]:
    if isinstance(edit, Drop | Fold):
        first, last = track.facts.index[edit.first], track.facts.index[edit.last]
        return [item.id for item in track.facts.items[first : last + 1]]
    return []


def _jsonable(value: Any) -> Any:
    return value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else str(value)

