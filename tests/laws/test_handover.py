"""The laws of hand-overs: round trip, merging, sizes, and every view with major compactions in it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from danshari import Compactor, data, handover
from danshari.core.edits import Fold
from danshari.core.handover import (
    DROP_ORDER,
    HANDOVER_FIELDS,
    MANDATORY_FIELDS,
    MODEL_FIELDS,
    Delta,
    Handover,
    Point,
    apply_delta,
    handover_from_dict,
    merge_handovers,
)
from danshari.core.handover_markdown import parse_handover, render_handover
from danshari.formats import find_format
from danshari.handovers.survival import measure_survival
from danshari.pipeline.masking import mask_secrets
from danshari.testing import ScriptedSummarizer
from tests.support.every_view import cuts, judge
from tests.support.strategies import Setting, sessions, settings_of_runs

LANGUAGES = sorted(data.load_phrases())


lines = st.one_of(
    st.text(alphabet=st.characters(blacklist_categories=("Cs", "Cc")), max_size=40),
    st.sampled_from(["## Goal", "## Goal ·", "## 目标 · (+3 在存档中)", "~ 4 label", "~ ", "[danshari hand-over ends]", "\\## Goal ·", "- item", "  in", "\\\\~ x",
                     "[danshari hand-over 1 en 1: x]", ""]),
)  # fmt: skip


texts = st.lists(lines, min_size=1, max_size=4).map("\n".join)


labels = st.sampled_from(["", "failed", "src/a.py 1a2b3c", "12 things", "in progress"])


points = st.builds(Point, text=texts, label=labels, turn=st.integers(0, 500))


@st.composite
def documents(draw: Any) -> Handover:
    names = draw(st.sets(st.sampled_from([row.name for row in HANDOVER_FIELDS]), max_size=6))
    fields = {name: tuple(draw(st.lists(points, min_size=1, max_size=3))) for name in names}
    dropped = {name: draw(st.integers(1, 99)) for name in draw(st.sets(st.sampled_from(DROP_ORDER), max_size=2))}
    return Handover(
        language=draw(st.sampled_from(LANGUAGES)), fields=fields, dropped=dropped, generation=draw(st.integers(1, 70))
    )


@given(documents())
def test_what_is_rendered_reads_back(document: Handover) -> None:
    """parse(render(h)) == h without what the text does not show, in every language, whatever is quoted."""
    text = render_handover(document, data.load_phrases()[document.language])
    assert parse_handover(text, data.load_phrases()) == document.strip_metadata()
    assert parse_handover(f"words before\n\n{text}\nwords after", data.load_phrases()) == document.strip_metadata()
    assert handover_from_dict(json.loads(json.dumps(document.to_dict()))) == replace(
        document, fields={k: v for k, v in document.fields.items() if v}
    )


@given(documents(), documents())
def test_merging_forgets_no_words_and_repeats_nothing(older: Handover, newer: Handover) -> None:
    """Merging carries what only the older document knows, once; merging again changes nothing but the count."""
    once = merge_handovers(older, newer)
    for name in MANDATORY_FIELDS[:3]:
        held = {" ".join(p.text.split()) for p in once[name]}
        assert {" ".join(p.text.split()) for p in (*older[name], *newer[name])} <= held
    again = merge_handovers(older, once)
    assert {k: v for k, v in again.fields.items() if v} == {k: v for k, v in once.fields.items() if v}


@given(
    documents(),
    st.dictionaries(st.sampled_from([r.name for r in HANDOVER_FIELDS]), st.lists(texts, max_size=2)),
    st.lists(texts, max_size=2),
)
def test_a_delta_reaches_only_a_models_fields(document: Handover, add: dict[str, list[str]], drop: list[str]) -> None:
    """Whatever a model answers, words, rules, files, tests, todo and lines stay as code wrote them."""
    made = apply_delta(document, Delta(add=add, drop=drop), turn=9)
    written_by_code = [row.name for row in HANDOVER_FIELDS if row.name not in MODEL_FIELDS]
    assert [made[name] for name in written_by_code] == [document[name] for name in written_by_code]


@given(sessions(), st.integers(200, 6_000), st.booleans())
def test_a_document_keeps_its_size_and_the_words(session: Any, size: int, hard: bool) -> None:
    """Sizes hold (a hard one for everything), words stand verbatim, the same bytes come twice, nothing is changed."""
    before = copy.deepcopy(session[1])
    document = handover(session[1], size=size, hard=hard, format=session[0])
    text = render_handover(document, data.load_phrases()[document.language])
    assert session[1] == before
    assert document == handover(json.loads(json.dumps(session[1])), size=size, hard=hard, format=session[0])
    fixed = sum(p.size for name in MANDATORY_FIELDS for p in document[name])
    assert len(text) <= (max(size, 900) if hard else max(size, 900) + fixed + size // 5 + 400)
    items = find_format(session[0]).read(session[1])
    said = [i.text for i in items if i.kind == "text" and i.role == "user" and len(i.text) < 8_000]
    words = [mask_secrets(data.load_markers().human_text(part)) for part in said]
    assert hard or [line for part in words for line in part.split("\n") if line not in text] == []


@settings(parent=settings(), max_examples=max(settings().max_examples // 2, 1))
@given(
    sessions(),
    settings_of_runs,
    st.sampled_from(["", "prose notes", '{"add": {"notes": ["kept"]}}', "{broken", "error"]),
)
def test_every_view_with_major_compactions(session: Any, setting: Setting, answer: str) -> None:
    """All laws of every view hold where every third request is compacted in full, whatever the summarizer answers."""
    script = ScriptedSummarizer([RuntimeError("down") if answer == "error" else answer])
    engine = Compactor(
        setting.policy, model=setting.model, window=setting.window, prices=setting.prices, format=session[0],
        clock=lambda: 0.0, summarizer=script,
    )  # fmt: skip
    last: list[Any] = []
    for number, at in enumerate(cuts(session)):
        result = engine.compact(session[1][:at], force="full" if number % 3 == 2 else None)
        last = judge(engine, session[1][:at], result, find_format(session[0]), last)
        for fold in (e for e in result.edits if isinstance(e, Fold)):
            assert result.handover is not None
            assert not any(s.lost for s in result.survived)
            assert parse_handover(fold.text, data.load_phrases()) == result.handover.strip_metadata()


@given(sessions(), st.integers(1, 6))
def test_undo_brings_everything_back(session: Any, rounds: int) -> None:
    """Undo of a major compaction, and of one on top of another, shows what was shown before, byte for byte."""
    engine = Compactor("balanced", model="gpt-5", format=session[0], clock=lambda: 0.0)
    undone = 0
    for at in cuts(session)[rounds:]:
        shown = list(engine.preview(session[1][:at]).messages)
        before = engine.session.commits
        engine.compact(session[1][:at], force="full")
        if engine.session.commits == before:
            continue
        again = engine.undo().messages
        assert [json.dumps(m, sort_keys=True) for m in again] == [json.dumps(m, sort_keys=True) for m in shown]
        engine.compact(session[1][:at], force="full")
        undone += 1
    assume(undone)


@given(sessions())
def test_replace_mode_is_view_mode_with_major_compactions(session: Any) -> None:
    """A caller that stores what it gets ends with the same bytes as one that keeps everything."""
    viewing = Compactor("balanced", model="gpt-5", format=session[0], clock=lambda: 0.0)
    storing = Compactor("balanced", model="gpt-5", format=session[0], clock=lambda: 0.0, mode="replace")
    held: list[Any] = []
    last = 0
    for number, at in enumerate(cuts(session)):
        force: Any = "full" if number % 4 == 3 else None
        viewed = viewing.compact(session[1][:at], force=force).messages
        held = list(storing.compact(copy.deepcopy([*held, *session[1][last:at]]), force=force).messages)
        assert held == viewed
        last = at


@given(documents(), documents())
def test_consistency_counts_every_point_once(full: Handover, shown: Handover) -> None:
    """Every point is in sight, archived or lost; what the view holds is never lost."""
    view = render_handover(shown, data.load_phrases()[shown.language])
    for row in measure_survival(full, view, lambda _: False):
        assert row.total == len(full[row.field])
    assert all(
        not s.lost
        for s in measure_survival(shown, view, lambda _: False)
        if not any("\\" in p.text or "##" in p.text or "~" in p.text or "[dan" in p.text for p in shown[s.field])
    )
