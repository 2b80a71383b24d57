"""Train the line scorer's weights on recorded sessions and evaluate them on held-out repositories.

Ridge logistic regression over the buckets of `shorten.line_scorer.SCORER_FEATURES`, separately per text family.
Newton steps update one feature after the other; deterministic, standard library only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from danshari.analysis.first_seen import WORD_PATTERN
from danshari.core.line_weights import FamilyWeights, ScorerWeights, sum_bucket_weights
from danshari.shorten.line_scorer import feature_bucket_counts
from danshari.training.examples import SessionExamples

RIDGE = 300.0
"""Penalty on squared weights; chosen by the cross-validated AUC on the development sessions."""
NEWTON_SWEEPS = 6
"""Rounds over all features."""
MIN_EXAMPLE_WEIGHT = 0.15
"""Weight of an example that shares a need with many lines."""
FOLD_COUNT = 5
RELATED_FILES = 0.3
"""Share of common file names from which two sessions count as one repository's."""
RECALL_SHARES = (0.10, 0.20, 0.35)
"""Shares of the characters at which recall is told."""


def train_weights(examples: Sequence[SessionExamples]) -> ScorerWeights:
    """Return weights trained on these examples."""
    families = {}
    for name, features in feature_bucket_counts().items():
        blocks = [e.blocks[name] for e in examples if name in e.blocks]
        joined = {f: b"".join(bytes(block.features[f]) for block in blocks) for f in features}
        families[name] = _fit_family(features, joined, [need for block in blocks for need in block.need])
    return ScorerWeights(families=families)


def _fit_family(buckets: Mapping[str, int], columns: Mapping[str, bytes], needs: Sequence[float]) -> FamilyWeights:
    """Fit the weights of one text family."""
    weight = [max(need, MIN_EXAMPLE_WEIGHT) if need else 1.0 for need in needs]
    wanted = [1.0 if need else 0.0 for need in needs]
    total = sum(weight) or 1.0
    base = min(max(sum(w for w, y in zip(weight, wanted, strict=True) if y) / total, 1e-4), 0.5)
    bias = math.log(base / (1 - base))
    features = {name: [0.0] * count for name, count in buckets.items()}
    scores = [bias] * len(needs)
    for _ in range(NEWTON_SWEEPS):
        for name, column in columns.items():
            scores = _newton_step(features[name], column, scores, wanted, weight, RIDGE)
        shift = [0.0]
        scores = _newton_step(shift, bytes(len(needs)), scores, wanted, weight, 0.0)
        bias += shift[0]
    return FamilyWeights(bias=round(bias, 4), features={k: tuple(round(w, 4) for w in v) for k, v in features.items()})


def _newton_step(
    weights: list[float],
    column: bytes,
    scores: Sequence[float],
    wanted: Sequence[float],
    weight: Sequence[float],
    ridge: float,
) -> list[float]:
    """Take one Newton step for the weights of one feature and return the new scores.

    For each bucket: step = (gradient - ridge × weight) / (curvature + ridge), where the gradient sums w
    × (y - p), the curvature sums w × p × (1 - p), w is the example's weight, y is 1 if it was needed
    and p the predicted probability.
    """
    slope, curve = [0.0] * len(weights), [0.0] * len(weights)
    exp = math.exp
    for bucket, score, y, w in zip(column, scores, wanted, weight, strict=True):
        p = 1.0 / (1.0 + exp(-score))
        slope[bucket] += w * (y - p)
        curve[bucket] += w * p * (1.0 - p)
    moved = [(g - ridge * b) / (h + ridge + 1e-6) for g, h, b in zip(slope, curve, weights, strict=True)]
    for bucket, move in enumerate(moved):
        weights[bucket] += move
    return [score + moved[bucket] for score, bucket in zip(scores, column, strict=True)]


# ── how well it does ─────────────────────────────────────────────────────────────────────────────────────────────


def assign_folds(examples: Sequence[SessionExamples]) -> list[list[int]]:
    """Assign repositories to folds, largest first, so that no repository is in two folds.

    Sessions whose files overlap count as one repository, whatever their names.
    """
    names = _merge_repositories(examples)
    sizes: Counter[str] = Counter()
    for name, e in zip(names, examples, strict=True):
        sizes[name] += sum(len(block.need) for block in e.blocks.values())
    fill = [0] * min(FOLD_COUNT, len(sizes))
    place: dict[str, int] = {}
    for name, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        place[name] = fill.index(min(fill))
        fill[place[name]] += size
    return [[n for n, name in enumerate(names) if place[name] == fold] for fold in range(len(fill))]


def _merge_repositories(examples: Sequence[SessionExamples]) -> list[str]:
    """Return the repository name of every session; repositories that share files get one name."""
    same: dict[str, str] = {}

    def find_root(name: str) -> str:
        while same.get(name, name) != name:
            name = same[name]
        return name

    for n, one in enumerate(examples):
        for other in examples[:n]:
            shared = len(one.files & other.files)
            if shared >= 3 and shared > RELATED_FILES * min(len(one.files), len(other.files)):
                low, high = sorted((find_root(one.repository), find_root(other.repository)))
                same[high] = low
    return [find_root(e.repository) for e in examples]


