"""Laws of what is written in place of long texts: verbatim lines, true numbers, honest "unchanged", only the past."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from danshari import Compactor
from danshari.analysis.first_seen import split_identifier, strip_line_number
from danshari.analysis.phases import PHASES
from danshari.core.edits import Effects, Replace
from danshari.shorten.line_scorer import (
    SCORER_FEATURES,
    feature_bucket_counts,
    feature_columns,
    make_line_context,
    weight_family,
)
from danshari.shorten.text import choose_kept_lines, smooth_odds
from danshari.shorten.text_kind import TEXT_SHAPES
from danshari.testing import Call, Turn, conversation
from tests.support.material.ledger import POLICY, facts_of
from tests.support.strategies import FORMATS, SHAPES, body

_MARKED = re.compile(r"\s*(\d+)(?:\| |→|\t)(.*)\Z", re.DOTALL)


texts = st.builds(body, st.sampled_from(SHAPES), st.sampled_from((900, 2600, 5000, 14000, 40000)), st.integers(0, 6))


calls = st.sampled_from((
    ("Read", {"file_path": "src/app.py"}), ("Bash", {"command": "make"}), ("Grep", {"pattern": "ledger"}),
    ("Glob", {"pattern": "**"}), ("frobnicate", {"x": 1}), ("Bash", {"command": "pytest -q"}),
))  # fmt: skip


@given(texts, calls, st.integers(200, 9000), st.sampled_from((1, 3, 10)))
def test_kept_lines_are_the_sources_own_under_their_own_numbers(text: str, call: object, room: int, every: int) -> None:
    name, arguments = call  # type: ignore[misc]
    messages = conversation(
        "openai-chat", "Fix ledger_total.", [Turn(calls=(Call(name=name, arguments=arguments, result=text),))]
    )
    facts = facts_of(messages)
    at = len(facts.items) - 1
    lines = facts.clean_text(at).split("\n")
    numbers = choose_kept_lines(facts, at, lines, room)
    assert numbers == sorted(set(numbers))
    assert all(lines[n].strip() or 0 < n < len(lines) - 1 for n in numbers)
    assert facts.weights
    kept = sum(len(lines[n]) for n in numbers)
    assert len(numbers) <= 3 or kept <= 1.6 * room + 1200, "gaps closed and enclosing definitions on top, no more"
    from danshari.core.placeholder import render_kept_lines

    written = render_kept_lines(
        facts.items[at], numbers, [lines[n] for n in numbers], total=len(lines), every=every
    ).split("\n")[1:]
    assert len(written) == len(numbers)
    for n, shown in zip(numbers, written, strict=True):
        assert strip_line_number(shown) == strip_line_number(lines[n]) or shown == lines[n]
        marked = _MARKED.match(shown)
        assert not marked or shown == lines[n] or int(marked.group(1)) == n + 1
    assert choose_kept_lines(facts, at, lines, room) == numbers


@given(texts, calls)
def test_every_feature_sorts_every_line_into_one_of_its_buckets(text: str, call: object) -> None:
    name, arguments = call  # type: ignore[misc]
    facts = facts_of(
        conversation("openai-chat", "go", [Turn(calls=(Call(name=name, arguments=arguments, result=text),))])
    )
    at = len(facts.items) - 1
    read = make_line_context(facts, at, text.split("\n"))
    assert read.shape in TEXT_SHAPES
    found = feature_columns(read)
    assert set(found) == set(feature_bucket_counts()[weight_family(read)])
    buckets = {f.name: len(f.buckets) for f in SCORER_FEATURES}
    for feature, column in found.items():
        assert len(column) == len(read.lines)
        assert all(0 <= bucket < buckets[feature] for bucket in column), feature


@given(st.lists(st.floats(-8, 3), min_size=1, max_size=60), st.integers(1, 12))
def test_sharing_chances_keeps_their_range_and_a_flat_line_flat(odds: list[float], radius: int) -> None:
    found = smooth_odds(odds, radius)
    assert len(found) == len(odds)
    assert min(odds) - 1e-6 <= min(found) <= max(found) <= max(odds) + 1e-6
    assert all(abs(v - 2.5) < 1e-9 for v in smooth_odds([2.5] * len(odds), radius))


versions = st.lists(
    st.tuples(st.integers(0, 59), st.sampled_from(("edit", "insert", "delete", "same")), st.integers(0, 999)),
    min_size=1,
    max_size=6,
)


@given(versions, st.sampled_from(FORMATS), st.booleans())
def test_what_a_second_read_leaves_out_stands_in_an_earlier_item_of_the_view(
    changes: list[object], wire: str, numbered: bool
) -> None:
    lines = [f"    step_{n} = ledger.total({n * 7}, 'entry {n}')" for n in range(60)]
    turns, files = [], []
    for place, what, salt in changes:  # type: ignore[misc]
        place %= len(lines)
        if what == "edit":
            lines[place] = f"    changed_{salt} = {place}"
        elif what == "insert":
            lines.insert(place, f"    inserted_{salt} = {place}")
        elif what == "delete" and len(lines) > 30:
            del lines[place]
        shown = [f"{n + 1:6}→{line}" for n, line in enumerate(lines)] if numbered else list(lines)
        files.append(list(lines))
        turns.append(Turn(calls=(Call(name="Read", arguments={"file_path": "a.py"}, result="\n".join(shown)),)))
    batch = [Turn(calls=tuple(call for turn in turns for call in turn.calls))]
    live = Compactor("balanced", format=wire)
    for cut in range(1, len(turns) + 1):
        live.compact(conversation(wire, "go", turns[:cut]))
    for engine, messages in (
        (live, None), (Compactor("balanced", format=wire), conversation(wire, "go", turns)),
        (Compactor("balanced", format=wire), conversation(wire, "go", batch)),
    ):  # fmt: skip
        if messages is not None:
            engine.compact(messages)
        _nothing_is_hidden(engine.view(), files, numbered)


def _nothing_is_hidden(view: Any, files: list[list[str]], numbered: bool) -> None:
    """Every line of a read stands in its own shown text, or in one of an earlier read, with all lines around it."""
    results = [at for at, item in enumerate(view.items) if item.kind == "result"]
    in_sight: set[str] = set()
    for file, at in zip(files, results, strict=True):
        edit = view.effects.texts.get(at)
        text = edit.text if edit else view.items[at].text
        pattern = re.compile(r"\s*\d+→") if numbered else re.compile(r"\d+\| ")
        here = (
            {pattern.sub("", line, count=1) for line in text.split("\n")} if edit or numbered else set(text.split("\n"))
        )
        read_again = edit is not None and edit.reason == "shown above"
        assert not read_again or "unchanged since" in text.split("\n")[0]
        assert set(file) <= in_sight | here
        in_sight |= here


numbers = st.lists(st.integers(100, 130), min_size=30, max_size=60)


@given(numbers, numbers, st.lists(st.integers(131, 140), min_size=1, max_size=6), st.integers(0, 60))
def test_numbers_that_belong_to_a_file_are_content(one: list[int], other: list[int], new: list[int], at: int) -> None:
    _, shown = _second_read(one, other)
    assert [n for n in set(other) - set(one) if f"{n}: 'meaning of it'," not in shown] == []
    edited, shown = _second_read(one, [*one[:at], *new, *one[at:]])
    assume(edited)
    assert [n for n in new if f"{n}: 'meaning of it'," not in shown] == []


def _second_read(*versions: list[int]) -> tuple[bool, str]:
    """Read a file of numbered lines in two versions; tell whether the second is edited, and how it is shown."""
    texts = ["\n".join(f"{n}: 'meaning of it'," for n in numbers) for numbers in versions]
    turns = [Turn(calls=(Call(name="Read", arguments={"file_path": "codes.py"}, result=text),)) for text in texts]
    engine = Compactor("balanced")
    engine.compact(conversation("openai-chat", "go", turns[:1]))
    result = engine.compact(conversation("openai-chat", "go", turns))
    return bool(result.edits), str(result.messages[-1]["content"])


@given(st.integers(8_000, 60_000), st.integers(2, 4))
def test_parallel_reads_of_one_long_file_hide_nothing_twice(size: int, count: int) -> None:
    lines = [f"def step_{n}(ledger): return ledger.total({n})" for n in range(size // 45)]
    call = Call(name="Read", arguments={"file_path": "a.py"}, result="\n".join(lines))
    engine = Compactor("balanced")
    engine.compact(conversation("openai-chat", "go", [Turn(calls=(call,) * count)]))
    view = engine.view()
    results = [at for at, item in enumerate(view.items) if item.kind == "result"]
    first = view.effects.texts.get(results[0])
    kept = set(lines) if first is None else {line.split("| ", 1)[-1] for line in first.text.split("\n")}
    second = view.effects.texts.get(results[1])
    assert second is not None
    assert second.reason == "shown above"
    claims = int(re.search(r"(\d+) lines are unchanged", second.why)[1])  # type: ignore[index]
    assert claims <= len(kept & set(lines)) + 2
    here = [line.split("| ", 1)[-1] for line in second.text.split("\n")[1:]]
    assert set(here) <= set(lines), "verbatim lines only"


@given(st.lists(st.tuples(calls, texts), min_size=2, max_size=5))
def test_admission_knows_only_the_item_and_what_came_before(parts: list[object]) -> None:
    turns = [Turn(calls=(Call(name=n, arguments=a, result=t),)) for (n, a), t in parts]  # type: ignore[misc]
    whole = conversation("openai-chat", "Fix ledger_total.", turns)
    live = Compactor("balanced")
    first: dict[str, str] = {}
    for cut in range(1, len(turns) + 1):
        done = live.compact(conversation("openai-chat", "Fix ledger_total.", turns[:cut]))
        first.update({e.id: e.text for e in done.edits if isinstance(e, Replace) and e.by == "admit"})
    from danshari.passes.admit import admit

    facts = facts_of(whole)
    effects = Effects()
    late: dict[str, str] = {}
    for at in range(len(facts.items)):
        if edit := admit(facts, effects, POLICY, at):
            effects.texts[at] = edit
            late[edit.id] = edit.text
    assert {k: late[k] for k in first if k in late} == {k: first[k] for k in first if k in late}
    assert set(first) == set(late)


@example(["read"] * 3 + ["edit"] * 3)
@example(["edit"] * 3 + ["test"] * 3)
@given(st.lists(st.sampled_from(("read", "read again", "grep", "edit", "test", "make")), max_size=30))
def test_the_phase_is_one_of_four_and_never_looks_ahead(kinds: list[str]) -> None:
    made = {
        "read": Call(name="Read", arguments={"file_path": "a.py"}, result="x"),
        "read again": Call(name="Read", arguments={"file_path": "a.py", "offset": 9, "limit": 5}, result="x"),
        "grep": Call(name="Grep", arguments={"pattern": "x"}, result="x"),
        "edit": Call(name="Edit", arguments={"file_path": "a.py", "old_string": "x", "new_string": "y"}, result="ok"),
        "test": Call(name="Bash", arguments={"command": "pytest -q"}, result="1 passed"),
        "make": Call(name="Bash", arguments={"command": "ls"}, result="x"),
    }
    turns = [Turn(calls=(made[kind],)) for kind in kinds]
    whole = facts_of(conversation("openai-chat", "go", turns))
    phases = [whole.phases.phase_at(turn) for turn in range(1, len(turns) + 1)]
    assert set(phases) <= set(PHASES)
    for cut in range(1, len(turns) + 1):
        assert facts_of(conversation("openai-chat", "go", turns[:cut])).phases.phase_at(cut) == phases[cut - 1]
    assert kinds[-3:] != ["edit"] * 3 or phases[-1] == "repair"
    assert kinds[-3:] != ["test"] * 3 or phases[-1] == "verify"


@given(st.text(max_size=30))
def test_parts_are_lower_case_and_three_letters_at_least(word: str) -> None:
    assert all(part == part.lower() and len(part) > 2 for part in split_identifier(word))
