"""The draft of one major compaction: its span, its hand-over document, summarizer requests, the Fold."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from danshari import data
from danshari.analysis.facts import Facts
from danshari.core.edits import Fold
from danshari.core.handover import MODEL_FIELDS, Handover, Point
from danshari.core.handover_markdown import parse_handover, render_handover
from danshari.core.summary import Reply
from danshari.core.text import replace_surrogates
from danshari.handovers.extract import (
    ExtractionOptions,
    ExtractionTables,
    complete_document,
    draft_document,
)
from danshari.handovers.fit import mandatory_size, shrink_document
from danshari.handovers.ladder import (
    DOCUMENT_MARK,
    Rung,
    SummaryOutcome,
    SummaryPlan,
    SummaryQuestion,
    split_transcript,
    summary_ladder,
)
from danshari.handovers.span import HandoverSpan, make_fold, newest_messages_start
from danshari.handovers.survival import measure_survival
from danshari.handovers.user_words import spoken_text
from danshari.handovers.validate import LONG_LINE, CheckContext, collect_names
from danshari.pipeline import masking
from danshari.pipeline.state import MajorResult, Pipeline
from danshari.pipeline.summarize import SummaryContext, flatten_items
from danshari.pipeline.tracker import ConversationTrack
from danshari.planning.laws import check_edit

_FALLBACK_MESSAGES = 10
"""Newest messages that stay where the seed's shape gets no summary from a model (seed 2)."""
SUMMARY_MARGIN = 1.5
"""Free space must be this many times what a summary call needs, or no model is asked (seed 3, S12)."""
MAX_SUMMARY_FAILURES = 3
"""Failed summaries in a row after which the summarizer is left alone."""
_HANDOVER_SHARE = 0.2
"""Characters of a hand-over, mandatory fields aside, over characters of what it replaces (seed 3, S9)."""
_MIN_HANDOVER_CHARS = 2_500
"""Characters a hand-over may take even where a fifth of what it replaces is less, but no more than half of it."""
_MIN_FREED_SHARE = 0.1
"""Share of what leaves that a major compaction must free at least."""
_PROMPT_TOKENS = 1_200
"""Tokens of the prompt around the document."""


def extraction_tables() -> ExtractionTables:
    """Load the marker and phrase tables that hand-over extraction reads."""
    return ExtractionTables(markers=data.load_markers(), languages=data.load_phrases())


