"""The trail of a conversation: what was said and found in it, digested, by which requests are assigned to branches.

A conversation is a list of stretches: what the model was given, and what it answered. Answers, calls and results
never change, while clients add, move and rewrite reminders, date lines and cache marks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from danshari import data
from danshari.core.items import Piece, hash_strings
from danshari.core.text import lazy_pattern
from danshari.formats import Format

MAX_COMPARED_LINES = 64
"""Lines of a text that are compared one by one; the digest of the text covers the rest."""
MIN_TELLING_CHARS = 40
"""Characters from which an answer without a call is hardly given twice."""
MIN_RUN = 2
"""Answers in a row by which a conversation that lost its beginning is known."""
_RANDOM_ID = lazy_pattern(r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]*\d)(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{9,}\Z")
"""How the ids of calls end that a provider draws at random; others are given again by other runs."""
_DATE = lazy_pattern(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}"
    r"|\b\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?\b"
    r"|(?:\b(?:Mon|Tue|Wednes|Thurs|Fri|Satur|Sun)(?:day)?,? )?\b(?:\d{1,2} )?"
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? \d{1,4}(?:, \d{4})?\b",
    re.IGNORECASE,
)


class Stretch(NamedTuple):
    """What the model was given at once, and what it answered. All but `end` and `telling` are digests."""

    words: str = ""
    """The user's texts and media, exactly, without reminders."""
    lines: frozenset[str] = frozenset()
    """Their lines, with dates masked."""
    system: frozenset[str] = frozenset()
    """Lines of system texts, with dates masked."""
    results: str = ""
    said: str = ""
    """The answer's texts and calls, without ids and spaces; "" as long as there is none."""
    calls: str = ""
    """The ids of its calls."""
    telling: bool = False
    """Whether the answer is hardly given twice: it has a call with a random id, or is long."""
    end: int = 0
    """Messages up to and including the answer."""

    @property
    def spoken(self) -> tuple[str, str]:
        """The answer with the ids of its calls."""
        return self.said, self.calls


Trail = Sequence[Stretch]


class Shared(NamedTuple):
    """What a request has in common with a branch."""

    stretches: int = 0
    """Answered stretches at the beginning of both."""
    continues: bool = False
    """Whether the request is the branch's next one, or its last once more."""


def read_trail(wire: Format, messages: Sequence[Any], known: Trail = ()) -> list[Stretch]:
    """Return the trail of a conversation; the last stretch may be without an answer.

    `known` are stretches of an earlier request that ended before the first message that changed.
    """
    trail = list(known)
    at = trail[-1].end if trail else 0
    given: list[Piece] = []
    answer: list[Piece] = []
    for index in range(at, len(messages)):
        for piece in wire.split(messages[index]):
            if piece.role == "assistant":
                answer.append(piece)
            elif answer:
                trail.append(_make_stretch(given, answer, index))
                given, answer = [piece], []
            else:
                given.append(piece)
    if given or answer:
        trail.append(_make_stretch(given, answer, len(messages)))
    return trail


def answer_digest(pieces: Sequence[Piece]) -> str:
    """Return the digest of an answer: its texts without spaces, its calls without ids; "" if it says nothing."""
    texts = "".join("".join(piece.text.split()) for piece in pieces if piece.kind == "text")
    calls = [
        f"{piece.name}{piece.text if piece.body is None else piece.body}" for piece in pieces if piece.kind == "call"
    ]
    return hash_strings(texts, *calls)[:16] if texts or calls else ""


def _make_stretch(given: Sequence[Piece], answer: Sequence[Piece], end: int) -> Stretch:
    """Digest what was given and answered."""
    words, lines, system, results = [], list[str](), list[str](), list[str]()
    for piece in given:
        if piece.kind == "result":
            results.append(f"{piece.failed}{_content(piece)}")
        elif piece.kind == "text" and piece.role == "system":
            system += masked_lines(piece.text)
        elif piece.kind == "text":
            if own := data.load_markers().human_text(piece.text).strip():
                words.append(own)
                lines += masked_lines(own)
        else:
            words.append(_content(piece))
            lines.append(hash_strings(_content(piece))[:8])
    ids = [piece.call for piece in answer if piece.kind == "call"]
    size = sum(len(piece.text) for piece in answer if piece.kind == "text")
    return Stretch(
        words=_digest(words), lines=frozenset(lines), system=frozenset(system), results=_digest(results),
        said=answer_digest(answer) or ("-" if answer else ""), calls=_digest(ids), end=end,
        telling=any(map(_RANDOM_ID.search, ids)) or size >= MIN_TELLING_CHARS,
    )  # fmt: skip


