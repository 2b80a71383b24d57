"""Learning the scorer's weights."""

from __future__ import annotations

import random

from danshari.core.line_weights import sum_bucket_weights
from danshari.sessions import read
from danshari.shorten.line_scorer import feature_bucket_counts
from danshari.training.examples import FamilyExamples, SessionExamples, collect_examples
from danshari.training.train import assign_folds, auc, evaluate_scorers, train_weights
from tests.support.command_line import SESSION


def made_block(draw: random.Random, count: int, family: str = "code") -> FamilyExamples:
    block = FamilyExamples(features={name: bytearray() for name in feature_bucket_counts()[family]})
    for _ in range(count):
        needed = draw.random() < 0.1
        for name, buckets in feature_bucket_counts()[family].items():
            told = needed and name == "lines to a name of the task" and draw.random() < 0.9
            block.features[name].append(0 if told else draw.randrange(buckets))
        block.need.append(float(needed))
        block.size.append(40)
        block.item.append(1)
        block.texts.append("x")
    return block


def test_training_finds_what_tells_and_says_so_in_readable_weights() -> None:
    draw = random.Random(3)
    examples = [
        SessionExamples(session=f"s{n}", repository=f"r{n}", blocks={"code": made_block(draw, 2000)}) for n in range(4)
    ]
    weights = train_weights(examples[:3]).families["code"]
    assert (
        max(weights.features["lines to a name of the task"]) == weights.features["lines to a name of the task"][0] > 0.5
    )
    assert max(map(abs, weights.features["indent"])) < 0.25
    block = examples[3].blocks["code"]
    found = auc(sum_bucket_weights(weights, block.features, len(block.need)), block.need)
    assert found is not None
    assert found > 0.85
    assert train_weights(examples[:3]).to_dict() == train_weights(examples[:3]).to_dict()


def test_no_repository_stands_in_two_folds() -> None:
    files = frozenset({"a.py", "b.py", "c.py", "d.py"})
    examples = [SessionExamples(session=str(n), repository=f"r{n // 2}") for n in range(12)]
    examples += [
        SessionExamples(session="x", repository="one", files=files),
        SessionExamples(session="y", repository="two", files=files),
    ]
    folds = assign_folds(examples)
    assert sorted(n for fold in folds for n in fold) == list(range(14))
    place = {n: k for k, fold in enumerate(folds) for n in fold}
    assert all(place[n] == place[n + 1] for n in range(0, 12, 2))
    assert place[12] == place[13], "the same files: one repository, whatever its name"


def test_weights_are_judged_only_where_others_were_trained_without_the_repository() -> None:
    draw = random.Random(3)
    one = [SessionExamples(session=f"s{n}", repository="r", blocks={"code": made_block(draw, 300)}) for n in range(3)]
    other = SessionExamples(session="t", repository="other", blocks={"text": made_block(draw, 300, "text")})
    third = SessionExamples(session="u", repository="third", blocks={"code": made_block(draw, 300)})

    def judged(examples: list[SessionExamples]) -> list[str]:
        folds = assign_folds(examples)
        learned = [train_weights([e for n, e in enumerate(examples) if n not in fold]) for fold in folds]
        found = evaluate_scorers(examples, folds, learned)
        assert all({"recency", "rarity", "BM25 to the task"} <= set(row["rows"]) for row in found.values())
        return [name for name, row in found.items() if "scorer" in row["rows"]]

    assert judged(one) == []
    assert judged([*one, other]) == [], "the second repository has no line of code"
    assert judged([*one, third]) == ["code"]


def test_auc_by_hand() -> None:
    assert auc([1, 2, 3, 4], [0, 0, 1, 1]) == 1.0
    assert auc([1, 1, 1, 1], [0, 1, 0, 1]) == 0.5
    assert auc([1, 2], [1, 1]) is None


def test_examples_of_a_session_have_needs_and_as_many_buckets_as_lines() -> None:
    found = collect_examples(next(iter(read(SESSION))))
    assert any(need for block in found.blocks.values() for need in block.need)
    for block in found.blocks.values():
        assert {len(column) for column in block.features.values()} == {len(block.need)} == {len(block.texts)}
