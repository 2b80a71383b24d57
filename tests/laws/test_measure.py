"""Laws of the measure: nothing is lost where nothing is done, looking step by step equals looking afresh, no invention."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

from danshari_bench.comparison.bounds import compute_bounds
from danshari_bench.comparison.contenders import OFF_CONTENDER
from hypothesis import assume, given
from hypothesis import strategies as st

from danshari.data import load_estimator
from danshari.formats import find_format
from danshari.replay.prompt_cache import PRICE_VECTORS, PrefixCache
from danshari.replay.references import SessionNeeds, find_needs
from danshari.replay.replay import policy_contender
from danshari.replay.score import ViewScorer
from danshari.replay.simulate import ViewChecker, play_session
from danshari.replay.visibility import VisibleLines
from danshari.sessions import RecordedSession
from danshari.sessions.script import ChatSessionWriter
from tests.support.strategies import POLICIES, sessions


def recorded(session: tuple[str, list[Any]]) -> RecordedSession:
    return RecordedSession(id="s", source="t", format=session[0], messages=session[1], model="claude-opus-4-5")


def views(needs: SessionNeeds, policy: str, budget: int | None) -> list[list[Any]]:
    """Every view that a policy sends."""
    seen: list[list[Any]] = []

    class Keeping(ViewScorer):
        def score_round(self, r: Any, messages: Any, *, rewritten: bool) -> None:
            seen.append(list(messages))
            super().score_round(r, messages, rewritten=rewritten)

    play_session(needs, policy_contender(policy), prices=PRICE_VECTORS[".10"], budget=budget, scorer=Keeping(needs))
    return seen


@given(sessions())
def test_doing_nothing_loses_nothing(session: tuple[str, list[Any]]) -> None:
    """Every share of the measure is whole for the full context, and nothing in it is invented, stale or bare."""
    needs = find_needs(recorded(session))
    scorer = ViewScorer(needs, ladder=True)
    played = play_session(needs, OFF_CONTENDER, prices=PRICE_VECTORS[".10"], scorer=scorer)
    tally = scorer.score.tally
    assert [name for name in ("bare", "invented", "stale") if tally.get(name, [0, 0])[0]] == []
    shares = tally.keys() - {"bare", "edits_unseen", "invented", "stale"}
    assert [name for name in shares if tally[name][0] != tally[name][1]] == []
    assert not played.problems
    assert not any(s.rewritten for s in played.sent)
    assert all(s.cached <= s.tokens for s in played.sent)


@given(sessions(), st.sampled_from(POLICIES), st.sampled_from((None, 400, 2000)))
def test_step_by_step_equals_afresh(session: tuple[str, list[Any]], policy: str, budget: int | None) -> None:
    """A sight kept up to date from view to view shows what a new one shows of the last view."""
    needs = find_needs(recorded(session))
    kept = VisibleLines(needs)
    for view in views(needs, policy, budget):
        kept.update(view)
        fresh = VisibleLines(needs)
        fresh.update(view)
        assert sorted(kept.visible_lines()) == sorted(fresh.visible_lines())
        for atom in needs.reference_atoms:
            held = len(needs.held[atom])
            assert kept.atom_visibility(atom, held) == fresh.atom_visibility(atom, held)


@given(sessions(), st.sampled_from(POLICIES), st.booleans(), st.integers(0, 40))
def test_checking_from_the_change_equals_checking_in_full(
    session: tuple[str, list[Any]], policy: str, spoil: bool, at: int
) -> None:
    """The quick check finds a view wrong exactly when the full check does, spoiled views included."""
    needs = find_needs(recorded(session))
    wire = needs.format
    checker = ViewChecker(wire)
    for view in views(needs, policy, None):
        if spoil and len(view) > 2:
            view = [m for n, m in enumerate(view) if n != at % len(view)]
        assert bool(checker([], view)) == bool(wire.check(view))


@given(sessions(), st.sampled_from(("balanced", "repair", "architecture")), st.sampled_from((None, 400, 2000)))
def test_nothing_is_invented(session: tuple[str, list[Any]], policy: str, budget: int | None) -> None:
    """No name stands in a view that the source never held, our own templates apart: words are not cut in two."""
    needs = find_needs(recorded(session))
    scorer = ViewScorer(needs, markup=policy_contender(policy).markup)
    play_session(needs, policy_contender(policy), prices=PRICE_VECTORS[".10"], budget=budget, scorer=scorer)
    invented, n = scorer.score.tally.get("invented", [0, 0])
    assert invented == 0, n


@given(sessions(), st.sampled_from(POLICIES))
def test_user_words_stay_and_nothing_goes_stale(session: tuple[str, list[Any]], policy: str) -> None:
    needs = find_needs(recorded(session))
    scorer = ViewScorer(needs)
    play_session(needs, policy_contender(policy), prices=PRICE_VECTORS[".10"], scorer=scorer)
    kept, n = scorer.score.tally.get("rule_views", [0, 0])
    assert kept == n
    assert scorer.score.tally.get("stale", [0, 0])[0] == 0


@given(sessions())
def test_bounds_are_bounds(session: tuple[str, list[Any]]) -> None:
    """The clairvoyant needs no more than everything, and more room never keeps less."""
    bounds = compute_bounds(find_needs(recorded(session)))
    assert 0 <= bounds.residency <= bounds.full + 1e-6
    for curve in (bounds.oracle, bounds.chance, bounds.recency):
        kept = [curve[b][0] for b in sorted(curve)]
        assert all(a <= b + 1e-6 for a, b in pairwise(kept))
        assert all(values[0] <= values[1] + 1e-6 for values in curve.values())


@given(sessions(), st.integers(0, 30))
def test_the_cache_reads_the_common_prefix(session: tuple[str, list[Any]], at: int) -> None:
    """A request that only grows reads all of the last one; a change at one message reads nothing behind it."""
    wire, messages = find_format(session[0]), session[1]
    cache = PrefixCache(wire, load_estimator("o200k"))
    sizes = [cache.message_tokens(m) for m in messages]
    cache.send(messages[:-1])
    grown = cache.send(messages)
    assert not grown.rewritten
    assert abs(grown.cached - sum(sizes[:-1])) < 1e-6
    place = at % len(messages)
    changed = copy.deepcopy(messages)
    changed[place] = wire.user_message("something else entirely")
    assume(changed[place] != messages[place])
    sent = cache.send(changed)
    assert sent.rewritten
    assert sum(sizes[:place]) - 1e-6 <= sent.cached <= sum(sizes[:place]) + cache.message_tokens(changed[place])


_steps = st.lists(
    st.tuples(st.sampled_from("suacrj"), st.integers(0, 5), st.sampled_from(("", "word", "x" * 30))), max_size=30
)


@given(_steps)
def test_a_script_is_always_sendable(steps: list[tuple[str, int, str]]) -> None:
    """Whatever order a source tells its session in, what is written down breaks no rule of chat completions."""
    script = ChatSessionWriter(RecordedSession(id="s", source="t", format="openai-chat"))
    for kind, number, text in steps:
        if kind == "s":
            script.system(text)
        elif kind == "u":
            script.user(text)
        elif kind == "a":
            script.assistant(text)
        elif kind == "c":
            script.assistant(
                text, calls=[(script.make_call_id(), "tool", {"x": number}) for _ in range(number % 3 + 1)]
            )
        elif kind == "r":
            script.result(script.oldest_open_call() if number % 2 else f"call_{number:05d}", text)
        elif any(m["role"] == "assistant" for m in script.session.messages):
            script.join_calls([(script.make_call_id(), "tool", "{}")])
    messages = script.finish().messages
    assert not messages or find_format("openai-chat").check(messages) == []