def _content(piece: Piece) -> str:
    return f"{piece.kind}:{piece.text if piece.body is None else piece.body}"


def _digest(parts: Sequence[str]) -> str:
    return hash_strings(*parts)[:16] if parts else ""


def masked_lines(text: str) -> list[str]:
    """Return digests of the first lines of a text, with dates and times masked."""
    lines = [line.strip() for line in text[: MAX_COMPARED_LINES * 200].split("\n")[:MAX_COMPARED_LINES]]
    return [hash_strings(_DATE.sub("#", line) if any(map(str.isdigit, line)) else line)[:8] for line in lines if line]


def compare(held: Trail, new: Trail) -> Shared:
    """Return how much of a branch's trail a request shares, and whether it continues the branch.

    It does if every answer of the branch stands in it, with the same results, and the user's words are the same but
    for reminders and dates. What was asked last must stand in it unchanged.
    """
    same = 0
    for old, fresh in zip(held, new, strict=False):
        if not old.said or not (old is fresh or (old.spoken == fresh.spoken and _same_given(old, fresh))):
            break
        same += 1
    if same == len(held):
        return Shared(same, continues=bool(held))
    last = held[same]
    if same < len(held) - 1 or last.said or same >= len(new):
        return Shared(same)
    return Shared(same, continues=last is new[same] or _same_question(last, new[same]))


def begins_alike(one: Trail, other: Trail) -> bool:
    """Return whether the first requests of two conversations may have been the same."""
    return bool(one and other and other[0].said) and _same_question(one[0], other[0])


def _same_given(old: Stretch, new: Stretch) -> bool:
    """Return whether two stretches with the same answer were given the same, but for reminders and dates."""
    if old.results != new.results:
        return False
    if old.words == new.words:
        return old.system == new.system or (bool(old.words or old.results) and _overlap(old.system, new.system))
    return old.telling and _overlap(old.lines, new.lines)


def _same_question(old: Stretch, new: Stretch) -> bool:
    """Return whether what was asked last is what a request holds in its place."""
    if old.results != new.results:
        return False
    if old.words == new.words:
        return old.system == new.system or (bool(old.words or old.results) and _overlap(old.system, new.system))
    return bool(old.results) and (old.lines <= new.lines or new.lines <= old.lines)


def _overlap(old: frozenset[str], new: frozenset[str]) -> bool:
    """Return whether one holds the other, or at least half of the larger is in both."""
    return old <= new or new <= old or 2 * len(old & new) >= max(len(old), len(new))


def longest_run(held: Trail, new: Trail) -> tuple[int, int, int]:
    """Return the length of the longest run of answered stretches that both have, and where it ends in each."""
    places = {(*stretch.spoken, stretch.results): n for n, stretch in enumerate(held) if stretch.said}
    best, run, before = (0, 0, 0), 0, -2
    for n, stretch in enumerate(new, 1):
        at = places.get((*stretch.spoken, stretch.results), -2) if stretch.said else -2
        run = run + 1 if at == before + 1 and run else int(at >= 0)
        before = at
        best = max(best, (run, at + 1, n)) if run else best
    return best


def continues_cut(held: Trail, new: Trail) -> bool:
    """Return whether a request continues a branch whose beginning the client has cut off since."""
    run, end, place = longest_run(held, new)
    cut = run < end and run >= MIN_RUN and any(stretch.telling for stretch in held[end - run : end])
    return cut and end == len(held) - 1 and place < len(new) and _same_question(held[end], new[place])


def find_stretch(trail: Trail, message: int) -> Stretch:
    """Return the stretch that holds a message, by its index; an empty one if none does."""
    return next((stretch for stretch in trail if message < stretch.end), Stretch())


def question_mark(trail: Trail) -> str:
    """Return the digest of what a conversation began with: the first words, whatever stands around them."""
    first = trail[0] if trail else Stretch()
    return hash_strings("begin", *sorted(first.lines))[:16]


def prefix_digest(trail: Trail) -> str:
    """Return a digest of a whole trail."""
    return hash_strings(*(part for s in trail for part in (s.words, s.results, *s.spoken)))[:16]


def pack_trail(trail: Trail) -> list[Any]:
    """Return a trail as plain JSON values."""
    return [[*s._replace(lines=sorted(s.lines), system=sorted(s.system))] for s in trail]  # type: ignore[arg-type]


def unpack_trail(stored: Sequence[Sequence[Any]]) -> list[Stretch]:
    """Read what `pack_trail` returned."""
    rows = [Stretch(*row) for row in stored]
    return [row._replace(lines=frozenset(row.lines), system=frozenset(row.system)) for row in rows]
