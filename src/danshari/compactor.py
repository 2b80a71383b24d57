"""The public entry points: `compact` for one list of messages, `Compactor` for a running conversation.

The caller's list is never changed. Wrong arguments raise. Unexpected content passes through with a note.
An internal error is caught in one place (`pipeline.fail_open`), and the last good view is sent instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.archive.base import NO_FILTERS, Archive, Filters, Passage
from danshari.archive.in_memory import MemoryArchive
from danshari.compaction import Compaction
from danshari.core.edits import Effects, View
from danshari.core.policy import Policy
from danshari.core.pricing import ModelInfo, Prices
from danshari.core.session import Calibration, SessionState
from danshari.errors import ArgumentError
from danshari.formats import Format, find_format
from danshari.passes import Pass, Propose, add_passes
from danshari.pipeline import persist
from danshari.pipeline.decide import validate_policy
from danshari.pipeline.fail_open import compact_safely
from danshari.pipeline.run import count_inputs, recount_inputs, resolve_format
from danshari.pipeline.state import (
    ConversationState,
    Force,
    Mode,
    PendingSummary,
    Pipeline,
    PipelineSettings,
    check_force,
    make_host_inputs,
)

if TYPE_CHECKING:
    from danshari.core.summary import Request
    from danshari.summarizers.base import Summarizer

_LONG_AGO = -1e18
"""A clock reading (seconds) before any cache's time to live."""


def compact(
    messages: Any,
    *,
    policy: str | Path | Policy = "balanced",
    model: str | ModelInfo | None = None,
    window: int | None = None,
    prices: Prices | None = None,
    sent: int = 0,
    format: str | Format | None = None,  # noqa: A002  (the word of the field)
) -> Compaction:
    """Compact one list of messages, or one whole request, without keeping state.

    `sent` is the number of leading messages that a provider has already cached: editing those costs cache
    writes, editing the rest is free. A result can be compacted again: its placeholders stay as they are.
    Raises ArgumentError for a wrong argument and FormatError if `messages` is no list of messages.
    """
    if isinstance(sent, bool) or not isinstance(sent, int) or sent < 0:
        raise ArgumentError(f"sent = {sent!r}; must be a number of messages, 0 or more")
    compactor = Compactor(policy, model=model, window=window, prices=prices, format=format)
    return compact_safely(compactor._run, messages, sent=sent)


