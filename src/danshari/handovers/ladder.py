"""The pass that may ask a model: a generator of questions, tried in a fixed order (the ladder).

The document extracted by code goes in, and a model may change fields of it. Errors are thrown into
the generator. If every question fails, the result is the document as it was, so no recovery needs
another answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from danshari.core.handover import Handover, apply_delta
from danshari.core.summary import Reply
from danshari.errors import ModelError
from danshari.handovers.validate import CheckContext, check_answer

DOCUMENT_MARK = "\0document\0"
"""Stands in a prompt where the document so far goes."""
AskMode = Literal["warm", "flat"]
DocumentRenderer = Callable[[Handover], str]
"""Writes the document for a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryQuestion:
    """One question to a summarizer."""

    how: AskMode
    """warm: the agent's own request with the instruction last; flat: the transcript as plain text."""
    instruction: str
    transcript: str = ""
    part: tuple[int, int] = (1, 1)
    """Which piece of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One step of the ladder and how it ended."""

    name: str
    """warm, flat, margin, breaker, code."""
    ok: bool
    why: str = ""
    repaired: tuple[str, ...] = ()
    read: int = 0
    """Input tokens the summarizer reported."""
    cached: int = 0
    written: int = 0

    @property
    def is_model_call(self) -> bool:
        """Whether a summarizer was called in this step."""
        return self.name.startswith(("warm", "flat"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryPlan:
    """How a summarizer is to be asked."""

    prompt: str
    """With {document} still open."""
    warm: bool
    transcripts: tuple[str, ...]
    """Pieces of the flattened conversation; empty where it must not be sent flat."""
    tries: int
    turn: int
    retry: str
    """Sentence that goes before the instruction of a second try, with {why} open."""


@dataclass(slots=True, kw_only=True)
class SummaryOutcome:
    """The resulting document, the steps taken, and whether a model contributed."""

    document: Handover
    rungs: list[Rung] = field(default_factory=list)
    by_model: bool = False


def summary_ladder(
    document: Handover, plan: SummaryPlan, ground: CheckContext, render: DocumentRenderer
) -> Generator[SummaryQuestion, Reply, SummaryOutcome]:
    """Run the ladder: ask warm, then flat (in pieces), then use the document as code wrote it.

    Yields questions, receives replies (or a ModelError thrown in), and returns the outcome.
    """
    outcome = SummaryOutcome(document=document)
    left = plan.tries
    why = ""
    if plan.warm and left:
        left -= 1
        ask = SummaryQuestion(how="warm", instruction=_instruction(plan, render(document), why))
        patched_one, why = yield from _ask_once(document, ask, plan, ground, outcome)
        if patched_one is not None:
            outcome.document, outcome.by_model = patched_one, True
            return outcome
    while left and plan.transcripts:
        left -= 1
        patched_all, why = yield from _ask_in_pieces(document, plan, ground, outcome, render, why)
        if patched_all is not None:
            outcome.document, outcome.by_model = patched_all, True
            return outcome
    outcome.rungs.append(Rung(name="code", ok=True, why=why or "no answer was asked for"))
    return outcome


def _instruction(plan: SummaryPlan, document: str, why: str) -> str:
    """Return the prompt with the document filled in, after the reason for the retry if there is one."""
    text = plan.prompt.replace(DOCUMENT_MARK, document)
    return f"{plan.retry.replace('{why}', why)}\n\n{text}" if why and plan.retry else text


def _ask_in_pieces(
    document: Handover,
    plan: SummaryPlan,
    ground: CheckContext,
    outcome: SummaryOutcome,
    render: DocumentRenderer,
    why: str,
) -> Generator[SummaryQuestion, Reply, tuple[Handover | None, str]]:
    """Ask piece by piece, each with the document so far; the first piece that fails ends the try."""
    made = document
    for number, transcript in enumerate(plan.transcripts, 1):
        instruction = _instruction(plan, render(made), why)
        ask = SummaryQuestion(
            how="flat", instruction=instruction, transcript=transcript, part=(number, len(plan.transcripts))
        )
        answer, why = yield from _ask_once(made, ask, plan, ground, outcome)
        if answer is None:
            return None, why
        made = answer
    return made, ""


def _ask_once(
    document: Handover, ask: SummaryQuestion, plan: SummaryPlan, ground: CheckContext, outcome: SummaryOutcome
) -> Generator[SummaryQuestion, Reply, tuple[Handover | None, str]]:
    """Ask one question, check the answer and record the step; return (document or None, reason for failure)."""
    name = ask.how if ask.part[1] == 1 else f"{ask.how} {ask.part[0]}/{ask.part[1]}"
    try:
        reply = yield ask
    except ModelError as error:
        outcome.rungs.append(Rung(name=name, ok=False, why=str(error)[:200]))
        return None, str(error)[:200]
    verdict = check_answer(reply, ground)
    outcome.rungs.append(
        Rung(
            name=name,
            ok=not verdict.refused,
            why=verdict.refused,
            repaired=tuple(dict.fromkeys(verdict.repaired)),
            read=reply.read,
            cached=reply.cached,
            written=reply.written,
        )
    )
    if verdict.refused:
        return None, verdict.refused
    return apply_delta(document, verdict.delta, turn=plan.turn), ""


def split_transcript(texts: Sequence[str], sizes: Sequence[float], room: float, most: int) -> tuple[str, ...]:
    """Join item texts into at most `most` pieces of up to `room` tokens each.

    A text larger than a piece is cut at line ends. Returns an empty tuple if the pieces are not enough.
    """
    if room <= 0:
        return ()
    made: list[list[str]] = [[]]
    left = room
    for text, size in zip(texts, sizes, strict=True):
        for part, part_size in _split_text(text, size, room):
            if part_size > left and made[-1]:
                made.append([])
                left = room
            made[-1].append(part)
            left -= part_size
    if len(made) > most:
        return ()
    return tuple("\n\n".join(group) for group in made if group)


def _split_text(text: str, size: float, room: float) -> list[tuple[str, float]]:
    """Cut a text into parts of about 80 % of `room` tokens, at line ends if possible; each with its tokens."""
    if size <= room:
        return [(text, size)]
    count = int(size / (0.8 * room)) + 1
    step = len(text) // count + 1
    parts, start = [], 0
    while start < len(text):
        end = min(start + step, len(text))
        border = text.rfind("\n", start + step // 2, end) if end < len(text) else -1
        end = border + 1 if border > start else end
        parts.append((text[start:end], size * (end - start) / len(text)))
        start = end
    return parts
