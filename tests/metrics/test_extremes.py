"""Lists and numbers at the ends of the range: 50,000 documents, high labels, scores far apart, all
equal.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import tautrank.metrics.ordering as ordering
from tautrank.metrics import METRICS, metric, rank_order

# NumPy's warnings are unfinished thoughts: a division or a cast that was not looked at.
pytestmark = pytest.mark.filterwarnings("error")

N = 50_000
TIES = ["worst", "expected", "best", "input"]


def value(text, scores, labels, **options):
    return metric(text, **options).per_query(scores, labels, [0, len(labels)])[0]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("k", [None, 10])
def test_one_long_list_is_finite(name, ties, k):
    k = k if METRICS[name].has_cutoff else None
    labels = np.random.default_rng(0).choice(5, p=[0.5, 0.3, 0.1, 0.07, 0.03], size=N)
    tied = value(name, np.ones(N), labels, ties=ties, k=k)
    spread = value(name, np.random.default_rng(1).normal(size=N), labels, ties=ties, k=k)
    assert math.isfinite(tied)
    assert math.isfinite(spread)


RANKS = np.arange(1, N + 1)
HARMONIC_NUMBER = math.fsum(1 / RANKS)
# One relevant document among N equals is equally likely at every rank.
MEANS_OVER_A_LONG_TIE = {
    "mrr": HARMONIC_NUMBER / N,
    "mrr@10": math.fsum(1 / RANKS[:10]) / N,
    "map": HARMONIC_NUMBER / N,
    "err": HARMONIC_NUMBER / N * (2**1 - 1) / 2**4,
    "arp": (N + 1) / 2,
    "ndcg": math.fsum(1 / np.log2(1 + RANKS)) / N,
    "precision@10": 1 / N,
    "success@10": 10 / N,
    "r-precision": 1 / N,
    "rbp": 1 / N,
    "auc": 1 / 2,
    # It has nothing above it with the chance 1/N, and then min(n, R)/min(N, R) = 1.
    "bpref": 1 / N,
}


def labels_of_one_relevant():
    labels = np.zeros(N)
    labels[N // 3] = 1
    return labels


@pytest.mark.parametrize(("name", "mean"), MEANS_OVER_A_LONG_TIE.items())
def test_one_long_tie_has_its_closed_form(name, mean):
    # bpref subtracts numbers near 1.
    precision = 1e-9 if name == "bpref" else 1e-12
    tied = value(name, np.zeros(N), labels_of_one_relevant(), ties="expected")
    assert tied == pytest.approx(mean, rel=precision)


@pytest.mark.parametrize(("ties", "rank"), [("worst", N), ("best", 1), ("input", N // 3 + 1)])
def test_a_long_tie_ranks_its_relevant_document_as_the_policy_says(ties, rank):
    assert value("mrr", np.zeros(N), labels_of_one_relevant(), ties=ties) == 1 / rank


def test_a_long_tie_of_relevant_documents_alone_has_map_1():
    assert value("map", np.zeros(N), np.ones(N), ties="expected") == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("label", [1, 4])
def test_err_of_a_long_tie_of_equal_labels_is_a_logarithm(label):
    # Every order is worth the same, sum_r stop (1 - stop)^(r - 1) / r.
    stop = (2**label - 1) / 2**4
    series = stop * -math.log(stop) / (1 - stop)
    tied = value("err", np.zeros(N), np.full(N, label), ties="expected")
    assert tied == pytest.approx(series, rel=1e-12)


@pytest.mark.parametrize("relevant", [1, 2, 300, 1999, 2000])
def test_expected_mrr_and_err_of_a_long_binary_tie(relevant):
    """Against the chance that the first x - 1 are all irrelevant, as a ratio of exact binomials."""
    n = 2000
    labels = np.zeros(n)
    labels[:relevant] = 1
    first_at = [
        math.comb(n - x, relevant - 1) / math.comb(n, relevant) if n - x >= relevant - 1 else 0.0
        for x in range(1, n + 1)
    ]
    exact = math.fsum(chance / x for x, chance in enumerate(first_at, 1))
    assert value("mrr", np.zeros(n), labels, ties="expected") == pytest.approx(exact, rel=1e-12)
    cut = math.fsum(chance / x for x, chance in enumerate(first_at[:7], 1))
    assert value("mrr@7", np.zeros(n), labels, ties="expected") == pytest.approx(cut, rel=1e-12)


def test_expected_err_of_a_long_graded_tie_against_the_plain_recurrence():
    """The full recurrence over every document and every place, without the tail that is left out as
    invisible.
    """
    rng = np.random.default_rng(3)
    labels = rng.choice(5, size=700)
    passed = np.zeros(701)
    passed[0] = 1
    m = np.arange(701)
    for n, y in enumerate(labels, 1):
        q = 1 - (2.0**y - 1) / 16
        passed[1:] = (n - m[1:]) / n * passed[1:] + m[1:] / n * q * passed[:-1]
    exact = math.fsum((passed[:-1] - passed[1:]) / m[1:])
    assert value("err", np.zeros(700), labels, ties="expected") == pytest.approx(exact, rel=1e-11)
    below = np.concatenate([[1.0], np.zeros(700)])
    after = math.fsum((passed[:-1] - passed[1:]) / (m[1:] + 1)) * (1 - 3 / 16) + 3 / 16
    assert value("err", below, [2, *labels], ties="expected") == pytest.approx(after, rel=1e-11)


@pytest.mark.parametrize("ties", TIES)
def test_labels_above_31(ties):
    assert value("ndcg", [2.0, 1.0], [40, 0], ties=ties) == 1
    assert value("ndcg", [1.0, 2.0], [1000, 0], ties=ties) == pytest.approx(1 / math.log2(3))
    assert value("ndcg(gain=linear)", [1.0, 2.0], [1e6, 0], ties=ties) == pytest.approx(
        1 / math.log2(3)
    )
    assert value("err", [1.0, 2.0], [40, 0], ties=ties, max_label=40) == pytest.approx(0.5)
    assert value("dcg", [2.0, 1.0], [32, 32], ties=ties) == pytest.approx(
        (2**32 - 1) * (1 + 1 / math.log2(3))
    )
    assert value("arp", [2.0, 1.0], [1e300, 0], ties=ties) == 1e300
    assert value("map", [2.0, 1.0], [1e300, 0], ties=ties) == 1


def test_high_and_fractional_labels_break_ties_by_their_order():
    labels = np.array([1e9, 0.5, 70_000, 0.25, 2.0])
    assert rank_order(np.zeros(5), labels, [0, 5], "worst").tolist() == [3, 1, 4, 2, 0]
    assert rank_order(np.zeros(5), labels, [0, 5], "best").tolist() == [0, 2, 4, 1, 3]


def test_ties_of_a_list_too_long_for_packed_keys(monkeypatch):
    """Lists of millions do not fit (tie, label, position) into one integer: the other way gives the
    same order.
    """
    rng = np.random.default_rng(0)
    scores, labels, offsets = rng.integers(0, 4, 300), rng.integers(0, 5, 300), [0, 100, 101, 300]
    packed = [rank_order(scores, labels, offsets, ties) for ties in ("worst", "best", "input")]
    monkeypatch.setattr(ordering, "_KEY_BITS", 8)
    for ties, expected in zip(("worst", "best", "input"), packed, strict=True):
        np.testing.assert_array_equal(rank_order(scores, labels, offsets, ties), expected)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", METRICS)
def test_scores_far_apart_and_very_close(name, ties):
    labels = [0, 3, 1, 2]
    expected = value(name, [1.0, 2.0, 3.0, 4.0], labels, ties=ties)
    tiny = np.nextafter(0, 1)
    for scores in (
        [1.0, 1e6, 1e12, 1e300],
        [5e-324, 1e-300, 1.0, np.finfo(float).max],
        np.array([1, 2, 3, 4]) * tiny,
        1 + np.array([0, 1, 2, 3]) * np.finfo(float).eps,
        np.array([2**60 + 1, 2**60 + 2, 2**60 + 3, 2**60 + 4]),
        np.array([2**63 + 1, 2**63 + 2, 2**63 + 3, 2**63 + 4], np.uint64),
    ):
        assert value(name, scores, labels, ties=ties) == expected


def test_large_negative_integers_keep_their_sign():
    assert value("dcg-rr", np.array([-(2**60), 2**60, 0, 1]), [4, 2, 4, 2]) == 2 + 2 / 2


def test_float32_scores_tie_in_their_own_precision():
    close = np.array([1.0, 1.0 + 1e-12])
    assert value("mrr", close, [0, 1]) == 1
    assert value("mrr", close.astype(np.float32), [0, 1]) == 0.5


def test_minus_zero_ties_with_zero():
    assert value("mrr", [0.0, -0.0], [0, 1]) == 0.5
    assert value("mrr", [-0.0, 0.0], [0, 1]) == 0.5
    assert value("mrr", [0.0, -0.0], [1, 0]) == 0.5
    assert value("mrr", [0.0, -0.0], [1, 0], ties="expected") == 0.75


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ndcg", 1),
        ("dcg", 7),
        ("err", 7 / 16),
        ("mrr", 1),
        ("map", 1),
        ("precision@4", 1 / 4),
        ("precision", 1),
        ("recall", 1),
        ("arp", 3),
        ("lambdarank-metric", 0),
        ("dcg-rr", 3),
        ("success", 1),
        ("rbp", 0.2),
        ("rbp(graded=true)", 0.6),
        ("r-precision", 1),
        ("bpref", 1),
    ],
)
def test_one_document(name, expected, ties):
    assert value(name, [0.5], [3], ties=ties) == pytest.approx(expected, rel=1e-15)
    assert math.isnan(value(name, [0.5], [0], ties=ties))


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ndcg", 0),
        ("ndcg@1", 0),
        ("dcg", 0),
        ("err", 0),
        ("mrr", 0),
        ("map", 0),
        ("precision", 0),
        ("recall", 0),
        # The costs put it at the bottom: rank 2.
        ("arp", 2 * 2),
        ("lambdarank-metric", 1 - 1 / math.log2(3)),
        ("dcg-rr", 0),
        ("success", 0),
        ("rbp", 0),
        ("r-precision", 0),
        ("bpref", 0),
        ("auc", 0),
        # The other document is retrieved, and judged.
        ("judged", 1),
    ],
)
def test_a_relevant_document_not_retrieved(name, expected, ties):
    assert value(name, [-math.inf, -5.0], [2, 0], ties=ties) == pytest.approx(expected, rel=1e-15)


def test_not_retrieved_counts_in_what_could_have_been():
    scores, labels = [1.0, -math.inf], [1, 1]
    assert value("ndcg", scores, labels) == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert value("map", scores, labels) == 0.5
    assert value("recall", scores, labels) == 0.5
    assert value("precision", scores, labels) == 1
    assert value("precision@2", scores, labels) == 0.5
    # Tied at the bottom with the lowest finite score there is, and below it.
    lowest = np.finfo(np.float64).min
    assert value("arp", [lowest, -math.inf], [0, 1], ties="best") == 2


def test_weights_meet_empty_queries():
    scores, labels, offsets = [1.0, 2.0, 3.0, 4.0], [1, 0, 0, 0], [0, 2, 4]
    assert metric("mrr").mean(scores, labels, offsets, weights=[1, 1000]) == 0.5
    assert metric("mrr", empty="zero").mean(scores, labels, offsets, weights=[1, 3]) == 0.125
    assert metric("mrr", empty="one").mean(scores, labels, offsets, weights=[1, 3]) == 0.875
    assert math.isnan(metric("mrr").mean(scores, labels, offsets, weights=[0, 1]))
    assert math.isnan(metric("mrr").mean(scores, [0, 0, 0, 0], offsets))


def test_the_row_order_does_not_leak_into_a_constant_score():
    """Rows sorted by label, as real files often are, must not make a constant score look good."""
    labels = np.tile([2, 1, 0, 0, 0, 0], 50)
    offsets = np.arange(0, 301, 6)
    scores = np.zeros(300)
    assert metric("ndcg@5", ties="input").mean(scores, labels, offsets) == 1
    worst = metric("ndcg@5").mean(scores, labels, offsets)
    assert worst == metric("ndcg@5").mean(scores, labels[::-1], offsets)
    assert worst < metric("ndcg@5", ties="expected").mean(scores, labels, offsets) < 1
