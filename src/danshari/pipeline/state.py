"""What a running conversation holds between two calls: settings, ledger, track, and what the host gave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from danshari.analysis.signals import Signals
from danshari.archive.base import Archive
from danshari.core.policy import Policy
from danshari.core.pricing import Model
from danshari.core.session import Session
from danshari.formats import Format
from danshari.pipeline.tracker import Track
from danshari.summarizers import Summarizer

Mode = Literal["view", "replace"]


@dataclass(slots=True, kw_only=True)
class Means:
    """What the host gave beside the messages."""

    summarizer: Summarizer | None = None
    reinject: Callable[[], Mapping[str, str]] | None = None
    system: Any = None
    tools: Any = None


class Pending(Protocol):
    """A summary being written in the background."""

    thread: threading.Thread
    outcome: list[Any]
    """Holds the ladder's end once it is there."""
    prepared: Any
    """The span and document it was started with."""


class Standing:
    """The state of a running conversation."""

    def __init__(
        self,
        policy: Policy,
        model: Model,
        archive: Archive,
        *,
        mode: Mode,
        wire: Format | None,
        clock: Callable[[], float],
    ) -> None:
        self.policy, self.model, self.archive, self.mode = policy, model, archive, mode
        self.wire = wire
        self.clock = clock
        self.session = Session(policy=policy.name)
        self.track: Track | None = None
        self.source: list[Any] = []
        """In replace mode, the full history behind what the caller holds."""
        self.returned: list[Any] | None = None
        """In replace mode, the messages returned last."""
        self.hints = False
        """Whether some request already carried thinking whose prefix changed."""
        self.disturbed: int | None = None
        """First position that an undo or pin changed since the last request."""
        self.kept: list[int] = []
        """In replace mode, the source index of every message returned last."""
        self.floor = 0.0
        """Tokens of system prompt and tool schemas, where given."""
        self.means = Means()
        """Summarizer, live state, system prompt and tools, as the host gave them."""
        self.counted: tuple[Any, Any] = (None, None)
        """Tools and system prompt behind `floor`."""
        self.pending: Pending | None = None
        """A summary being written in the background."""
        self.name = self.project = ""
        """The session's name and project in the archive."""
        self.confined = False
        """Whether recalls by id see this session and this project only."""
        self.stored: tuple[int, int] = (0, 0)
        """Version of the session in the archive, and edits that stand there."""
        self._heard = 0
        """Notes of the archive that were passed on."""
        self.signals = Signals()
        """The monitor's last reading."""
        self.futile_until = 0
        """Turn before which no major compaction is worked out again: the last would have freed too little."""

    def told(self) -> list[str]:
        """Give what the archive has to say, once: that a file was set aside."""
        notes: list[str] = getattr(self.archive, "notes", [])
        fresh, self._heard = notes[self._heard :], len(notes)
        return list(fresh)

    @property
    def family(self) -> str:
        """Tokenizer family by which this policy counts."""
        return "literal" if self.policy.estimate == "literal" else self.model.family

    @property
    def reserve(self) -> float:
        """Tokens kept free for the answer."""
        return min(self.policy.reserve * self.model.window, float(self.model.output))

    def tokens(self, track: Track) -> float:
        """Estimate the whole request, corrected by what the provider reported."""
        return self.session.calibration.tokens(track.shown + self.floor)

    def shape(self, payload: Any, track: Track) -> Any:
        """Give the source in the shape of the caller's payload (they differ in replace mode only)."""
        if self.mode == "view":
            return payload
        return {**payload, track.format.key: track.messages} if isinstance(payload, Mapping) else track.messages
