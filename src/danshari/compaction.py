"""The result of one compaction: the messages to send, every edit and its reason, and the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from danshari.analysis.signals import Signals
from danshari.core.edits import Edit, Mend, edit_to_dict

if TYPE_CHECKING:  # only a major compaction makes these, and their modules cost as much as all others together
    from danshari.core.handover import Handover
    from danshari.handovers.ladder import Rung
    from danshari.handovers.survival import Survival
    from danshari.planning.laws import Refusal

COMPACTION_FORMAT = 1
"""Format number of `Compaction.to_dict`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldProposal:
    """A proposed edit that does not pay yet: the tokens it would free, and its reason."""

    id: str
    by: str
    why: str
    freed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The result of `compact`. Sizes are in tokens, money is in dollars at the model's base price."""

    messages: Any = field(repr=False)
    format: str
    policy: str
    model: str = ""
    before: int = 0
    """Estimated tokens of the caller's messages."""
    after: int = 0
    """Estimated tokens of what should be sent."""
    edits: tuple[Edit, ...] = field(default=(), repr=False)
    """Edits committed by this call."""
    live: int = 0
    """Edits in force, this call's included."""
    held: tuple[HeldProposal, ...] = field(default=(), repr=False)
    refused: tuple[Refusal, ...] = field(default=(), repr=False)
    trigger: str = ""
    """Why proposals were weighed: every round, gain, cold cache, soft line, forced, asked; empty if nothing was due."""
    pressure: str = "none"
    earn: float = 0.0
    """Dollars the committed (or, if nothing was, the best held) batch earns over the expected rounds."""
    cost: float = 0.0
    """Dollars it costs once, to write the changed prefix anew."""
    handover: Handover | None = field(default=None, repr=False)
    """The document of this call's major compaction."""
    rungs: tuple[Rung, ...] = ()
    """How a summarizer was asked and what came of it, step by step."""
    survived: tuple[Survival, ...] = field(default=(), repr=False)
    """What survived the major compaction, field by field."""
    hints: dict[str, Any] = field(default_factory=dict)
    """Request fields to send along (bound thinking); empty if none are needed."""
    signals: Signals = field(default_factory=Signals, repr=False)
    """The monitor's reading: phase, density, repeats, forecast, what comes next."""
    mended: tuple[Mend, ...] = ()
    """What came in broken and was mended in `messages` so that the provider accepts them."""
    notes: tuple[str, ...] = ()
    fault: str = ""
    """What went wrong inside danshari; the messages are then safe to send all the same."""

    @property
    def ok(self) -> bool:
        """Whether no internal error happened."""
        return not self.fault

    @property
    def changed(self) -> bool:
        """Whether the messages to send differ from the caller's."""
        return self.live > 0 or bool(self.mended)

    def __len__(self) -> int:
        """Return the estimated tokens of the messages to send."""
        return self.after

    def __bool__(self) -> bool:
        """Return True, even if the view is empty."""
        return True

    def __str__(self) -> str:
        """Return a short report, one line per fact.

        The lines are sizes, edits made, edits held back, summarizer steps, refused edits, notes, and the
        internal error.
        """
        share = f" (−{100 * (1 - self.after / self.before):.0f} %)" if self.before and self.changed else ""
        lines = [
            f"{self.policy} · {self.format} · {self.before:,} → {self.after:,} tokens{share}{self._estimate_note()}"
        ]
        if self.edits:
            only_new = all(e.by == "admit" for e in self.edits)
            lines.append(
                f"{_summarize_edits(self.edits)}; {'first sight' if only_new else self.trigger}{self._money_note()}"
            )
        freed = sum(h.freed for h in self.held)
        if freed >= 1:
            edits = "1 edit" if len(self.held) == 1 else f"{len(self.held)} edits"
            pays = "it does" if len(self.held) == 1 else "they do"
            lines.append(f"held back {edits} ({freed:,.0f} tokens): {pays} not pay yet")
        lines += self._ladder_lines()
        lines += [f"refused {r.law}: {r.why}" for r in self.refused[:3]]
        lines += [f"mended {mend}" for mend in self.mended[:3]]
        lines += [f"mended {len(self.mended) - 3} more"] if len(self.mended) > 3 else []
        lines += [f"note: {note}" for note in self.notes]
        if self.fault:
            lines.append(f"fault, failed open: {self.fault}")
        return "\n".join(lines)

    def _ladder_lines(self) -> list[str]:
        """Return report lines on the summarizer's steps and on what of the hand-over stays in sight."""
        lines = []
        for rung in self.rungs if len(self.rungs) > 1 else ():  # nobody was asked: code alone
            how = "ok" if rung.ok else "no"
            repaired = f" (repaired: {'; '.join(rung.repaired)})" if rung.repaired else ""
            lines.append(f"summary {rung.name}: {how}{', ' + rung.why if rung.why else ''}{repaired}")
        if self.survived:
            parts = [f"{s.field} {s.shown}/{s.total}" for s in self.survived]
            lost = sum(s.lost for s in self.survived)
            lines.append(f"in sight: {', '.join(parts)}; the rest in the archive{f'; {lost} LOST' if lost else ''}")
        return lines

    @property
    def layer(self) -> str:
        """The kind of this compaction: unchanged, minor, major or fallback.

        Fallback is a major compaction for which a model was wanted but gave no usable answer.
        """
        if self.handover is not None:
            wanted = any(r.is_model_call or r.name in ("breaker", "margin") for r in self.rungs)
            helped = any(r.ok and r.is_model_call for r in self.rungs)
            return "fallback" if wanted and not helped else "major"
        return "minor" if self.edits else "unchanged"

    def _estimate_note(self) -> str:
        return " by the seed's estimate" if self.policy == "literal" else ""

    def _money_note(self) -> str:
        if not self.earn and not self.cost:
            return ""
        return f"; earns ${self.earn:.4f} for ${self.cost:.4f}"

    def to_dict(self, *, messages: bool = False, texts: bool = True) -> dict[str, Any]:
        """Return plain JSON values, with the messages only if `messages` is True.

        Without `texts`, nothing that was said or read in the conversation is included.
        """
        data: dict[str, Any] = {
            "format_version": COMPACTION_FORMAT,
            "format": self.format,
            "policy": self.policy,
            "model": self.model,
            "before": self.before,
            "after": self.after,
            "live": self.live,
            "edits": [edit_to_dict(e) for e in self.edits],
            "held": [{"id": h.id, "by": h.by, "why": h.why, "freed": round(h.freed)} for h in self.held],
            "refused": [{"law": r.law, "why": r.why, "edit": edit_to_dict(r.edit)} for r in self.refused],
            "trigger": self.trigger,
            "pressure": self.pressure,
            "earn": self.earn,
            "cost": self.cost,
            "handover": self.handover.to_dict() if self.handover else None,
            "rungs": [asdict(r) for r in self.rungs],
            "survived": [asdict(s) for s in self.survived],
            "hints": self.hints,
            "signals": self.signals.to_dict(),
            "mended": [asdict(mend) for mend in self.mended],
            "notes": list(self.notes),
            "fault": self.fault,
        }
        if messages:
            data["messages"] = self.messages
        if not texts:
            data["edits"] = [{k: v for k, v in edit.items() if k in _LOGGED_FIELDS} for edit in data["edits"]]
            data["mended"] = [{"kind": mend.kind, "at": mend.at} for mend in self.mended]
            data["refused"] = [r["law"] for r in data["refused"]]
            data["signals"] = {k: v for k, v in data["signals"].items() if k not in ("files", "failing")}
            data["handover"] = bool(self.handover)
            data["rungs"] = [{"name": r.name, "ok": r.ok} for r in self.rungs]
        return data


_LOGGED_FIELDS = ("edit", "id", "first", "last", "after", "by", "seen")
"""Of an edit, what a log may hold."""
_EDIT_LABELS = {
    "admit": "squeezed at first sight",
    "superseded": "superseded",
    "elide": "elided",
    "evict": "rounds dropped",
    "summarize": "hand-over",
    "binding": "thinking blocks left out",
    "undo": "shown again",
    "pin": "shown again",
}


def _summarize_edits(edits: Sequence[Edit]) -> str:
    counts = Counter(_EDIT_LABELS.get(edit.by, edit.by) for edit in edits)
    return ", ".join(f"{n} {what}" for what, n in counts.items())