@dataclass(slots=True, kw_only=True)
class HandoverDraft:
    """A span of the conversation with the hand-over document that code extracted from it.

    A summarizer may then improve the document. `finish` turns it into a Fold.
    """

    run: Pipeline
    span: HandoverSpan
    why: str
    asked: bool = False
    """Whether the user asked for it: then no detector stands in its way."""
    focus: str = ""
    at_most: int = 0
    """Characters of the hand-over, mandatory fields aside, where its usual limit is too much; 0: the usual one."""
    full: Handover = field(init=False)
    document: Handover = field(init=False)
    wanted: ExtractionOptions = field(init=False)
    rungs: list[Rung] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    track: ConversationTrack = field(init=False)

    def __post_init__(self) -> None:
        """Extract the document from the items, without a model.

        Its size limit in characters is the policy's `handover`, at most a fifth of the text replaced. That fifth
        counts as at least 2,500 characters, or as half of the text replaced if that is less.
        """
        run = self.run
        assert run.state.track is not None
        self.track = run.state.track
        facts, policy, places = self.facts, run.settings.policy, self.span.places
        size = sum(len(facts.items[at].text) for at in places)
        usual = min(policy.handover.size, max(int(_HANDOVER_SHARE * size), min(_MIN_HANDOVER_CHARS, size // 2)))
        self.wanted = ExtractionOptions(
            size=min(usual, self.at_most) if self.at_most else usual,
            language=policy.handover.language,
            visible=self._visible_text(),
            restore=min(policy.handover.restore, int(_HANDOVER_SHARE * size)),
            focus=self.focus,
        )
        live = tuple(
            Point(text=str(text), label=str(label), turn=facts.turn, by="host")
            for label, text in self._read_live_state().items()
            if text
        )
        begun = draft_document(facts, places, extraction_tables(), self.wanted, older=self._previous_document())
        self.full = begun.document.with_field("live", live)
        made = complete_document(facts, places, extraction_tables(), self.wanted, replace(begun, document=self.full))
        self.document = self._mask_document(made) if policy.handover.mask_secrets else made

    def _previous_document(self) -> Handover | None:
        """Return the previous hand-over inside the span, parsed from its text if it is no longer stored."""
        live = self._active_folds()
        if not live:
            return None
        if self.run.state.session.handover is not None:
            return self.run.state.session.handover
        read = parse_handover(live[-1].text, data.load_phrases())
        return replace(read, fields={name: read[name] for name in MODEL_FIELDS}) if read else None

    def _read_live_state(self) -> Mapping[str, str]:
        """Call the host's `reinject` hook and return its texts by label. An error becomes a note."""
        hook = self.run.inputs.reinject
        try:
            return dict(hook() or {}) if hook else {}
        except (TypeError, ValueError, LookupError, AttributeError, RuntimeError, OSError) as error:
            self.notes.append(f"reinject failed: {type(error).__name__}: {error}")
            return {}

    def _active_folds(self) -> list[Fold]:
        """List the Folds in force inside the span."""
        track = self.track
        return [
            f for start, (end, f) in track.effects.folds.items() if self.span.first <= start and end <= self.span.last
        ]

    def _mask_document(self, document: Handover) -> Handover:
        return masking.mask_document(document, (item.text for item in self.facts.items))

    def _visible_text(self) -> str:
        """Join the texts that stay in the view beside the document."""
        track = self.track
        inside = set(self.span.places)
        shown = [
            track.effects.texts[at].text if at in track.effects.texts else item.text
            for at, item in enumerate(track.facts.items)
            if at not in inside and at not in track.effects.gone
        ]
        return "\n".join(shown)

    # ── the ladder ───────────────────────────────────────────────────────────────────────────────────────────

    def summary_context(self, payload: Any) -> SummaryContext:
        """Return everything a summarizer request is built from."""
        run = self.run
        shown = self.track.write_mended(run.source_payload(payload, self.track), run.settings.policy.mend).payload
        wire = self.track.format
        return SummaryContext(
            wire=wire,
            messages=list(wire.messages(shown)),
            payload=payload,
            system=run.inputs.system,
            tools=run.inputs.tools,
            policy=run.settings.policy,
            model=run.settings.model.name,
            hints=wire.hints() if run.state.hints else {},
        )

    def start_ladder(self) -> Generator[SummaryQuestion, Reply, SummaryOutcome]:
        """Start the generator that asks a summarizer step by step, with the steps that are possible now."""
        plan = self._plan_requests()
        ground = self._validation_ground(asks=plan.tries > 0)
        phrases = extraction_tables().languages[self.document.language]
        return summary_ladder(
            self.document, plan, replace(ground, prompt=plan.prompt), lambda d: render_handover(d, phrases)
        )

    def _plan_requests(self) -> SummaryPlan:
        """Choose how a summarizer is asked: warm, by transcripts, how often; or not at all.

        No request is made without a summarizer, or after too many failures in a row unless the user asked.
        """
        run, policy, facts = self.run, self.run.settings.policy, self.facts
        tries = policy.summary.tries if run.inputs.summarizer is not None else 0
        if tries and run.state.session.failures >= MAX_SUMMARY_FAILURES and not self.asked:
            self.rungs.append(
                Rung(name="breaker", ok=False, why=f"{run.state.session.failures} summaries failed in a row")
            )
            tries = 0
        if not tries:
            return SummaryPlan(prompt="", warm=False, transcripts=(), tries=0, turn=facts.turn, retry="")
        return SummaryPlan(
            prompt=self._fill_prompt(),
            warm=self._can_ask_warm(),
            transcripts=self._build_transcripts(),
            tries=tries,
            turn=facts.turn,
            retry=data.load_prompt("retry", self.document.language),
        )

    def _fill_prompt(self) -> str:
        """Fill the hand-over prompt template with the request, language, size limit and focus."""
        policy, language = self.run.settings.policy, self.document.language
        facts, phrases = self.facts, extraction_tables().languages[language]
        mask = masking.mask_secrets if policy.handover.mask_secrets else str
        markers = data.load_markers()
        users = [w for at in facts.users if (w := spoken_text(facts.items[at], markers).strip())]
        holes = {
            "request": mask(users[-1][:4_000]) if users else "—",
            "document": DOCUMENT_MARK,
            "language": phrases.name,
            "limit": str(self._max_summary_chars),
            "focus": f"\n\nFocus: {self.focus}" if self.focus else "",
            "extra": f"\n\n{policy.summary.prompt}" if policy.summary.prompt else "",
        }
        return re.sub(r"\{(\w+)\}", lambda hole: holes.get(hole[1], hole[0]), data.load_prompt("handover", language))

    @property
    def _max_summary_chars(self) -> int:
        """Characters that a summarizer may add: twice the policy's `summary_tokens`."""
        return 2 * self.run.settings.policy.summary.tokens

    def _can_ask_warm(self) -> bool:
        """Return whether the agent's own request can carry the instruction.

        The free tokens of the window must be at least `SUMMARY_MARGIN` times what the instruction and the answer
        need.
        """
        run, facts = self.run, self.facts
        summarizer = run.inputs.summarizer
        if (
            summarizer is None
            or not summarizer.same_model
            or run.settings.policy.summary.request != "warm"
            or facts.pending
        ):
            return False
        need = self._tokens_needed()
        free = run.settings.model.window - run.tokens(self.track)
        if free < SUMMARY_MARGIN * need:
            self.rungs.append(
                Rung(name="margin", ok=False, why=f"{free:,.0f} tokens free, {SUMMARY_MARGIN * need:,.0f} needed")
            )
            return False
        return True

    def _tokens_needed(self) -> float:
        """Estimate the tokens a summary call adds: the document, the prompt around it, and the answer."""
        facts = self.facts
        return float(
            facts.count(render_handover(self.document, extraction_tables().languages[self.document.language]))
        ) + (_PROMPT_TOKENS + self.run.settings.policy.summary.tokens)

    def _build_transcripts(self) -> tuple[str, ...]:
        """Write the items of the span as plain-text parts that fit the summarizer's window with the margin."""
        run, facts = self.run, self.facts
        assert run.inputs.summarizer is not None
        items = [facts.items[at] for at in self.span.places]
        texts = flatten_items(items, masking.mask_secrets if run.settings.policy.handover.mask_secrets else str)
        window = run.inputs.summarizer.window or run.settings.model.window
        room = (window - self._tokens_needed()) / SUMMARY_MARGIN
        made = split_transcript(texts, [facts.count(t) for t in texts], room, run.settings.policy.summary.chunks)
        if not made:
            chunks = run.settings.policy.summary.chunks
            why = f"the conversation does not fit {chunks} requests to a window of {window:,} tokens"
            self.rungs.append(Rung(name="margin", ok=False, why=why))
        return made

    def _validation_ground(self, *, asks: bool) -> CheckContext:
        """Collect what a summarizer's answer is validated against."""
        facts, markers = self.facts, data.load_markers()
        items = facts.items
        words = "\n".join(spoken_text(items[at], markers) for at in facts.users)
        return CheckContext(
            known=collect_names([*(i.text for i in items), *(i.name for i in items)]) if asks else (),
            words=words,
            prompt="",
            language=self.document.language,
            source=sum(len(items[at].text) for at in self.span.places),
            limit=self._max_summary_chars,
            markers=markers,
            languages=data.load_phrases(),
            lines=frozenset(
                line.strip()
                for at in (self.span.places if asks else ())
                for line in items[at].text.split("\n")
                if len(line) >= LONG_LINE
            ),
            mask=masking.mask_secrets if self.run.settings.policy.handover.mask_secrets else str,
        )

    @property
    def facts(self) -> Facts:
        """The analyses of the conversation."""
        return self.track.facts

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────

    def finish(self, outcome: SummaryOutcome) -> MajorResult:
        """Make the Fold from the ladder's outcome, if it frees enough, and report what survived."""
        rungs = (*self.rungs, *outcome.rungs)
        if outcome.by_model or (shorter := self._shorter_draft()) is None:
            return self._build_fold(outcome.document, rungs, by_model=outcome.by_model)
        return shorter._build_fold(shorter.document, rungs, by_model=False)

    def _shorter_draft(self) -> HandoverDraft | None:
        """Return a draft that leaves the newest messages out, for policies of shape `seed` when no model answered.

        Returns None for other policies and if fewer than two items would be left to replace.
        """
        if self.run.settings.policy.handover.shape != "seed":
            return None
        start = newest_messages_start(self.facts, _FALLBACK_MESSAGES)
        if start - self.span.first < 2:
            return None
        span = replace(self.span, last=start - 1, keep=tuple(at for at in self.span.keep if at < start))
        return HandoverDraft(run=self.run, span=span, why=self.why, asked=self.asked, focus=self.focus)

    def smaller_draft(self) -> HandoverDraft:
        """Return a draft whose hand-over takes a third of what is shown of its span.

        Gentler passes may have shortened that span to less than a hand-over of the usual size.
        """
        shown = self.track.effects.texts
        size = sum(len(shown[at].text if at in shown else self.facts.items[at].text) for at in self.span.places)
        return replace(self, at_most=max(size // 3, 1), rungs=[], notes=[])

    def why_futile(self, document: Handover) -> str:
        """Return why a Fold with this document would free too little, empty if it frees enough.

        It must free the policy's margin, and at least a tenth, of the tokens it replaces.
        """
        before = sum(self.track.sizes[at] for at in self.span.places) + sum(
            self.facts.count(f.text) for f in self._active_folds()
        )
        after = self.facts.count(self._render_text(document))
        if after <= (1 - max(self.run.settings.policy.elide.margin, _MIN_FREED_SHARE)) * before:
            return ""
        return f"no major compaction: it would free {max(before - after, 0):,.0f} of {before:,.0f} tokens only"

    def _render_text(self, document: Handover) -> str:
        return replace_surrogates(render_handover(document, extraction_tables().languages[document.language]))

    def _build_fold(self, document: Handover, rungs: tuple[Rung, ...], *, by_model: bool) -> MajorResult:
        """Make the Fold and the survival report.

        Without edits if the Fold would free too little or a law refuses it. A document longer than its limit is
        shrunk.
        """
        run, facts, span = self.run, self.facts, self.span
        asked = any(r.is_model_call for r in rungs)
        major = MajorResult(
            rungs=rungs, asked=asked, by_model=by_model, units=self.cost_in_base_tokens(rungs), notes=list(self.notes)
        )
        phrases = extraction_tables().languages[document.language]
        most = len(self._render_text(self.document)) if self.document else 0
        document = shrink_document(document, max(most, self.wanted.size + mandatory_size(document)), phrases)
        if why := self.why_futile(document):
            major.notes.append(why)
            return major
        text = self._render_text(document)
        fold = make_fold(facts, span, text, why=self.why, policy=run.settings.policy)
        if broken := check_edit(fold, facts, run.settings.policy):
            major.notes.append(f"no major compaction: {broken.law}: {broken.why}")
            return major
        major.edits, major.document = [fold], document
        leaving = {facts.items[at].id for at in span.places}
        major.survived = measure_survival(self.full, f"{text}\n{self.wanted.visible}", leaving.__contains__)
        return major

    def cost_in_base_tokens(self, rungs: Sequence[Rung]) -> float:
        """Return what the summarizer's answers cost, in units (base input tokens of the agent's model).

        Per answer: uncached input tokens times the cache-write price, plus cached tokens times the cache-read
        price, plus output tokens times the output price, all relative to the base price. If the summarizer has
        its own price in dollars per million tokens, the sum is multiplied by that price over the agent's base
        price.
        """
        prices, summarizer = self.run.settings.model.prices, self.run.inputs.summarizer
        rate = (summarizer.price / prices.base) if summarizer and summarizer.price and prices.base else 1.0
        return rate * sum(
            (r.read - r.cached) * prices.write + r.cached * prices.read + r.written * prices.output for r in rungs
        )
