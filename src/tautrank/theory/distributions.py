"""The two distributions over the documents of a query that cross entropy compares."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arrays import check_each, check_finite_scores, check_offsets, numbers
from tautrank.losses.base import Lists
from tautrank.metrics.ordering import F64, I64, query_maxima, query_sums


def check_scores(scores: ArrayLike, offsets: ArrayLike) -> tuple[F64, I64]:
    """Return scores as float64 and offsets as int64.

    >>> check_scores([0.0, float("nan")], [0, 2])
    Traceback (most recent call last):
    tautrank.errors.DataError: scores[1] (query 0, document 1): found nan; expected a finite number
    """
    s = numbers("scores", scores)
    cuts = check_offsets(offsets, s.size)
    check_finite_scores(s, cuts)
    return s, cuts


def check_scored_lists(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> tuple[F64, Lists]:
    """Return scores as float64, and the labelled lists of the same documents.

    >>> check_scored_lists([0.0], [1, 0], [0, 2])
    Traceback (most recent call last):
    tautrank.errors.DataError: scores: found length 1; expected 2, one per document
    """
    lists = Lists.of(labels, offsets, None)
    return numbers("scores", lists.scores(scores)), lists


def log_softmax(scores: ArrayLike, offsets: ArrayLike) -> F64:
    """Return ``log rho``, where ``rho_i = exp(s_i) / sum_j exp(s_j)`` over the documents of the query.

    Args:
        scores, offsets: the lists, see `tautrank.theory`.

    >>> log_softmax([0.0, 0.0, 7.0], [0, 2, 3])
    array([-0.69314718, -0.69314718,  0.        ])
    """
    s, cuts = check_scores(scores, offsets)
    sizes = np.diff(cuts)
    centred = s - np.repeat(query_maxima(s, cuts), sizes)
    totals = query_sums(np.exp(centred), cuts)
    logs = np.log(totals, out=np.zeros_like(totals), where=totals > 0)
    return np.asarray(centred - np.repeat(logs, sizes))


def gamma_targets(labels: ArrayLike, offsets: ArrayLike, gamma: ArrayLike) -> F64:
    """Return the targets of XE-NDCG, ``phi_i = (2^y_i - gamma_i) / sum_j (2^y_j - gamma_j)``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Definition 1.

    Args:
        labels, offsets: the lists, see `tautrank.theory`.
        gamma: numbers in [0, 1], one per document, or one for all.

    >>> gamma_targets([2, 1, 0], [0, 3], 1.0)
    array([0.75, 0.25, 0.  ])
    >>> gamma_targets([2, 1], [0, 2], [0.0, 1.5])
    Traceback (most recent call last):
    tautrank.errors.DataError: gamma[1] (query 0, document 1): found 1.5; expected a number from 0 to 1
    """
    lists = Lists.of(labels, offsets, None)
    g = check_gamma(gamma, lists)
    # In units of the query's highest 2^y, so that no label overflows.
    highest = np.repeat(query_maxima(lists.labels, lists.offsets), lists.sizes)
    t = (np.exp2(lists.labels - highest) - np.exp2(-highest)) + np.exp2(-highest) * (1.0 - g)
    totals = query_sums(t, lists.offsets)
    shares = np.divide(1.0, totals, out=np.zeros_like(totals), where=totals > 0)
    return np.asarray(t * np.repeat(shares, lists.sizes))


def check_gamma(gamma: ArrayLike, lists: Lists) -> F64:
    """Return gamma as float64, one per document.

    Args:
        gamma: numbers in [0, 1], one per document, or one for all.
        lists: the labelled lists.

    >>> check_gamma(0.5, Lists.of([1, 0], [0, 2], None))
    array([0.5, 0.5])
    """
    array = np.asarray(gamma)
    if array.ndim == 0:
        array = np.broadcast_to(array, lists.labels.shape)
    g = numbers("gamma", array, size=lists.labels.size)
    check_each("gamma", g, (g >= 0) & (g <= 1), "a number from 0 to 1", lists.offsets)
    return g
