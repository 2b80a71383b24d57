"""Each trick that would cheat the measure, and the guard that catches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from danshari_bench.compactions import METHODS, CompactionRecord, RecordScorer
from danshari_bench.comparison.contenders import OFF_CONTENDER

from danshari.replay.atoms import AtomExtractor
from danshari.replay.prompt_cache import PRICE_VECTORS
from danshari.replay.references import SessionNeeds, find_needs
from danshari.replay.score import Tally, ViewScorer
from danshari.replay.simulate import Contender, PlayResult, play_session
from danshari.sessions import RecordedSession
from danshari.testing import Call, Turn, conversation

SOURCE = "def ledger_total(entries, opening_balance):\n    return fold_entries(entries, opening_balance)\n"


def needs(*, edit_after: int = 6) -> SessionNeeds:
    """A session that reads a file, does other things for some rounds, then edits what it read."""
    read = Call(name="Read", arguments={"file_path": "src/ledger.py"}, result=SOURCE * 4)
    idle = [
        Turn(calls=(Call(name="Bash", arguments={"command": f"tail out_{n}.log"}, result=f"see out_{n + 1}.log next"),))
        for n in range(edit_after)
    ]
    edit = Call(name="Edit", arguments={"file_path": "src/ledger.py", "new_string": "return 0",
                                        "old_string": "    return fold_entries(entries, opening_balance)"})  # fmt: skip
    turns = [Turn(calls=(read,)), *idle, Turn(calls=(edit,)), Turn(text="Done.")]
    request = "Mend the rounding. You must never touch the public API."
    messages = conversation("openai-chat", request, turns, system="You must answer in English.")
    return find_needs(RecordedSession(id="s", source="t", format="openai-chat", messages=messages, model="gpt-5"))


def run(made: SessionNeeds, change: Callable[[list[Any]], Sequence[Any]], **more: Any) -> tuple[Tally, PlayResult]:
    contender = Contender(name="trick", about="", start=lambda _: change)
    scorer = ViewScorer(made, **more)
    return scorer.score.tally, play_session(made, contender, prices=PRICE_VECTORS[".10"], scorer=scorer)


def results(change: Callable[[str, int, int], str]) -> Callable[[list[Any]], list[Any]]:
    """Rewrite every result: (text, its place, number of messages) → text."""

    def compact(messages: list[Any]) -> list[Any]:
        return [
            {**m, "content": change(m["content"], at, len(messages))} if m["role"] == "tool" else m
            for at, m in enumerate(messages)
        ]

    return compact


def share(tally: Tally, name: str) -> float:
    kept, n = tally[name]
    assert n > 0
    return kept / n


def stir(messages: list[Any], layout: str) -> list[Any]:
    """Replace everything that was seen by its atoms, in one text: spaced, one a line, or in pairs."""
    atoms = AtomExtractor()
    found = sorted({a for m in messages for line in str(m.get("content")).split("\n") for a in atoms(line)})
    words = [*found, *(f"filler_name_{n}" for n in range(8))]
    lines = [" ".join(words[n : n + 2]) for n in range(0, len(words), 2)] if layout == "pairs" else words
    text = (" " if layout == "spaced" else "\n").join(lines)
    return [{"role": "system", "content": "x"}, {"role": "user", "content": text}]


@pytest.mark.parametrize("layout", ["spaced", "lines", "pairs"])
def test_soup_is_bare(layout: str) -> None:
    """Identifier soup shows every atom and supports none of them, however it is laid out."""
    tally, _ = run(needs(), lambda messages: stir(messages, layout))
    assert share(tally, "sar") == 0
    assert share(tally, "bare") > 0.5
    whole, _ = run(needs(), lambda messages: messages)
    assert share(whole, "sar") == 1


def test_soup_loses_to_lines_of_the_same_size() -> None:
    """In the head-to-head with real compactions as well."""
    made = needs()
    messages = conversation(
        "anthropic",
        "Mend it.",
        [
            Turn(calls=(Call(name="Read", arguments={"file_path": "src/ledger.py"}, result=SOURCE),)),
            Turn(calls=(Call(name="Grep", arguments={"pattern": "fold_entries"}, result="src/ledger.py:2"),)),
        ],
    )
    record = CompactionRecord(id="r", before=messages[:3], summary="x" * 300, after=messages[3:])
    judge = RecordScorer(record)
    soup, lines = (judge.score(name, METHODS[name]) for name in ("soup", "newest-lines"))
    assert lines.all[0] > soup.all[0]
    assert soup.bare > 0
    assert made.reference_atoms


def test_recency_alone_does_not_show() -> None:
    """Keeping only the newest results is perfect on recent references and fails the headline."""
    newest = results(lambda text, at, n: text if at > n - 3 else "[cleared]")
    tally, _ = run(needs(), newest)
    assert share(tally, "hot") == 1
    assert share(tally, "sar") == 0
    assert share(tally, "edits") == 0


def test_hallucinated_atoms_count_against_precision() -> None:
    invent = results(lambda text, at, n: text.replace("fold_entries", "reduce_ledger_rows"))
    tally, _ = run(needs(), invent)
    assert tally["invented"][0] >= 1
    honest, _ = run(needs(), results(lambda text, at, n: text[:90].rpartition("\n")[0] or text))
    assert honest.get("invented", [0, 0])[0] == 0


def test_stale_snippets_are_seen() -> None:
    """A shortened read of a file that was written since, without saying so; a mark in it, and it is honest."""
    read = Call(name="Read", arguments={"file_path": "src/ledger.py"}, result=SOURCE * 6)
    write = Call(name="Write", arguments={"file_path": "src/ledger.py", "content": "pass\n"}, result="written")
    late = [Turn(calls=(Call(name="Bash", arguments={"command": "make"}, result="ok"),)) for _ in range(3)]
    messages = conversation("openai-chat", "Go.", [Turn(calls=(read,)), Turn(calls=(write,)), *late, Turn(text="x")])
    made = find_needs(RecordedSession(id="s", source="t", format="openai-chat", messages=messages, model="gpt-5"))

    def shorten(note: str) -> Callable[[list[Any]], list[Any]]:
        return results(lambda text, at, n: note + text[:93] if n > 6 and len(text) > 200 else text)

    silent, _ = run(made, shorten(""))
    assert silent["stale"][0] > 0
    marked, _ = run(made, shorten("[older version]\n"))
    assert marked["stale"][0] == 0


def test_a_broken_cache_shows_in_dollars() -> None:
    """Fewer tokens with every prefix rewritten: the hit rate and the dollars stand in the same row."""
    made = needs(edit_after=30)
    rounds = iter(range(1000))

    def churn(messages: list[Any]) -> list[Any]:
        mark = f"#{next(rounds)} "
        return [{**m, "content": mark + m["content"][:40]} if m["role"] == "tool" else m for m in messages]

    _, played = run(made, churn)
    off = play_session(made, OFF_CONTENDER, prices=PRICE_VECTORS[".10"], scorer=ViewScorer(made))
    prices = PRICE_VECTORS[".10"]
    assert sum(s.tokens for s in played.sent) < sum(s.tokens for s in off.sent)
    free = type(prices)(read=0.1, write=1.25, minimum=0)
    assert played.cost(free) > 1.5 * off.cost(free)
    assert sum(s.cached for s in played.sent) < 0.5 * sum(s.cached for s in off.sent)


@pytest.mark.parametrize("drop", ["user", "system"])
def test_dropped_rules_are_seen(drop: str) -> None:
    """User words and imperatives of the system prompt must stand in every view."""

    def without(messages: list[Any]) -> list[Any]:
        return [m for m in messages if m["role"] != drop] or messages

    tally, _ = run(needs(), without)
    assert share(tally, "rule_views") == 0
    assert share(tally, "rules") < 1


def test_a_giant_store_is_never_added_up() -> None:
    """What a blind search could find is counted on its own rung, never as supported, and charged for."""
    newest = results(lambda text, at, n: text if at > n - 3 else "[cleared]")
    tally, played = run(needs(), newest, ladder=True)
    assert share(tally, "sar") == 0
    rungs = [tally[name][0] for name in ("pointer", "retrieved", "lost")]
    assert sum(rungs) == tally["pointer"][1] > 0
    assert played.score is not None
    assert sum(tokens for _, tokens in played.score.faults.values()) > 0


def test_the_ladder_asks_whether_the_pointer_still_holds() -> None:
    """A named source is a pointer only while the file was not written since."""
    newest = results(lambda text, at, n: text if at > n - 3 else "[cleared]")
    kept, _ = run(needs(), newest, ladder=True)
    assert kept["pointer"][0] > 0
    read = Call(name="Read", arguments={"file_path": "src/ledger.py"}, result=SOURCE * 4)
    write = Call(name="Write", arguments={"file_path": "src/ledger.py", "content": "pass"}, result="written")
    idle = [Turn(calls=(Call(name="Bash", arguments={"command": f"make s{n}"}, result="ok"),)) for n in range(6)]
    use = Call(name="Grep", arguments={"pattern": "fold_entries"})
    messages = conversation(
        "openai-chat", "Go.", [Turn(calls=(read,)), Turn(calls=(write,)), *idle, Turn(calls=(use,)), Turn(text="x")]
    )
    made = find_needs(RecordedSession(id="s", source="t", format="openai-chat", messages=messages, model="gpt-5"))
    gone, _ = run(made, newest, ladder=True)
    assert gone["pointer"][0] == 0
