"""Read-only properties of a running conversation. Nothing in this module changes it."""

from __future__ import annotations

from typing import Any

from danshari.analysis.facts import Facts
from danshari.archive.base import Archive
from danshari.core.edits import Effects, View
from danshari.core.pricing import ModelInfo
from danshari.core.session import SessionState
from danshari.formats import Format, find_format
from danshari.pipeline.run import Pipeline
from danshari.pipeline.state import Mode, PendingSummary


class CompactorInspection:
    """The read-only properties and methods of `Compactor`."""

    _run: Pipeline

    @property
    def model(self) -> ModelInfo:
        """The model's row: window, prices, tokenizer family, thinking binding."""
        return self._run.model

    @property
    def mode(self) -> Mode:
        """`view` or `replace`."""
        return self._run.mode

    @property
    def archive(self) -> Archive:
        """Where originals are kept."""
        return self._run.archive

    def view(self) -> View:
        """Return the items and edits behind the last compaction, empty before the first."""
        track = self._run.track
        return View(track.facts.items, track.effects) if track else View((), Effects())

    def last_view(self) -> list[Any]:
        """Return the messages returned last in replace mode, or an empty list."""
        return list(self._run.returned or ())

    def view_format(self) -> Format:
        """Return the conversation's message format: chat completions before the first compaction."""
        return self._run.track.format if self._run.track else self._run.wire or find_format("openai-chat")

    @property
    def facts(self) -> Facts | None:
        """Analyses of the conversation as last seen; None before the first compaction."""
        return self._run.track.facts if self._run.track else None

    @property
    def learned(self) -> dict[str, float]:
        """Factor per tool kind (1 to 4) by which recalls made its edits count as riskier."""
        return dict(self._run.session.learned)

    @property
    def pending(self) -> PendingSummary | None:
        """The summary being written in the background, or None."""
        return self._run.pending

    @property
    def session(self) -> SessionState:
        """Ledger, calibration and account, as an immutable value."""
        return self._run.session
