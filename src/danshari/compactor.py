"""The façade: `compact` for one list, `Compactor` for a running conversation. Pure meets impure here.

The caller's list is never changed. Wrong arguments raise; odd content passes through with a note; a fault inside
danshari is caught in one place (`Compactor._safely`), and the last good view is sent instead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from danshari import data
from danshari.archive.base import NONE, Archive, Filters, Passage
from danshari.archive.in_memory import MemoryArchive
from danshari.compaction import Compaction
from danshari.core.policy import Policy
from danshari.core.pricing import Model, Prices
from danshari.core.session import Calibration
from danshari.core.summary import Request
from danshari.errors import ArgumentError, GivenUp
from danshari.formats import Format, named
from danshari.formats.usage import input_tokens
from danshari.pipeline import (
    persist as saving,
)
from danshari.pipeline import (
    recall as recalling,
)
from danshari.pipeline import (
    resume as resuming,
)
from danshari.pipeline import (
    undo as restoring,
)
from danshari.pipeline.decide import with_known_passes
from danshari.pipeline.looking import Look
from danshari.pipeline.run import Run
from danshari.pipeline.state import Means, Mode
from danshari.pipeline.summarize import CALLER, Caller
from danshari.summarizers import Summarizer, as_door

_log = logging.getLogger("danshari")
_LONG_AGO = -1e18
"""A clock reading (seconds) before any cache's time to live."""
Force = Literal["full"] | bool | None


def compact(
    messages: Any,
    *,
    policy: str | Path | Policy = "balanced",
    model: str | Model | None = None,
    window: int | None = None,
    prices: Prices | None = None,
    sent: int = 0,
    format: str | None = None,  # noqa: A002  (the word of the field)
) -> Compaction:
    """Compact one list of messages (or one request), without any state.

    `sent` is how many leading messages a provider has already seen: editing those costs cache writes, the rest is
    free. Compacting a result again leaves our placeholders as they are.
    """
    if isinstance(sent, bool) or not isinstance(sent, int) or sent < 0:
        raise ArgumentError(f"sent = {sent!r}; must be a number of messages, 0 or more")
    return Compactor(policy, model=model, window=window, prices=prices, format=format)._safely(messages, sent=sent)


