"""The state of a running conversation between two calls: settings, ledger, items, host inputs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from danshari.analysis.signals import Signals
from danshari.archive.base import Archive
from danshari.archive.in_memory import MemoryArchive
from danshari.core.edits import Edit
from danshari.core.policy import Policy
from danshari.core.pricing import ModelInfo
from danshari.core.session import SessionState, is_plausible
from danshari.errors import ArgumentError
from danshari.formats import Format, find_format
from danshari.passes import PASSES, Pass
from danshari.pipeline.tracker import ConversationTrack

if TYPE_CHECKING:
    from danshari.core.handover import Handover
    from danshari.handovers.ladder import Rung
    from danshari.handovers.survival import Survival
    from danshari.summarizers.base import Summarizer

Mode = Literal["view", "replace"]
Force = Literal["full"] | bool | None


@dataclass(slots=True, kw_only=True)
class PipelineSettings:
    """What the caller chose. Only the `Compactor` writes it."""

    policy: Policy
    model: ModelInfo
    archive: Archive
    mode: Mode = "view"
    wire: Format | None = None
    """The format, where the caller names it."""
    clock: Callable[[], float] = time.time
    project: str = ""
    confined: bool = False
    """Whether recalls by id see this session and this project only."""
    passes: Mapping[str, Pass] = field(default_factory=lambda: PASSES)
    """The table of passes: ours, and the caller's own."""

    @property
    def family(self) -> str:
        """Tokenizer family used to estimate tokens under this policy."""
        return "literal" if self.policy.estimate == "literal" else self.model.family

    @property
    def reserve(self) -> float:
        """Tokens kept free for the answer."""
        return min(self.policy.commit.reserve * self.model.window, float(self.model.output))


@dataclass(slots=True, kw_only=True)
class HostInputs:
    """What the host gave beside the messages. Only the `Compactor` writes it, with every call."""

    summarizer: Summarizer | None = None
    reinject: Callable[[], Mapping[str, str]] | None = None
    system: Any = None
    tools: Any = None
    floor: float = 0.0
    """Tokens of system prompt and tool schemas, where given."""


def make_host_inputs(summarizer: Any, reinject: Callable[[], Mapping[str, str]] | None) -> HostInputs:
    """Take what the constructor was given. Raises ArgumentError if the summarizer can not be called."""
    if summarizer is not None:
        from danshari.summarizers.base import as_summarizer  # only those who have one pay for it

        summarizer = as_summarizer(summarizer)
    return HostInputs(summarizer=summarizer, reinject=reinject)


@dataclass(slots=True, kw_only=True)
class MajorResult:
    """The result of a major compaction. Without edits, nothing was replaced and `notes` say why."""

    edits: list[Edit] = field(default_factory=list)
    document: Handover | None = None
    rungs: tuple[Rung, ...] = ()
    survived: tuple[Survival, ...] = ()
    notes: list[str] = field(default_factory=list)
    asked: bool = False
    by_model: bool = False
    units: float = 0.0
    """What the summarizer cost, in units of base input tokens."""


class PendingSummary(Protocol):
    """A summary being written in the background."""

    thread: threading.Thread
    outcome: list[Any]
    """Holds the ladder's end once it is there."""
    prepared: Any
    """The span and document it was started with."""


