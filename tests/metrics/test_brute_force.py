"""Every metric, tie policy, cut-off and empty policy against its definition, written slowly in
plain Python.

The definitions below take one ranking. A tie policy is then checked against *all* rankings that
agree with the scores: expected is their mean, worst and best are their extremes.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tautrank.errors import OptionError
from tautrank.metrics import METRICS, metric, rank_order

# NumPy's warnings are unfinished thoughts: a division or a cast that was not looked at.
pytestmark = pytest.mark.filterwarnings("error")

K = [None, 1, 2, 3, 5, 8]
NOT_RETRIEVED = -math.inf


def log2_discount(rank: int) -> float:
    return 1 / math.log2(1 + rank)


def exp2_gain(label: float) -> float:
    return 2**label - 1


# Each definition sees the labels in rank order (retrieved documents only, except for the two
# costs), the labels of the whole list, and k (infinite for the full list).
def dcg(ranked, labels, k, gain=exp2_gain, discount=log2_discount):
    return math.fsum(gain(y) * discount(r) for r, y in enumerate(ranked, 1) if r <= k)


def ndcg(ranked, labels, k, gain=exp2_gain, discount=log2_discount):
    ideal = dcg(sorted(labels, reverse=True), labels, k, gain, discount)
    return dcg(ranked, labels, k, gain, discount) / ideal


def err(ranked, labels, k, max_label=4):
    total, reached = 0.0, 1.0
    for r, y in enumerate(ranked, 1):
        stop = (2**y - 1) / 2**max_label
        if r <= k:
            total += reached * stop / r
        reached *= 1 - stop
    return total


def mrr(ranked, labels, k, relevant=1e-300):
    return next((1 / r for r, y in enumerate(ranked, 1) if y >= relevant and r <= k), 0.0)


def average_precision(ranked, labels, k, relevant=1e-300, reachable=False):
    total, n_relevant_so_far = 0.0, 0
    for r, y in enumerate(ranked, 1):
        if y >= relevant:
            n_relevant_so_far += 1
            total += n_relevant_so_far / r if r <= k else 0
    n = sum(y >= relevant for y in labels)
    return total / (min(n, k) if reachable else n)


def precision(ranked, labels, k, relevant=1e-300, reachable=False):
    hits = sum(y >= relevant for r, y in enumerate(ranked, 1) if r <= k)
    return hits / (k if k < math.inf and not reachable else max(min(k, len(ranked)), 1))


def recall(ranked, labels, k, relevant=1e-300):
    hits = sum(y >= relevant for r, y in enumerate(ranked, 1) if r <= k)
    return hits / sum(y >= relevant for y in labels)


def f1(ranked, labels, k, relevant=1e-300, reachable=False):
    p, r = precision(ranked, labels, k, relevant, reachable), recall(ranked, labels, k, relevant)
    return 2 * p * r / (p + r) if p + r > 0 else 0.0


def success(ranked, labels, k, relevant=1e-300):
    return float(any(y >= relevant for r, y in enumerate(ranked, 1) if r <= k))


def rbp(ranked, labels, k, p=0.8, relevant=1e-300, earned=lambda y: 1):
    return (1 - p) * math.fsum(
        p ** (r - 1) * earned(y) for r, y in enumerate(ranked, 1) if y >= relevant and r <= k
    )


def r_precision(ranked, labels, k, relevant=1e-300):
    n = sum(y >= relevant for y in labels)
    return sum(y >= relevant for y in ranked[:n]) / n


# A label of None is a document that nobody judged.
def bpref(ranked, labels, k, relevant=1e-300):
    judged = [y for y in labels if y is not None]
    n_relevant, n_others = (sum((y >= relevant) is good for y in judged) for good in (True, False))
    total, n_above = 0.0, 0
    for y in ranked:
        if y is not None and y >= relevant:
            total += 1 - min(n_above, n_relevant) / min(n_others, n_relevant) if n_above else 1
        n_above += y is not None and y < relevant
    return total / n_relevant


def auc(ranked, labels, k, relevant=1e-300):
    good = [y >= relevant for y in ranked]
    pairs = [(i, j) for i, a in enumerate(good) for j, b in enumerate(good) if a and not b]
    return sum(i < j for i, j in pairs) / len(pairs)


def judged_share(ranked, labels, k):
    first = ranked[: min(k, len(ranked))]
    return sum(y is not None for y in first) / max(len(first), 1)


def arp(ranked, labels, k):
    return math.fsum(y * min(r, k + 1) for r, y in enumerate(ranked, 1))


def lambdarank_metric(ranked, labels, k, gain=exp2_gain, discount=log2_discount):
    ideal = dcg(sorted(labels, reverse=True), labels, k, gain, discount)
    return math.fsum(
        gain(ranked[i - 1]) / ideal * abs(discount(i) - discount(j))
        for i in range(1, len(ranked) + 1)
        for j in range(1, i)
        if j <= k or i <= k
    )


def dcg_rr(scores, labels, k, gain=float):
    total, rank = 0.0, 0
    for score, y in zip(scores, labels, strict=True):
        if score > 0:
            rank += 1
            total += gain(y) / rank if rank <= k else 0
    return total


Definition = Callable[..., float]
# text of the metric, its definition, options of the definition, and what makes a document relevant
# (of AUC: a pair)
CASES: list[tuple[str, Definition, dict[str, object], Callable[[float], bool]]] = [
    ("dcg", dcg, {}, lambda y: y > 0),
    (
        "dcg(gain=linear,discount=reciprocal)",
        dcg,
        {"gain": float, "discount": lambda r: 1 / r},
        lambda y: y > 0,
    ),
    ("ndcg", ndcg, {}, lambda y: y > 0),
    ("ndcg(gain=linear)", ndcg, {"gain": float}, lambda y: y > 0),
    ("ndcg(gain=0/0/2/2.5/9)", ndcg, {"gain": lambda y: (0, 0, 2, 2.5, 9)[y]}, lambda y: y > 1),
    (
        "ndcg(gain=1/2/3/4/5,discount=1/0.5/0.5)",
        ndcg,
        {"gain": lambda y: y + 1, "discount": lambda r: [1, 0.5, 0.5][r - 1] if r <= 3 else 0},
        lambda y: True,
    ),
    ("err", err, {}, lambda y: y > 0),
    ("err(max_label=6.5)", err, {"max_label": 6.5}, lambda y: y > 0),
    ("mrr", mrr, {}, lambda y: y > 0),
    ("mrr(relevant=2)", mrr, {"relevant": 2}, lambda y: y >= 2),
    ("map", average_precision, {}, lambda y: y > 0),
    ("map(relevant=2.5)", average_precision, {"relevant": 2.5}, lambda y: y >= 2.5),
    ("precision", precision, {}, lambda y: y > 0),
    ("precision(relevant=3)", precision, {"relevant": 3}, lambda y: y >= 3),
    ("recall", recall, {}, lambda y: y > 0),
    ("map(divide_by=reachable)", average_precision, {"reachable": True}, lambda y: y > 0),
    ("precision(divide_by=reachable)", precision, {"reachable": True}, lambda y: y > 0),
    ("f1", f1, {}, lambda y: y > 0),
    ("f1(relevant=3)", f1, {"relevant": 3}, lambda y: y >= 3),
    ("f1(divide_by=reachable)", f1, {"reachable": True}, lambda y: y > 0),
    ("success", success, {}, lambda y: y > 0),
    ("success(relevant=2)", success, {"relevant": 2}, lambda y: y >= 2),
    ("rbp", rbp, {}, lambda y: y > 0),
    ("rbp(p=0.35,relevant=2)", rbp, {"p": 0.35, "relevant": 2}, lambda y: y >= 2),
    ("rbp(graded=true)", rbp, {"earned": float}, lambda y: y > 0),
    ("r-precision", r_precision, {}, lambda y: y > 0),
    ("r-precision(relevant=3)", r_precision, {"relevant": 3}, lambda y: y >= 3),
    ("bpref", bpref, {}, lambda y: y > 0),
    ("bpref(relevant=2)", bpref, {"relevant": 2}, lambda y: y >= 2),
    ("auc", auc, {}, lambda y: y > 0),
    ("auc(relevant=3)", auc, {"relevant": 3}, lambda y: y >= 3),
    ("judged", judged_share, {}, lambda y: True),
    ("arp", arp, {}, lambda y: y > 0),
    ("lambdarank-metric", lambdarank_metric, {}, lambda y: y > 0),
    (
        "lambdarank-metric(gain=linear,discount=reciprocal)",
        lambdarank_metric,
        {"gain": float, "discount": lambda r: 1 / r},
        lambda y: y > 0,
    ),
    ("dcg-rr", dcg_rr, {}, lambda y: y > 0),
    ("dcg-rr(gain=exp2)", dcg_rr, {"gain": exp2_gain}, lambda y: y > 0),
]


def some_lists() -> list[tuple[list[float], list[int]]]:
    """Lists of 0 to 6 documents: every tie pattern of up to 3, and random ones with many ties."""
    draw = random.Random(7)
    lists: list[tuple[list[float], list[int]]] = [
        ([], []),
        ([0.0], [2]),
        ([1.0], [0]),
        ([NOT_RETRIEVED], [1]),
    ]
    lists += [
        (list(scores), list(labels))
        for scores in ((1.0, 1.0), (1.0, 2.0), (NOT_RETRIEVED, 1.0))
        for labels in itertools.product((0, 2), repeat=2)
    ]
    lists.append(([0.0] * 6, [0, 1, 2, 3, 4, 0]))
    lists.append(([5.0] * 5 + [6.0], [0, 0, 1, 1, 3, 0]))
    lists.append(([NOT_RETRIEVED] * 3, [0, 1, 2]))
    for _ in range(55):
        n = draw.randint(1, 6)
        levels = draw.choice(
            [(0.0, 1.0), (0.0, 1.0, -2.0), (0.5, -1.0, NOT_RETRIEVED), (0.0, 0.1, 0.2, 0.3, 0.4)]
        )
        lists.append(
            (
                [draw.choice(levels) for _ in range(n)],
                [draw.choice((0, 0, 1, 2, 3, 4)) for _ in range(n)],
            )
        )
    return lists


LISTS = some_lists()
SCORES = [s for scores, _ in LISTS for s in scores]
LABELS = [y for _, labels in LISTS for y in labels]
OFFSETS = [0, *itertools.accumulate(len(labels) for _, labels in LISTS)]


def is_filled(m, is_relevant, labels) -> bool:
    relevant_flags = [is_relevant(y) for y in labels]
    return any(relevant_flags) and (m.name != "auc" or not all(relevant_flags))


def with_cut(text, k):
    """The metric at this cut-off; those that have none are the same at each."""
    m = metric(text)
    return metric(m, k=k) if m.has_cutoff else m


def rankings(scores: list[float], labels: list[int], cost: bool) -> Iterator[list[int]]:
    """Every ranking of the labels that agrees with the scores; all of them equally likely."""
    levels = sorted(set(scores), reverse=True)
    if not cost:
        levels = [level for level in levels if level > NOT_RETRIEVED]
    ties = [[y for s, y in zip(scores, labels, strict=True) if s == level] for level in levels]
    for choice in itertools.product(*(itertools.permutations(tie) for tie in ties)):
        yield [y for tie in choice for y in tie]


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("k", K)
@pytest.mark.parametrize(
    ("text", "definition", "options", "is_relevant"), CASES, ids=[c[0] for c in CASES]
)
def test_against_all_orders_of_tied_documents(text, definition, options, is_relevant, k):
    if k is not None and not metric(text).has_cutoff:
        with pytest.raises(OptionError, match=f"k: found {k}; expected None"):
            metric(text, k=k)
        return
    m = metric(text, k=k)
    cut = math.inf if k is None else k
    everybody_counts = getattr(m, "all_count", False)
    mean, low, high, by_input = [], [], [], []
    for scores, labels in LISTS:
        if not is_filled(m, is_relevant, labels):
            for values in (mean, low, high, by_input):
                values.append(math.nan)
            continue
        if definition is dcg_rr:
            value = dcg_rr(scores, labels, cut, **options)
            for values in (mean, low, high, by_input):
                values.append(value)
            continue
        orders = rankings(scores, labels, everybody_counts)
        everything = [definition(ranked, labels, cut, **options) for ranked in orders]
        mean.append(math.fsum(everything) / len(everything))
        low.append(min(everything))
        high.append(max(everything))
        kept = [
            (s, y)
            for s, y in zip(scores, labels, strict=True)
            if everybody_counts or s > NOT_RETRIEVED
        ]
        stable = [y for _, y in sorted(kept, key=lambda pair: -pair[0])]
        by_input.append(definition(stable, labels, cut, **options))
    worst, best = (low, high) if m.higher_is_better else (high, low)
    for ties, expected in (
        ("worst", worst),
        ("expected", mean),
        ("best", best),
        ("input", by_input),
    ):
        assert_close(metric(m, ties=ties).per_query(SCORES, LABELS, OFFSETS), expected)


@pytest.mark.parametrize("text", [case[0] for case in CASES])
@pytest.mark.parametrize("ties", ["worst", "expected", "best", "input"])
def test_empty_policies(text, ties):
    is_relevant = {case[0]: case[3] for case in CASES}[text]
    filled = np.array([is_filled(metric(text), is_relevant, labels) for _, labels in LISTS])
    skip, zero, one = (
        metric(with_cut(text, 3), ties=ties, empty=empty).per_query(SCORES, LABELS, OFFSETS)
        for empty in ("skip", "zero", "one")
    )
    assert np.array_equal(np.isnan(skip), ~filled)
    assert (zero[~filled] == 0).all()
    assert (one[~filled] == 1).all()
    assert np.array_equal(skip[filled], zero[filled])
    assert np.array_equal(skip[filled], one[filled])


def labels_by_score(scores, labels):
    """The labels of the retrieved documents, the best score first, equal scores in input order."""
    retrieved = [pair for pair in zip(scores, labels, strict=True) if pair[0] > NOT_RETRIEVED]
    return [label for _, label in sorted(retrieved, key=lambda pair: -pair[0])]


@pytest.mark.parametrize(
    ("text", "definition", "is_filled"),
    [
        ("bpref", bpref, lambda labels: any(y for y in labels)),
        ("judged", judged_share, lambda labels: any(y is not None for y in labels)),
        ("judged@2", judged_share, lambda labels: any(y is not None for y in labels)),
    ],
)
def test_documents_without_a_judgment_against_all_orders(text, definition, is_filled):
    draw = random.Random(3)
    judged = [draw.random() < 0.6 for _ in LABELS]
    judged_labels = [y if flag else None for y, flag in zip(LABELS, judged, strict=True)]
    cut = metric(text).k or math.inf
    expected = {ties: [] for ties in ("worst", "expected", "best", "input")}
    for start, (scores, labels) in zip(OFFSETS, LISTS, strict=False):
        labels = judged_labels[start : start + len(labels)]
        values, value_in_input_order = [math.nan], math.nan
        if is_filled(labels):
            values = [definition(ranked, labels, cut) for ranked in rankings(scores, labels, False)]
            in_input_order = labels_by_score(scores, labels)
            value_in_input_order = definition(in_input_order, labels, cut)
        expected["worst"].append(min(values))
        expected["expected"].append(math.fsum(values) / len(values))
        expected["best"].append(max(values))
        expected["input"].append(value_in_input_order)
    for ties, values in expected.items():
        assert_close(
            metric(text, ties=ties).per_query(SCORES, LABELS, OFFSETS, judged=judged), values
        )


def test_other_metrics_take_documents_without_a_judgment_as_they_are_labelled():
    for text in ("ndcg", "map", "auc", "r-precision"):
        np.testing.assert_array_equal(
            metric(text).per_query(SCORES, LABELS, OFFSETS, judged=[False] * len(LABELS)),
            metric(text).per_query(SCORES, LABELS, OFFSETS),
        )


def test_every_metric_has_a_definition_here():
    assert {metric(case[0]).name for case in CASES} == set(METRICS)


@pytest.mark.parametrize("ties", ["worst", "best", "input"])
def test_rank_order(ties):
    sign = {"worst": 1, "best": -1, "input": 0}[ties]
    expected = [
        i
        for start, (scores, _) in zip(OFFSETS, LISTS, strict=False)
        for i in sorted(
            range(start, start + len(scores)), key=lambda i: (-SCORES[i], sign * LABELS[i], i)
        )
    ]
    assert rank_order(SCORES, LABELS, OFFSETS, ties).tolist() == expected


@pytest.mark.parametrize("text", [case[0] for case in CASES])
@pytest.mark.parametrize("ties", ["worst", "expected", "best", "input"])
def test_bound_metric_gives_the_same_bits(text, ties):
    m = metric(with_cut(text, 2), ties=ties)
    bound_metric = m.bind(LABELS, OFFSETS)
    for scores in (SCORES, [-s if s > NOT_RETRIEVED else s for s in SCORES]):
        np.testing.assert_array_equal(
            bound_metric.per_query(scores), m.per_query(scores, LABELS, OFFSETS)
        )
        assert bound_metric.mean(scores) == m.mean(scores, LABELS, OFFSETS)
