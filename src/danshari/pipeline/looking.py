"""What can be looked at in a running conversation; nothing here changes it."""

from __future__ import annotations

from typing import Any

from danshari.analysis.facts import Facts
from danshari.archive.base import Archive
from danshari.core.edits import Effects, View
from danshari.core.pricing import Model
from danshari.core.session import Session
from danshari.formats import Format, named
from danshari.pipeline.run import Run
from danshari.pipeline.state import Mode, Pending


class Look:
    """The read-only side of a `Compactor`."""

    _run: Run

    @property
    def model(self) -> Model:
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
        """Give the items and effects behind the last compaction; empty before the first."""
        track = self._run.track
        return View(track.facts.items, track.effects) if track else View((), Effects())

    def last_view(self) -> list[Any]:
        """Give the messages returned last in replace mode; empty where nothing was returned yet."""
        return list(self._run.returned or ())

    def view_format(self) -> Format:
        """Give the format of the conversation; chat completions before the first compaction."""
        return self._run.track.format if self._run.track else self._run.wire or named("openai-chat")

    @property
    def facts(self) -> Facts | None:
        """Analyses of the conversation as last seen; None before the first compaction."""
        return self._run.track.facts if self._run.track else None

    @property
    def learned(self) -> dict[str, float]:
        """Tool kind → factor by which recalls made its edits count as riskier (1 to 4)."""
        return dict(self._run.session.learned)

    @property
    def pending(self) -> Pending | None:
        """Give the summary that is being written in the background, if any."""
        return self._run.pending

    @property
    def session(self) -> Session:
        """Ledger, calibration and account; a value that never changes under you."""
        return self._run.session
