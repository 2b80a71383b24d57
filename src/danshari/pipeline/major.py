"""One major compaction in the making: its span, its document, the questions to a summarizer, and the Fold."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.core.edits import Edit, Fold
from danshari.core.handover import MODEL_FIELDS, Handover, Point
from danshari.core.handover_markdown import parse, render
from danshari.core.summary import Reply
from danshari.core.text import sendable
from danshari.handovers.extract import (
    Tables,
    Wanted,
    draft,
    filled,
)
from danshari.handovers.fit import fixed_size, shrunk
from danshari.handovers.ladder import (
    DOCUMENT,
    Ask,
    Outcome,
    Plan,
    Rung,
    pieces,
    summarize,
)
from danshari.handovers.span import Span, fold_of, newest_messages
from danshari.handovers.survival import Survival, consistency
from danshari.handovers.validate import Ground, known_names
from danshari.pipeline import masking
from danshari.pipeline.state import Standing
from danshari.pipeline.summarize import Scene, flattened
from danshari.pipeline.tracker import Track
from danshari.planning.laws import refuse

MARGIN = 1.5
"""Free space must be this many times what a summary call needs, or no model is asked (seed 3, S12)."""
BREAKER = 3
"""Failed summaries in a row after which the summarizer is left alone."""
_SHARE = 0.2
"""Characters of a hand-over, mandatory fields aside, over characters of what it replaces (seed 3, S9)."""
_LEAST = 2_500
"""Characters a hand-over may take even where a fifth of what it replaces is less, but no more than half of it."""
_PROGRESS = 0.1
"""Share of what leaves that a major compaction must free at least."""
_PROMPT = 1_200
"""Tokens of the prompt around the document."""


@dataclass(slots=True, kw_only=True)
class Major:
    """What a major compaction made."""

    edits: list[Edit] = field(default_factory=list)
    document: Handover | None = None
    rungs: tuple[Rung, ...] = ()
    survived: tuple[Survival, ...] = ()
    notes: list[str] = field(default_factory=list)
    asked: bool = False
    by_model: bool = False
    units: float = 0.0
    """What the summarizer cost, in units of base input tokens."""


def tables() -> Tables:
    """Load the tables an extraction reads."""
    return Tables(markers=data.markers(), languages=data.phrases())


@dataclass(slots=True, kw_only=True)
class Prepared:
    """A span with its document, before any model is asked."""

    run: Standing
    span: Span
    why: str
    asked: bool = False
    """Whether the user asked for it: then no detector stands in its way."""
    focus: str = ""
    full: Handover = field(init=False)
    document: Handover = field(init=False)
    wanted: Wanted = field(init=False)
    rungs: list[Rung] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    track: Track = field(init=False)

    def __post_init__(self) -> None:
        """Work the document out from the items alone."""
        run = self.run
        assert run.track is not None
        self.track = run.track
        facts, policy, places = self.facts, run.policy, self.span.places
        size = sum(len(facts.items[at].text) for at in places)
        self.wanted = Wanted(
            size=min(policy.handover, max(int(_SHARE * size), min(_LEAST, size // 2))),
            language=policy.language,
            visible=self._visible(),
            restore=min(policy.restore, int(_SHARE * size)),
            focus=self.focus,
        )
        live = tuple(
            Point(text=str(text), label=str(label), turn=facts.turn, by="host")
            for label, text in self._live_state().items()
            if text
        )
        begun = draft(facts, places, tables(), self.wanted, older=self._older())
        self.full = begun.document.with_field("live", live)
        made = filled(facts, places, tables(), self.wanted, replace(begun, document=self.full))
        self.document = self._masked(made) if policy.mask_secrets else made

    def _older(self) -> Handover | None:
        """Give the document in force inside the span; one that is no longer kept is read back from its text."""
        live = self._live()
        if not live:
            return None
        if self.run.session.handover is not None:
            return self.run.session.handover
        read = parse(live[-1].text, data.phrases())
        return replace(read, fields={name: read[name] for name in MODEL_FIELDS}) if read else None

    def _live_state(self) -> Mapping[str, str]:
        """Ask the host for its live state; a hook that fails is said and does no harm."""
        hook = self.run.means.reinject
        try:
            return dict(hook() or {}) if hook else {}
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, OSError) as error:
            self.notes.append(f"reinject failed: {type(error).__name__}: {error}")
            return {}

    def _live(self) -> list[Fold]:
        track = self.track
        return [
            f for start, (end, f) in track.effects.folds.items() if self.span.first <= start and end <= self.span.last
        ]

    def _masked(self, document: Handover) -> Handover:
        return masking.masked_document(document, (item.text for item in self.facts.items))

    def _visible(self) -> str:
        """Join the texts that stay beside the document."""
        track = self.track
        inside = set(self.span.places)
        shown = [
            track.effects.texts[at].text if at in track.effects.texts else item.text
            for at, item in enumerate(track.facts.items)
            if at not in inside and at not in track.effects.gone
        ]
        return "\n".join(shown)

    # ── the ladder ───────────────────────────────────────────────────────────────────────────────────────────

    def scene(self, payload: Any) -> Scene:
        """Give what requests are built from."""
        run = self.run
        shown = self.track.write(run.shape(payload, self.track))
        wire = self.track.format
        return Scene(
            wire=wire, messages=list(wire.messages(shown)), payload=payload, system=run.means.system,
            tools=run.means.tools, policy=run.policy, model=run.model.name, hints=wire.hints() if run.hints else {},
        )  # fmt: skip

    def ladder(self) -> Generator[Ask, Reply, Outcome]:
        """Start the ladder with the rungs that this moment allows."""
        plan = self._plan()
        ground = self._ground(asks=plan.tries > 0)
        phrases = tables().languages[self.document.language]
        return summarize(self.document, plan, replace(ground, prompt=plan.prompt), lambda d: render(d, phrases))

    def _plan(self) -> Plan:
        run, policy, facts = self.run, self.run.policy, self.facts
        tries = policy.tries if run.means.summarizer is not None else 0
        if tries and run.session.failures >= BREAKER and not self.asked:
            self.rungs.append(Rung(name="breaker", ok=False, why=f"{run.session.failures} summaries failed in a row"))
            tries = 0
        if not tries:
            return Plan(prompt="", warm=False, transcripts=(), tries=0, turn=facts.turn, retry="")
        return Plan(
            prompt=self._prompt(),
            warm=self._warm_fits(),
            transcripts=self._transcripts(),
            tries=tries,
            turn=facts.turn,
            retry=data.prompt("retry", self.document.language),
        )

    def _prompt(self) -> str:
        policy, language = self.run.policy, self.document.language
        facts, phrases = self.facts, tables().languages[language]
        mask = masking.masked if policy.mask_secrets else str
        users = [w for at in facts.users if (w := data.markers().own_words(facts.items[at].text).strip())]
        holes = {
            "request": mask(users[-1][:4_000]) if users else "—",
            "document": DOCUMENT,
            "language": phrases.name,
            "limit": str(self._limit),
            "focus": f"\n\nFocus: {self.focus}" if self.focus else "",
            "extra": f"\n\n{policy.summary_prompt}" if policy.summary_prompt else "",
        }
        return re.sub(r"\{(\w+)\}", lambda hole: holes.get(hole[1], hole[0]), data.prompt("handover", language))

    @property
    def _limit(self) -> int:
        """Characters a summarizer may add."""
        return 2 * self.run.policy.summary_tokens

    def _warm_fits(self) -> bool:
        """Say whether the agent's own request can carry the instruction, with the margin of S12."""
        run, facts = self.run, self.facts
        summarizer = run.means.summarizer
        if summarizer is None or not summarizer.same or run.policy.summary_request != "warm" or facts.pending:
            return False
        need = self._need()
        free = run.model.window - run.tokens(self.track)
        if free < MARGIN * need:
            self.rungs.append(
                Rung(name="margin", ok=False, why=f"{free:,.0f} tokens free, {MARGIN * need:,.0f} needed")
            )
            return False
        return True

    def _need(self) -> float:
        facts = self.facts
        return float(facts.count(render(self.document, tables().languages[self.document.language]))) + (
            _PROMPT + self.run.policy.summary_tokens
        )

    def _transcripts(self) -> tuple[str, ...]:
        """Flatten what leaves, in pieces that fit the summarizer with the margin."""
        run, facts = self.run, self.facts
        assert run.means.summarizer is not None
        items = [facts.items[at] for at in self.span.places]
        texts = flattened(items, masking.masked if run.policy.mask_secrets else str)
        window = run.means.summarizer.window or run.model.window
        room = (window - self._need()) / MARGIN
        made = pieces(texts, [facts.count(t) for t in texts], room, run.policy.chunks)
        if not made:
            why = f"the conversation does not fit {run.policy.chunks} requests to a window of {window:,} tokens"
            self.rungs.append(Rung(name="margin", ok=False, why=why))
        return made

    def _ground(self, *, asks: bool) -> Ground:
        facts, markers = self.facts, data.markers()
        items = facts.items
        words = "\n".join(markers.own_words(items[at].text) for at in facts.users)
        return Ground(
            known=known_names([*(i.text for i in items), *(i.name for i in items)]) if asks else (),
            words=words,
            prompt="",
            language=self.document.language,
            source=sum(len(items[at].text) for at in self.span.places),
            limit=self._limit,
            markers=markers,
            languages=data.phrases(),
            mask=masking.masked if self.run.policy.mask_secrets else str,
        )

    @property
    def facts(self) -> Facts:
        """Give the analyses of the conversation."""
        return self.track.facts

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    def finished(self, outcome: Outcome) -> Major:
        """Make the Fold, if it frees enough, and say what survived."""
        rungs = (*self.rungs, *outcome.rungs)
        if outcome.by_model or (shorter := self._fallback()) is None:
            return self._folded(outcome.document, rungs, by_model=outcome.by_model)
        return shorter._folded(shorter.document, rungs, by_model=False)

    def _fallback(self) -> Prepared | None:
        """In the seed's shape, keep the newest messages beside the document where no model wrote a summary."""
        if self.run.policy.shape != "seed":
            return None
        start = newest_messages(self.facts, self.run.policy.fallback)
        if start - self.span.first < 2:
            return None
        span = replace(self.span, last=start - 1, keep=tuple(at for at in self.span.keep if at < start))
        return Prepared(run=self.run, span=span, why=self.why, asked=self.asked, focus=self.focus)

    def futile(self, document: Handover) -> str:
        """Say why a Fold with this document is not worth it; empty if it is."""
        before = sum(self.track.sizes[at] for at in self.span.places) + sum(
            self.facts.count(f.text) for f in self._live()
        )
        after = self.facts.count(self._text(document))
        if after <= (1 - max(self.run.policy.margin, _PROGRESS)) * before:
            return ""
        return f"no major compaction: it would free {max(before - after, 0):,.0f} of {before:,.0f} tokens only"

    def _text(self, document: Handover) -> str:
        return sendable(render(document, tables().languages[document.language]))

    def _folded(self, document: Handover, rungs: tuple[Rung, ...], *, by_model: bool) -> Major:
        run, facts, span = self.run, self.facts, self.span
        asked = any(r.asked for r in rungs)
        major = Major(rungs=rungs, asked=asked, by_model=by_model, units=self.units(rungs), notes=list(self.notes))
        phrases = tables().languages[document.language]
        most = len(self._text(self.document)) if self.document else 0
        document = shrunk(document, max(most, self.wanted.size + fixed_size(document)), phrases)
        if why := self.futile(document):
            major.notes.append(why)
            return major
        text = self._text(document)
        fold = fold_of(facts, span, text, why=self.why)
        if broken := refuse(fold, facts, run.policy):
            major.notes.append(f"no major compaction: {broken.law}: {broken.why}")
            return major
        major.edits, major.document = [fold], document
        leaving = {facts.items[at].id for at in span.places}
        major.survived = consistency(self.full, f"{text}\n{self.wanted.visible}", leaving.__contains__)
        return major

    def units(self, rungs: Sequence[Rung]) -> float:
        """Price the summarizer's answers at the agent's prices, or its own if it has some."""
        prices, summarizer = self.run.model.prices, self.run.means.summarizer
        rate = (summarizer.price / prices.base) if summarizer and summarizer.price and prices.base else 1.0
        return rate * sum(
            (r.read - r.cached) * prices.write + r.cached * prices.read + r.written * prices.output for r in rungs
        )