class Compactor:
    """Compact a running conversation: call `compact` before each model call, `observe` after it. Thread-safe.

    In `view` mode the caller keeps the full history and passes it every time. In `replace` mode the caller
    stores what `compact` returns and appends to that. Do not change messages once they were passed. `clock`
    returns seconds and is read twice per call.

    With an archive on disk and a `session` name, the ledger, the calibration and the last hand-over are
    stored with every call, and a later process continues from them. `project` limits searches to one
    project. With `confined`, recalls by id are limited to this session and project too.
    """

    def __init__(
        self,
        policy: str | Path | Policy = "balanced",
        *,
        model: str | ModelInfo | None = None,
        window: int | None = None,
        prices: Prices | None = None,
        mode: Mode = "view",
        archive: Archive | None = None,
        session: str = "",
        project: str = "",
        confined: bool = False,
        format: str | Format | None = None,  # noqa: A002
        passes: Sequence[Pass | Propose] = (),
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
        table = add_passes(passes)
        self._run = Pipeline(
            PipelineSettings(
                policy=validate_policy(data.load_policy(policy), table),
                model=self._resolve_model(model, window),
                archive=archive if archive is not None else MemoryArchive(),
                mode=mode,
                wire=find_format(format) if format is not None else None,
                clock=clock,
                project=project,
                confined=confined,
                passes=table,
            ),
            make_host_inputs(summarizer, reinject),
            ConversationState(name=session, session=SessionState(policy=data.load_policy(policy).name)),
        )
        persist.resume_session(self._run)

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────

    def _resolve_model(self, model: str | ModelInfo | None, window: int | None) -> ModelInfo:
        """Look up the model's row, with the caller's window and prices in place of the table's."""
        return data.resolve_model(model, window=window, prices=self._prices)

    def set_model(self, model: str | ModelInfo | None = None, *, window: int | None = None) -> None:
        """Switch the model in mid-session: the ledger stays, window, prices and token estimate are the new model's.

        A window given to the constructor was the old model's; give the new one's here if the table does not know it.
        """
        with self._lock:
            settings, state = self._run.settings, self._run.state
            before = settings.model
            settings.model = self._resolve_model(model if model is not None else before, window)
            state.session = replace(state.session, last_call=_LONG_AGO)  # another model's cache holds nothing of this
            if settings.model.family != before.family:
                state.track = None
                state.session = replace(state.session, calibration=Calibration())
                recount_inputs(self._run)

    @property
    def policy(self) -> Policy:
        """The policy in force; assign another to switch."""
        return self._run.settings.policy

    @policy.setter
    def policy(self, policy: str | Path | Policy) -> None:
        with self._lock:
            settings, before = self._run.settings, self._run.settings.policy
            settings.policy = validate_policy(data.load_policy(policy), settings.passes)
            if settings.policy.estimate != before.estimate:
                self._run.state.track = None
                recount_inputs(self._run)

    # ── what can be looked at ────────────────────────────────────────────────────────────────────────────────

    @property
    def model(self) -> ModelInfo:
        """The model's row: window, prices, tokenizer family, thinking binding."""
        return self._run.settings.model

    @property
    def mode(self) -> Mode:
        """`view` or `replace`."""
        return self._run.settings.mode

    @property
    def archive(self) -> Archive:
        """Where originals are kept."""
        return self._run.settings.archive

    @property
    def session(self) -> SessionState:
        """Ledger, calibration and account; a value that never changes under you."""
        return self._run.state.session

    @property
    def facts(self) -> Facts | None:
        """Analyses of the conversation as last seen; None before the first compaction."""
        return self._run.state.track.facts if self._run.state.track else None

    @property
    def learned(self) -> dict[str, float]:
        """Tool kind → factor by which recalls made its edits count as riskier (1 to 4)."""
        return dict(self._run.state.session.learned)

    @property
    def pending(self) -> PendingSummary | None:
        """The summary that is being written in the background, if any."""
        return self._run.state.pending

    def view(self) -> View:
        """Return the items and effects behind the last compaction; empty before the first."""
        track = self._run.state.track
        return View(track.facts.items, track.effects) if track else View((), Effects())

    def last_view(self) -> list[Any]:
        """Return the messages returned last in replace mode; empty if nothing was returned yet."""
        return list(self._run.state.returned or ())

    def view_format(self) -> Format:
        """Return the format of the conversation; chat completions before the first compaction."""
        return self._run.wire

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
        """Return the messages to send for the next model call.

        `tools` and `system` are counted, never changed. `force=True` brings the view below the policy's soft
        line now. `force="full"` makes a major compaction whatever the size, of the first `until` messages if
        `until` is set. `focus` is text that matters next: gentle passes skip items that contain it, and a
        hand-over's key lines prefer it. Raises FormatError if `messages` is no list of messages. Unexpected
        content never raises.
        """
        check_force(force, until)
        with self._lock:
            if isinstance(messages, Mapping):
                tools = messages.get("tools") if tools is None else tools
                wire, _ = resolve_format(self._run, messages)
                system = messages.get(wire.system_key) if system is None and wire.system_key else system
            while self._late:
                self._run.calibrate(self._late.pop(0))
            count_inputs(self._run, tools, system)
            return self._finish(
                compact_safely(self._run, messages, force=bool(force), full=force == "full", focus=focus, until=until)
            )

    async def acompact(self, messages: Any, **options: Any) -> Compaction:
        """Run `compact` in a thread, so that the event loop is not blocked. An async summarizer runs on that loop.

        If the task is cancelled while a summarizer is working, the summary is abandoned and nothing of it is
        committed.
        """
        import asyncio  # costs more than the rest of this module, and only async callers need it

        from danshari.pipeline.summarize import Caller, current_caller

        given_up = threading.Event()
        token = current_caller.set(Caller(loop=asyncio.get_running_loop(), gone=given_up.is_set))
        try:
            return await asyncio.to_thread(self.compact, messages, **options)
        except asyncio.CancelledError:
            given_up.set()
            raise
        finally:
            current_caller.reset(token)

    def preview(
        self, messages: Any, *, force: Force = None, focus: str | None = None, until: int | None = None
    ) -> Compaction:
        """Return what `compact` would do, without asking a summarizer.

        Nothing is committed, archived or added to the session's costs.
        """
        check_force(force, until)
        with self._lock:
            trial = self._run.trial()
            return compact_safely(trial, messages, force=bool(force), full=force == "full", focus=focus, until=until)

    def _finish(self, result: Compaction) -> Compaction:
        if self.on_compaction is not None:
            self.on_compaction(result)
        return result

    # ── after the call, and later ────────────────────────────────────────────────────────────────────────────

    def observe(self, usage: Any) -> None:
        """Calibrate the token estimate by the usage that a provider reported for the last view.

        `usage` is an SDK object, its dict, or a number of input tokens. Anthropic's `input_tokens` exclude
        cached tokens and OpenAI's `prompt_tokens` include them: both are handled.
        """
        from danshari.formats.usage import read_usage

        reported = read_usage(usage, self.view_format().api).size
        if not reported:
            return
        if not self._lock.acquire(blocking=False):  # a summarizer is at work on this very loop: do not hold it up
            self._late.append(reported)
            return
        try:
            self._run.calibrate(reported)
        finally:
            self._lock.release()

    def recall(self, query: str, *, limit: int = 5, filters: Filters = NO_FILTERS) -> list[Passage]:
        """Find passages of archived originals, by the id that a placeholder shows or by words, path or command.

        An id returns the whole original. Words search this session (or project, without a session name) unless
        `filters` names one. Raises RecallError if nothing is found.
        """
        with self._lock:
            from danshari.pipeline import recall

            found = recall.recall(self._run, query, limit=limit, filters=filters)
            persist.store_recall(self._run)
            return found

    def recall_messages(self, id_: str) -> list[Any]:
        """Return the whole messages that held the item with this recall id, as they came, oldest first.

        They hold what is no text: ids, citations, signatures, fields unknown here. Raises RecallError if no item of
        this conversation has the id.
        """
        with self._lock:
            from danshari.pipeline import recall

            return recall.recall_whole(self._run, id_)

    def recall_tools(self) -> list[dict[str, Any]]:
        """Return the definitions of `recall_search` and `recall_read` in the format of this conversation.

        That is chat completions before the first compaction. Offer them from a session's first request on or
        never: tools are part of the cached prefix.
        """
        from danshari.core.recall_tools import RECALL_TOOLS

        return self.view_format().api.define_tools(RECALL_TOOLS)

    def run_recall(self, name: str, arguments: str | Mapping[str, Any]) -> str:
        """Answer a recall tool's call. An unknown tool, wrong arguments and no match return a text, never an error."""
        with self._lock:
            from danshari.pipeline import recall

            said = recall.run_recall_tool(self._run, name, arguments)
            persist.store_recall(self._run)
            return said

    def reset_learned(self) -> None:
        """Forget what earlier recalls changed about how readily each kind of tool result is elided."""
        with self._lock:
            self._run.state.session = replace(self._run.state.session, learned=(), recalled=())

    def overflowed(self, tokens: int | None = None) -> None:
        """Report that the provider refused the last view as too long.

        `tokens` is the provider's own count, if it sent one. The next `compact` works from that count, so one
        such error costs one compaction.
        """
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens <= 0):
            raise ArgumentError(f"tokens = {tokens!r}; must be a positive number of tokens")
        with self._lock:
            self._run.calibrate_refusal(tokens)

    def undo(self) -> Compaction:
        """Undo the last committed batch of edits and return the new view.

        The undo is appended to the ledger, so replaying the ledger repeats it. Raises ArgumentError if nothing
        was committed, or if `compact` was not called yet since loading or switching the model's tokenizer.
        """
        with self._lock:
            from danshari.pipeline import undo

            result = undo.undo(self._run)
            persist.store_session(self._run)
            return result

    def pin(self, *texts: str) -> None:
        """Protect every item that contains one of `texts`, and restore those that were edited already."""
        if not texts or not all(isinstance(t, str) and t for t in texts):
            raise ArgumentError("pin needs one or more non-empty texts")
        with self._lock:
            from danshari.pipeline import undo

            undo.pin(self._run, texts)
            persist.store_session(self._run)

    def save(self) -> str:
        """Return the session as JSON text.

        It holds the ledger, the calibration, the source messages (in replace mode) and the archive if that is in
        memory.
        """
        with self._lock:
            return persist.dump_conversation(self._run)

    def load(self, saved: str | bytes) -> None:
        """Continue a saved session. Raises SessionError if it cannot be read, VersionError for a newer format."""
        with self._lock:
            persist.load_saved(self._run, saved)