Scores = dict[str, list[float]]
LineOrder = Callable[[SessionExamples, str], Sequence[float]]


def evaluate_scorers(
    examples: Sequence[SessionExamples], folds: Sequence[Sequence[int]], learned: Sequence[ScorerWeights]
) -> dict[str, Any]:
    """Evaluate weights trained without a session's repository on its lines, and compare with simple orders.

    Returns, per text family, AUC and recall of the scorer, recency, rarity and BM25. The scorer is left
    out where all lines lie in one fold: no weights were then trained on other repositories.
    """
    fold_of = {n: place for place, fold in enumerate(folds) for n in fold}
    numbers = {id(e): n for n, e in enumerate(examples)}
    rarity = _document_counts(examples)
    scorers: dict[str, LineOrder] = {
        "scorer": lambda e, name: _score_lines(e, name, learned[fold_of[numbers[id(e)]]]),
        "recency": lambda e, name: range(len(e.blocks[name].need)),
        "rarity": lambda e, name: [_rarity_score(text, rarity) for text in e.blocks[name].texts],
        "BM25 to the task": _bm25,
    }
    found: dict[str, Any] = {}
    for name in feature_bucket_counts():
        held = [e for e in examples if name in e.blocks]
        places = {fold_of[numbers[id(e)]] for e in held}
        rows = {}
        for label, scorer in scorers.items():
            if label == "scorer" and len(places) < 2:
                continue
            rows[label] = _measure_order([(e, scorer(e, name)) for e in held], name)
        lines = sum(len(e.blocks[name].need) for e in held)
        needed = sum(need > 0 for e in held for need in e.blocks[name].need)
        found[name] = {"lines": lines, "needed": needed, "sessions": len(held), "rows": rows}
    return found


def _score_lines(e: SessionExamples, name: str, weights: ScorerWeights) -> list[float]:
    block = e.blocks[name]
    return sum_bucket_weights(weights.families[name], block.features, len(block.need))


def _measure_order(pairs: Sequence[tuple[SessionExamples, Sequence[float]]], name: str) -> dict[str, float]:
    """Return AUC over all lines, mean AUC inside a session, and recall of needs at shares of the characters."""
    scores = [s for _, found in pairs for s in found]
    needs = [n for e, _ in pairs for n in e.blocks[name].need]
    inside = [a for e, found in pairs if (a := auc(found, e.blocks[name].need)) is not None]
    recall = {share: [0.0, 0.0] for share in RECALL_SHARES}
    for e, found in pairs:
        block = e.blocks[name]
        order = sorted(range(len(found)), key=lambda n: (-found[n], n))
        total, all_needs = sum(block.size), sum(block.need)
        for share, pair in recall.items():
            left, got = share * total, 0.0
            for n in order:
                left -= block.size[n]
                if left < 0:
                    break
                got += block.need[n]
            pair[0] += got
            pair[1] += all_needs
    return {
        "auc": round(auc(scores, needs) or 0.5, 3),
        "auc_inside": round(sum(inside) / len(inside), 3) if inside else 0.5,
        **{f"recall_{round(100 * share)}": round(a / b, 3) if b else 0.0 for share, (a, b) in recall.items()},
    }


def auc(scores: Sequence[float], needs: Sequence[float]) -> float | None:
    """Return the probability that a needed line scores above one that is not; None if there are no such pairs.

    Mann-Whitney: (sum of the ranks of needed lines - P (P + 1) / 2) / (P × N), with P needed and N
    other lines; ties share their mean rank.
    """
    order = sorted(range(len(scores)), key=lambda n: scores[n])
    ranks, positives, start = 0.0, 0, 0
    while start < len(order):
        end = start
        while end < len(order) and scores[order[end]] == scores[order[start]]:
            end += 1
        hits = sum(needs[order[n]] > 0 for n in range(start, end))
        ranks += hits * (start + end + 1) / 2
        positives += hits
        start = end
    negatives = len(order) - positives
    if not positives or not negatives:
        return None
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def _document_counts(examples: Sequence[SessionExamples]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for e in examples:
        for block in e.blocks.values():
            counts.update({word for text in block.texts for word in WORD_PATTERN.findall(text)})
    return counts


def _rarity_score(text: str, counts: Mapping[str, int]) -> float:
    return -min((counts[word] for word in WORD_PATTERN.findall(text)), default=1_000_000)


def _bm25(e: SessionExamples, name: str) -> list[float]:
    """Return the BM25 score (k1 1.2, b .75) of each line against the words of the task."""
    texts = [WORD_PATTERN.findall(text) for text in e.blocks[name].texts]
    mean = sum(map(len, texts)) / max(len(texts), 1)
    holders = Counter(word for words in texts for word in set(words) & e.task)
    found = []
    for words in texts:
        total = 0.0
        for word, count in Counter(w for w in words if w in e.task).items():
            rare = math.log(1 + (len(texts) - holders[word] + 0.5) / (holders[word] + 0.5))
            total += rare * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(words) / max(mean, 1)))
        found.append(total)
    return found
