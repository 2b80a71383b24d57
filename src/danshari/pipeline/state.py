"""The state of a running conversation between two calls: settings, ledger, items, host inputs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from danshari.analysis.signals import Signals
from danshari.archive.base import Archive
from danshari.core.policy import Policy
from danshari.core.pricing import ModelInfo
from danshari.core.session import SessionState
from danshari.formats import Format
from danshari.pipeline.tracker import ConversationTrack
from danshari.summarizers import Summarizer

Mode = Literal["view", "replace"]


@dataclass(slots=True, kw_only=True)
class HostInputs:
    """What the host passes in beside the messages: summarizer, live-state hook, system prompt, tools."""

    summarizer: Summarizer | None = None
    reinject: Callable[[], Mapping[str, str]] | None = None
    system: Any = None
    tools: Any = None


class PendingSummary(Protocol):
    """A summary being written in the background."""

    thread: threading.Thread
    outcome: list[Any]
    """Holds the ladder's end once it is there."""
    prepared: Any
    """The span and document it was started with."""


class ConversationState:
    """The state of a running conversation between two calls."""

    def __init__(
        self,
        policy: Policy,
        model: ModelInfo,
        archive: Archive,
        *,
        mode: Mode,
        wire: Format | None,
        clock: Callable[[], float],
    ) -> None:
        self.policy, self.model, self.archive, self.mode = policy, model, archive, mode
        self.wire = wire
        self.clock = clock
        self.session = SessionState(policy=policy.name)
        self.track: ConversationTrack | None = None
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
        self.means = HostInputs()
        """Summarizer, live state, system prompt and tools, as the host gave them."""
        self.counted: tuple[Any, Any] = (None, None)
        """Tools and system prompt behind `floor`."""
        self.pending: PendingSummary | None = None
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

    def new_archive_notes(self) -> list[str]:
        """Return the archive's warnings not returned before, such as that an unreadable file was moved aside."""
        notes: list[str] = getattr(self.archive, "notes", [])
        fresh, self._heard = notes[self._heard :], len(notes)
        return list(fresh)

    @property
    def family(self) -> str:
        """Tokenizer family used to estimate tokens under this policy."""
        return "literal" if self.policy.estimate == "literal" else self.model.family

    @property
    def reserve(self) -> float:
        """Tokens kept free for the answer."""
        return min(self.policy.reserve * self.model.window, float(self.model.output))

    def tokens(self, track: ConversationTrack) -> float:
        """Estimate the tokens of the whole request.

        The estimate is messages plus system prompt and tool schemas, corrected by the usage that the provider
        reported.
        """
        return self.session.calibration.tokens(track.shown + self.floor)

    def source_payload(self, payload: Any, track: ConversationTrack) -> Any:
        """Return the full history in the shape of the caller's payload (a list, or a request that holds one).

        In view mode that is the payload itself.
        """
        if self.mode == "view":
            return payload
        return {**payload, track.format.key: track.messages} if isinstance(payload, Mapping) else track.messages