@dataclass(slots=True, kw_only=True)
class ConversationState:
    """What is known of one conversation between two calls. Only the pipeline's steps write it."""

    name: str = ""
    """The session's name in the archive."""
    session: SessionState
    """Ledger, calibration and account."""
    track: ConversationTrack | None = None
    source: list[Any] = field(default_factory=list)
    """In replace mode, the full history behind what the caller holds."""
    returned: list[Any] | None = None
    """In replace mode, the messages returned last."""
    kept: list[int] = field(default_factory=list)
    """In replace mode, the source index of every message returned last."""
    origins: list[int] | None = None
    """For every message returned last its index in the view before mending; None if nothing was mended."""
    hints: bool = False
    """Whether some request already carried thinking whose prefix changed."""
    disturbed: int | None = None
    """First position that an undo or pin changed since the last request."""
    pending: PendingSummary | None = None
    """A summary being written in the background."""
    stored: tuple[int, int] = (0, 0)
    """Version of the session in the archive, and edits that are stored there."""
    archive_notes: int = 0
    """Notes of the archive that were passed on."""
    doubts: list[str] = field(default_factory=list)
    """Notes about usage reports that were left aside, for the next result."""
    signals: Signals = field(default_factory=Signals)
    """The monitor's last reading."""
    futile_until: int = 0
    """Turn before which no major compaction is worked out again: the last would have freed too little."""


class Pipeline:
    """One conversation under one policy: what the caller chose, what the host gave, what is known; each has one writer.

    The steps of a call are functions of it, in `pipeline.run` and beside it.
    """

    def __init__(self, settings: PipelineSettings, inputs: HostInputs, state: ConversationState) -> None:
        self.settings, self.inputs, self.state = settings, inputs, state

    @property
    def wire(self) -> Format:
        """The format of the conversation; chat completions until one was read or named."""
        track = self.state.track
        return track.format if track else self.settings.wire or find_format("openai-chat")

    def trial(self) -> Pipeline:
        """Return a copy that decides alike, asks no summarizer and archives nowhere."""
        return Pipeline(
            replace(self.settings, archive=MemoryArchive()),
            replace(self.inputs, summarizer=None),
            replace(self.state, track=None, pending=None, name="", source=list(self.state.source)),
        )

    def tokens(self, track: ConversationTrack) -> float:
        """Estimate the tokens of the whole request.

        The estimate is messages plus system prompt and tool schemas, corrected by the usage that the provider
        reported.
        """
        return self.state.session.calibration.tokens(track.shown + self.inputs.floor)

    def calibrate(self, reported: float) -> None:
        """Update the calibration with the input tokens reported for the last view."""
        state = self.state
        if state.track is not None:
            shown = state.track.shown + self.inputs.floor
            if not is_plausible(reported, shown):
                state.doubts.append(
                    f"a usage report of {reported:,.0f} tokens was left aside: about {shown:,.0f} were sent"
                )
            calibration = state.session.calibration.observe(reported, shown)
            state.session = replace(state.session, calibration=calibration)

    def calibrate_refusal(self, counted: int | None) -> None:
        """Update the calibration after the last view was refused as too long; `counted` are the tokens told, if any."""
        state = self.state
        if state.track is not None:
            least = float(counted or 1.02 * self.settings.model.window)
            shown = state.track.shown + self.inputs.floor
            state.session = replace(state.session, calibration=state.session.calibration.observe_refusal(least, shown))

    def source_payload(self, payload: Any, track: ConversationTrack) -> Any:
        """Return the full history in the shape of the caller's payload (a list, or a request that holds one).

        In view mode that is the payload itself.
        """
        if self.settings.mode == "view":
            return payload
        return {**payload, track.format.key: track.messages} if isinstance(payload, Mapping) else track.messages

    def new_notes(self) -> list[str]:
        """Return warnings not returned before: usage that cannot be true, and the archive's own."""
        notes: list[str] = getattr(self.settings.archive, "notes", [])
        doubts, self.state.doubts = self.state.doubts, []
        fresh, self.state.archive_notes = notes[self.state.archive_notes :], len(notes)
        return [*doubts, *fresh]


def check_force(force: Any, until: Any) -> None:
    """Raise ArgumentError unless `force` and `until` are valid together."""
    if force not in (None, True, False, "full"):
        raise ArgumentError(f"force = {force!r}; must be True, False or 'full'")
    if until is not None and (isinstance(until, bool) or not isinstance(until, int) or until < 1 or force != "full"):
        raise ArgumentError(f"until = {until!r}; must be a number of messages, with force='full'")