class Compactor(Look):
    """Follows one conversation: call `compact` before every model call, `observe` after it. Thread-safe.

    In view mode the caller keeps the full history and passes it every time. In replace mode the caller stores what
    `compact` returns and appends to that. Messages are taken as immutable once passed. `clock` gives seconds; it is
    read twice per call. With an archive on disk and a `session` name, ledger, calibration and document are stored with
    every call, and a later process takes them up again; `project` limits searches, and with `confined` recalls by id.
    """

    def __init__(
        self,
        policy: str | Path | Policy = "balanced",
        *,
        model: str | Model | None = None,
        window: int | None = None,
        prices: Prices | None = None,
        mode: Mode = "view",
        archive: Archive | None = None,
        session: str = "",
        project: str = "",
        confined: bool = False,
        format: str | None = None,  # noqa: A002
        summarizer: Callable[[Request], Any] | Summarizer | None = None,
        reinject: Callable[[], Mapping[str, str]] | None = None,
        on_compaction: Callable[[Compaction], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if mode not in ("view", "replace"):
            raise ArgumentError(f"mode = {mode!r}; must be 'view' or 'replace'")
        self.on_compaction = on_compaction
        self._prices = prices
        self._lock = threading.RLock()
        self._late: list[float] = []
        """Usage that was reported while a compaction ran."""
        self._run = Run(
            with_known_passes(data.load_policy(policy)),
            self._model(model, window),
            archive if archive is not None else MemoryArchive(),
            mode=mode,
            wire=named(format) if format else None,
            clock=clock,
        )
        self._run.name, self._run.project, self._run.confined = session, project, confined
        resuming.resume(self._run)
        self._run.means = Means(summarizer=as_door(summarizer) if summarizer is not None else None, reinject=reinject)

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────

    def _model(self, model: str | Model | None, window: int | None) -> Model:
        return data.model_with(model, window=window, prices=self._prices)

    def set_model(self, model: str | Model | None = None, *, window: int | None = None) -> None:
        """Switch the model in mid-session: the ledger stays, window, prices and token estimate are the new model's.

        A window given to the constructor was the old model's; give the new one's here if the table does not know it.
        """
        with self._lock:
            run = self._run
            family = run.model.family
            run.model = self._model(model if model is not None else run.model, window)
            run.session = replace(run.session, last_call=_LONG_AGO)  # another model's cache holds nothing of this
            run.counted = (None, None)
            if run.model.family != family:
                run.track = None
                run.session = replace(run.session, calibration=Calibration())

    @property
    def policy(self) -> Policy:
        """The policy in force; assign another to switch."""
        return self._run.policy

    @policy.setter
    def policy(self, policy: str | Path | Policy) -> None:
        with self._lock:
            run, before = self._run, self._run.policy
            run.policy = with_known_passes(data.load_policy(policy))
            if run.policy.estimate != before.estimate:
                run.track = None

    # ── the main way in ──────────────────────────────────────────────────────────────────────────────────────

    def compact(
        self,
        messages: Any,
        *,
        tools: Any = None,
        system: Any = None,
        focus: str | None = None,
        force: Force = None,
        until: int | None = None,
    ) -> Compaction:
        """Decide what to send for the next model call.

        `tools` and `system` are counted, never changed. `force` brings the view under the policy's soft line now;
        "full" makes a major compaction whatever the size, of the messages before number `until` if that is given.
        `focus` names what matters next: gentle passes leave items that hold it alone, and a hand-over's key lines keep
        to it. Raises FormatError for what is no list of messages; odd content never raises.
        """
        _check_force(force, until)
        with self._lock:
            if isinstance(messages, Mapping):
                tools = messages.get("tools") if tools is None else tools
                system = (messages.get("system") or messages.get("instructions")) if system is None else system
            while self._late:
                self._learn(self._late.pop(0))
            self._run.count_floor(tools, system)
            return self._safely(messages, force=bool(force), full=force == "full", focus=focus, until=until)

    async def acompact(self, messages: Any, **options: Any) -> Compaction:
        """Do what `compact` does without holding up the event loop; an async summarizer runs on that loop.

        Cancelled while a summarizer is at work, it gives the summary up; nothing is committed by it.
        """
        import asyncio  # costs more than the rest of this module, and only async callers need it

        given_up = threading.Event()
        token = CALLER.set(Caller(loop=asyncio.get_running_loop(), gone=given_up.is_set))
        try:
            return await asyncio.to_thread(self.compact, messages, **options)
        except asyncio.CancelledError:
            given_up.set()
            raise
        finally:
            CALLER.reset(token)

    def preview(
        self, messages: Any, *, force: Force = None, focus: str | None = None, until: int | None = None
    ) -> Compaction:
        """Show what `compact` would do, without asking a summarizer; nothing is committed, archived or booked."""
        _check_force(force, until)
        with self._lock:
            run, callback = self._run, self.on_compaction
            trial = Run(run.policy, run.model, MemoryArchive(), mode=run.mode, wire=run.wire, clock=run.clock)
            trial.session, trial.source, trial.returned = run.session, run.source, run.returned
            trial.hints, trial.floor, trial.means = run.hints, run.floor, replace(run.means, summarizer=None)
            self._run, self.on_compaction = trial, None
            try:
                return self._safely(messages, force=bool(force), full=force == "full", focus=focus, until=until)
            finally:
                self._run, self.on_compaction = run, callback

    def _safely(
        self,
        payload: Any,
        *,
        force: bool = False,
        full: bool = False,
        sent: int | None = None,
        focus: str | None = None,
        until: int | None = None,
    ) -> Compaction:
        """Fail open: on any fault the last good ledger is replayed, or the caller's messages go out as they are."""
        run = self._run
        wire, notes = run.format_of(payload)
        if isinstance(wire.messages(payload), str):
            return Compaction(messages=payload, format=wire.name, policy=run.policy.name, notes=notes)
        before = run.session
        try:
            said = [*notes, *run.told(), *filter(None, [resuming.claim(run)])]
            result = run.compact(payload, wire, said, force=force, full=full, sent=sent, focus=focus, until=until or 0)
            if note := resuming.store(run):
                result = replace(result, notes=(*result.notes, note))
        except GivenUp as gone:
            run.session = before
            result = self._fallback(payload, wire, str(gone))
        except Exception as fault:  # noqa: BLE001  (the one place: an agent is never broken by us)
            _log.exception("danshari failed open")
            run.session = before
            result = self._fallback(payload, wire, f"{type(fault).__name__}: {fault}")
        if _log.isEnabledFor(logging.INFO):
            _log.info("compaction", extra={"danshari": result.to_dict(texts=False)})
        if self.on_compaction is not None:
            self.on_compaction(result)
        return result

    def _fallback(self, payload: Any, wire: Format, fault: str) -> Compaction:
        run = self._run
        track, run.track = run.track, None
        shown = payload
        if track is not None and list(wire.messages(payload)) == track.messages:
            track.resolve(run.session.ledger)
            shown = track.write(payload)
        changed = run.hints or (run.model.binding and bool(run.session.ledger))
        return Compaction(
            messages=shown,
            format=wire.name,
            policy=run.policy.name,
            model=run.model.name,
            fault=fault,
            live=len(run.session.ledger) if shown is not payload else 0,
            hints=wire.hints() if changed else {},
        )

    # ── after the call, and later ────────────────────────────────────────────────────────────────────────────

    def observe(self, usage: Any) -> None:
        """Learn from the usage a provider reported for the last view (an SDK object, its dict, or input tokens).

        Anthropic's `input_tokens` leave cached tokens out, OpenAI's `prompt_tokens` hold them; both are understood.
        """
        reported = input_tokens(usage)
        if not reported:
            return
        if not self._lock.acquire(blocking=False):  # a summarizer is at work on this very loop: do not hold it up
            self._late.append(reported)
            return
        try:
            self._learn(reported)
        finally:
            self._lock.release()

    def _learn(self, reported: float) -> None:
        run = self._run
        if run.track is not None:
            calibration = run.session.calibration.observe(reported, run.track.shown + run.floor)
            run.session = replace(run.session, calibration=calibration)

    def recall(self, query: str, *, limit: int = 5, filters: Filters = NONE) -> list[Passage]:
        """Find passages of originals by the id a placeholder shows, or by words, path or command.

        An id gives the whole original. Raises RecallError if nothing is found.
        """
        with self._lock:
            found = recalling.recall(self._run, query, limit=limit, filters=filters)
            resuming.store(self._run)
            return found

    def recall_tools(self) -> list[dict[str, Any]]:
        """Give the definitions of `recall_search` and `recall_read` in the format of this conversation.

        Offer them from a session's first request on or never: tools are part of the cached prefix.
        """
        return recalling.tool_definitions(self.view_format().name)

    def run_recall(self, name: str, arguments: str | Mapping[str, Any]) -> str:
        """Answer a call of a recall tool; bad arguments give a text that says what to do, never an error."""
        with self._lock:
            said = recalling.run(self._run, name, arguments)
            resuming.store(self._run)
            return said

    def reset_learned(self) -> None:
        """Forget what recalls taught about kinds of tools (`learned`)."""
        with self._lock:
            self._run.session = replace(self._run.session, learned=(), recalled=())

    def overflowed(self, tokens: int | None = None) -> None:
        """Say that the provider refused the last view as too long; `tokens` is its own count, where it told one.

        The next `compact` then works from what the provider counted: one compaction for one error.
        """
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens <= 0):
            raise ArgumentError(f"tokens = {tokens!r}; must be a positive number of tokens")
        with self._lock:
            run = self._run
            if run.track is not None:
                counted, shown = float(tokens or 1.02 * run.model.window), run.track.shown + run.floor
                run.session = replace(run.session, calibration=run.session.calibration.refused(counted, shown))

    def undo(self) -> Compaction:
        """Take the last batch back; the ledger is appended to, so the undo itself can be replayed."""
        with self._lock:
            result = restoring.undo(self._run)
            resuming.store(self._run)
            return result

    def pin(self, *texts: str) -> None:
        """Protect every item that contains one of `texts`, and show those again that were edited."""
        if not texts or not all(isinstance(t, str) and t for t in texts):
            raise ArgumentError("pin needs one or more non-empty texts")
        with self._lock:
            restoring.pin(self._run, texts)
            resuming.store(self._run)

    def save(self) -> str:
        """Give the session as JSON text: ledger, calibration, source (replace mode) and an in-memory archive."""
        with self._lock:
            return saving.dump(self._run)

    def load(self, saved: str | bytes) -> None:
        """Take up a saved session; raises SessionError for anything else, VersionError for a newer format."""
        with self._lock:
            saving.restore(self._run, saved)


def _check_force(force: Any, until: Any) -> None:
    if force not in (None, True, False, "full"):
        raise ArgumentError(f"force = {force!r}; must be True, False or 'full'")
    if until is not None and (isinstance(until, bool) or not isinstance(until, int) or until < 1 or force != "full"):
        raise ArgumentError(f"until = {until!r}; must be a number of messages, with force='full'")
