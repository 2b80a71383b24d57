"""The planner: what pays is committed, what does not is held."""

from __future__ import annotations

from danshari import Prices, data
from danshari.analysis.facts import Facts
from danshari.formats import FORMATS
from danshari.planning.planner import Proposal, Situation, choose_batch, grade_pressure
from danshari.testing import Call, Turn, conversation


def situation(facts: Facts, **changes: object) -> Situation:
    base = {
        "facts": facts, "sizes": facts.tokens, "sent": len(facts.items), "prices": Prices(), "cold": False,
        "rounds_seen": facts.turn, "rounds_left": 100.0, "purse": 1e9, "since_commit": 99,
    }  # fmt: skip
    return Situation(**{**base, **changes})  # type: ignore[arg-type]


def grown(rounds: int) -> Facts:
    facts = Facts(data.load_tools(), data.load_estimator("o200k"))
    turns = [
        Turn(calls=(Call(name="Bash", arguments={"command": "make"}, result="word " * 800),)) for _ in range(rounds)
    ]
    facts.extend(FORMATS["openai-chat"].read(conversation("openai-chat", "go", turns)))
    return facts


def test_the_planner_holds_what_does_not_pay_and_commits_what_does() -> None:
    facts = grown(60)
    policy = data.load_policy("balanced")
    results = [at for at, item in enumerate(facts.items) if item.kind == "result"]

    def offer(at: int) -> Proposal:
        return Proposal(at=at, freed=facts.tokens[at] * 0.9, by="t", why="", write=lambda: "")

    assert not choose_batch([offer(results[0])], situation(facts), policy, "gain").batch
    whole = choose_batch([offer(at) for at in results[:50]], situation(facts), policy, "gain")
    assert len(whole.batch) >= 40
    assert whole.earn > policy.commit.factor * whole.cost
    assert not choose_batch([offer(at) for at in results[:50]], situation(facts, purse=0.0), policy, "gain").batch
    assert choose_batch([offer(at) for at in results], situation(facts, cold=True), policy, "cold cache").cost == 0


def test_pressure_grades() -> None:
    policy = data.load_policy("balanced")
    grades = [grade_pressure(tokens, 128_000, 16_000, policy) for tokens in (10_000, 50_000, 57_000, 113_000)]
    assert grades == ["none", "warn", "soft", "hard"]
