"""scikit-learn: DCG and NDCG averaged over ties, with the label itself as gain; average
precision.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    dcg_score,
    label_ranking_average_precision_score,
    ndcg_score,
    roc_auc_score,
)

from .lists import LOG2, agree, one, random_lists

CUTOFFS = [None, 1, 3, 10, 100]
TIED = random_lists(0, shortest=2, tied=True)
UNTIED = random_lists(1, shortest=2)


def named(metric, k):
    return metric if k is None else f"{metric}@{k}"


def rows(*lists):
    return [np.array([values], dtype=float) for values in lists]


# --- where conventions coincide ---


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize(("metric", "score"), [("ndcg", ndcg_score), ("dcg", dcg_score)])
def test_tie_averaged_with_linear_gain(metric, score, k):
    expected = [score(*rows(y, s), k=k) for s, y in TIED]
    agree(TIED.ours(named(metric, k), ties="expected", gain="linear", empty="zero"), expected)


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize(("metric", "score"), [("ndcg", ndcg_score), ("dcg", dcg_score)])
def test_exponential_gain_given_as_the_label(metric, score, k):
    expected = [score(*rows(2.0**y - 1, s), k=k) for s, y in TIED]
    agree(TIED.ours(named(metric, k), ties="expected", empty="zero"), expected)


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize("ties", ["worst", "expected", "best", "input"])
def test_without_ties_every_policy_agrees(ties, k):
    for ignore_ties in (False, True):
        expected = [ndcg_score(*rows(y, s), k=k, ignore_ties=ignore_ties) for s, y in UNTIED]
        agree(UNTIED.ours(named("ndcg", k), ties=ties, gain="linear", empty="zero"), expected)


@pytest.mark.parametrize("relevant", [1, 3])
def test_average_precision_without_ties(relevant):
    ours = UNTIED.ours("map", relevant=relevant)
    expected = [
        average_precision_score(y >= relevant, s) for s, y in UNTIED if (y >= relevant).any()
    ]
    agree(ours[~np.isnan(ours)], expected)


def test_label_ranking_average_precision_without_ties():
    expected = [label_ranking_average_precision_score(*rows(y > 0, s)) for s, y in UNTIED]
    agree(UNTIED.ours("map", empty="one"), expected)


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize(("metric", "score"), [("ndcg", ndcg_score), ("dcg", dcg_score)])
def test_preset(metric, score, k):
    agree(TIED.ours(named(metric, k), like="sklearn"), [score(*rows(y, s), k=k) for s, y in TIED])


@pytest.mark.parametrize("relevant", [1, 3])
def test_preset_of_auc(relevant):
    ours = TIED.ours("auc", like="sklearn", relevant=relevant)
    pairs = [(y >= relevant, s) for s, y in TIED]
    agree(ours[~np.isnan(ours)], [roc_auc_score(y, s) for y, s in pairs if y.any() and not y.all()])
    with pytest.warns(UserWarning, match="Only one class"):
        assert np.isnan(roc_auc_score([0, 0], [2.0, 1.0]))
    assert np.isnan(one("auc", [2.0, 1.0], [0, 0], like="sklearn"))


# --- where they do not ---


def test_gain_is_the_label():
    # Labels 2 and 1 in the wrong order. Gains 2 and 1 there, 2^2 - 1 = 3 and 2^1 - 1 = 1 here by
    # default.
    y, s = [2, 1], [1.0, 2.0]
    agree(ndcg_score(*rows(y, s)), (1 + 2 * LOG2[1]) / (2 + 1 * LOG2[1]))
    agree(one("ndcg", s, y), (1 + 3 * LOG2[1]) / (3 + 1 * LOG2[1]))
    agree(one("ndcg", s, y, gain="linear"), ndcg_score(*rows(y, s)))


def test_ties_are_averaged_there_and_worst_here_by_default():
    # Two documents with one score: rank 1 or 2 with equal chance there; here the relevant one is
    # second.
    y, s = [1, 0], [0.0, 0.0]
    agree(ndcg_score(*rows(y, s)), (1 + LOG2[1]) / 2)
    agree(one("ndcg", s, y), LOG2[1])
    agree(one("ndcg", s, y, ties="best"), 1.0)


def test_ignore_ties_lets_the_row_order_decide():
    # One relevant row among eight with one score: moving it through the rows moves it through the
    # ranks, all of them. Here every row gives the same.
    placements = np.eye(8)
    values = [ndcg_score(*rows(y, np.zeros(8)), ignore_ties=True) for y in placements]
    agree(sorted(values, reverse=True), LOG2[:8])
    agree([one("ndcg", [0.0] * 8, list(y)) for y in placements], [LOG2[7]] * 8)


def test_empty_queries_are_zero_and_counted():
    y, s = [[1, 0], [0, 0]], [[2.0, 1.0], [2.0, 1.0]]
    assert ndcg_score(y, s) == 0.5
    assert one("ndcg", [2.0, 1.0], [0, 0], empty="zero") == 0.0
    assert np.isnan(one("ndcg", [2.0, 1.0], [0, 0]))  # the default leaves them out of the mean
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "No positive class found in y_true"
        assert average_precision_score([0, 0], [2.0, 1.0]) == 0.0
    # ... but its multilabel cousin says 1.
    assert label_ranking_average_precision_score([[0, 0]], [[2.0, 1.0]]) == 1.0


def test_average_precision_takes_a_tie_as_one_step():
    # Four documents, two of them relevant, one score. There a tie is a single point of the
    # precision-recall curve, with precision 2/4. Here the worst order is 0 0 1 1: (1/3 + 2/4)/2 =
    # 5/12; the mean over orders is sum over ranks x of 1/2 (1 + (x-1)/3)/x, over 2: 49/72; the best
    # order gives 1.
    y, s = [0, 1, 0, 1], [0.0] * 4
    agree(average_precision_score(y, s), 1 / 2)
    agree(one("map", s, y), 5 / 12)
    agree(one("map", s, y, ties="expected"), 49 / 72)
    agree(one("map", s, y, ties="best"), 1.0)


def test_label_ranking_average_precision_counts_every_tied_document_as_above():
    # Rank 4 of 4 for both relevant documents, both among the 4: precision 2/4 at each.
    agree(label_ranking_average_precision_score([[0, 1, 0, 1]], [[0.0] * 4]), 1 / 2)


def test_lists_of_one_document_are_refused_there():
    with pytest.raises(ValueError, match="more than 1 document"):
        ndcg_score([[1]], [[0.5]])
    assert one("ndcg", [0.5], [1]) == 1.0


def test_documents_not_retrieved_cannot_be_said_there():
    with pytest.raises(ValueError, match="infinity"):
        ndcg_score([[1, 1]], [[-np.inf, 0.5]])
    # One of two relevant documents, at rank 1: 1 / (1 + 1/log2(3)).
    agree(one("ndcg", [-np.inf, 0.5], [1, 1]), 1 / (1 + LOG2[1]))
