"""The gammas of XE-NDCG that minimise the loss, and those that minimise the Jensen gap.

The loss bounds a number that does not depend on gamma (`xe_ndcg_bound`), so the gamma that minimises the loss gives the
tightest bound. The paper asks for the gamma with the smallest Jensen gap instead, and leaves finding it open; both
have exact answers here, and they differ.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.losses import XENDCG
from tautrank.metrics.ordering import F64, query_maxima
from tautrank.theory.distributions import check_gamma, check_scored_lists, gamma_targets, log_softmax


class BestGamma(NamedTuple):
    """A minimiser over all gammas in [0, 1], and the minimum.

    Args:
        gamma: one per document; 1 in queries without a relevant document.
        value: the minimum, one per query; NaN in queries without a relevant document.

    >>> BestGamma(np.array([0.0, 1.0]), np.array([0.5])).value
    array([0.5])
    """

    gamma: F64
    value: F64


def cross_entropy(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, gamma: ArrayLike) -> F64:
    """Return XE-NDCG with any gamma, ``-sum_i phi_i log rho_i``, one per query; NaN without a relevant document.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Definition 1.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        gamma: numbers in [0, 1], one per document or one for all.

    >>> cross_entropy([0.0, 0.0], [1, 0], [0, 2], [0.25, 0.5])  # any target costs log 2 here
    array([0.69314718])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    from tautrank.losses._softmax_kernel import softmax_values

    values = np.empty(lists.sizes.size)
    targets = gamma_targets(lists.labels, lists.offsets, gamma)
    softmax_values(s, targets, lists.offsets, lists.has_relevant.astype(np.float64), 0, values.size, values)
    values[~lists.has_relevant] = np.nan
    return values


def gammas_of(
    loss: XENDCG, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, *, seed: int = 0, step: int = 0
) -> F64:
    """Return the gammas that a ``xendcg`` loss uses, one per document.

    Args:
        loss: the loss, with a fixed, uniform or tight gamma.
        scores: one finite number per document; the tight gamma depends on them.
        labels, offsets: the lists, see `tautrank.theory`.
        seed: as in `Loss.bind`; the uniform gamma depends on it.
        step: as in `Objective.values`; the uniform gamma depends on it.

    >>> gammas_of(XENDCG(gamma=0.25), [0.0, 0.0], [1, 0], [0, 2])
    array([0.25, 0.25])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    if isinstance(loss.gamma, float):
        return check_gamma(loss.gamma, lists)
    if loss.gamma == "tight":
        return optimal_gamma(s, lists.labels, lists.offsets).gamma
    from tautrank.kernels.randomness import fill_uniform
    from tautrank.kernels.streams import GAMMA_STREAM

    gamma = np.empty(s.size)
    for query, (start, stop) in enumerate(pairwise(lists.offsets)):
        fill_uniform(gamma[start:stop], np.uint64(seed), step, query, GAMMA_STREAM)
    return gamma


def optimal_gamma(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> BestGamma:
    """Return the gamma that minimises the loss and so gives the tightest bound on NDCG, and that minimum.

    With ``c = -log rho`` the loss is ``sum t_i c_i / sum t_i`` with ``t_i = 2^y_i - gamma_i``, a ratio of linear
    functions over a box. Its minimum ``v`` is at a corner: ``gamma_i = 0`` where ``c_i < v``, and 1 elsewhere, found in
    one sort from the highest score down (``xendcg(gamma=tight)``). Where ``c_i = v`` any gamma is as good.

    The problem is that of Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.2, which
    leaves it open.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.

    >>> gamma, value = optimal_gamma([2.0, 0.0, 1.0], [0, 2, 1], [0, 3])
    >>> gamma  # the irrelevant document with the highest score is cheap: it gets all it can
    array([0., 1., 0.])
    >>> bool(value[0] == XENDCG(gamma="tight").bind([0, 2, 1], [0, 3]).values([2.0, 0.0, 1.0])[0])
    True
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    value = XENDCG(gamma="tight").bind(lists.labels, lists.offsets).values(s)
    value[~lists.has_relevant] = np.nan
    cost = -log_softmax(s, lists.offsets)
    # NaN compares false: a query without a relevant document gets gammas of 1.
    return BestGamma(np.where(cost < np.repeat(value, lists.sizes), 0.0, 1.0), value)


def smallest_jensen_gap(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> BestGamma:
    """Return the gamma with the smallest Jensen gap ``log sum phi_i rho_i - sum phi_i log rho_i``, and that gap.

    The gap is concave in ``phi``, so a corner of the box minimises it. At that corner ``phi`` also minimises the
    tangent of the gap, whose slopes ``rho_i / sum phi rho - log rho_i`` are convex in ``rho_i``: the documents with
    a gamma of 0 are consecutive in the order of the scores. Trying every such window takes ``n^2`` steps per query.

    The problem is that of Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.2.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.

    >>> gamma, gap = smallest_jensen_gap([2.0, 0.0, 1.0], [0, 2, 1], [0, 3])
    >>> gamma, gap.round(4)
    (array([1., 0., 1.]), array([0.0954]))
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    from tautrank.theory._kernels import smallest_jensen_gaps

    query = lists.query
    order = np.lexsort((-s, query))
    log_rho = log_softmax(s, lists.offsets)[order]
    highest = query_maxima(lists.labels, lists.offsets)
    unit = np.exp2(-highest)
    least = np.exp2(lists.labels - highest[query])[order] - unit[query]
    gaps, windows = smallest_jensen_gaps(log_rho, least, unit, lists.offsets)
    place = np.arange(s.size) - lists.offsets[query]
    inside = (place >= windows[query, 0]) & (place < windows[query, 1]) & lists.has_relevant[query]
    gamma = np.ones(s.size)
    gamma[order] = np.where(inside, 0.0, 1.0)
    gaps[~lists.has_relevant] = np.nan
    return BestGamma(gamma, gaps)
