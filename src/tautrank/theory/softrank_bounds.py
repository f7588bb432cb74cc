"""How far SoftNDCG is from NDCG: the bound of He and Liu in sigma, as printed and as proved, and a
sharper one.

Their setting is that of `SoftRank` on full lists: scores at least ``delta`` apart, ``N`` documents,
labels from 0 to ``K - 1``. The base of their logarithm cancels in NDCG, and of the gain they use no
more than that none is above the maximal DCG: ``2^y`` (theirs) and ``2^y - 1`` are the same to the
theorem. With ``x = delta / (2 sigma)``:

- the proof gives ``2^(K-1) N (e1 + sqrt(v / (1 - 5 v)) + 5 v)`` with
  ``v = (N - 1)/4 (1 - erf(x)^2)``, and needs ``v < 1/5``, which is
  ``sigma < delta / (2 erfinv(sqrt(1 - 4/(5 (N - 1)))))``;
- the statement has ``1 - erf(x)^2`` in the place of ``v``, and allows every
  ``sigma < delta / (2 erfinv(sqrt((N - 2)/(N - 1))))``.

Both have ``e1 = (N - 1) sigma / (2 delta sqrt(pi)) exp(-x^2)``. Both hold wherever they are
numbers, the second one for a reason that the paper does not give: scores on a line cannot all be
``delta`` apart, the k-th neighbours of a document are ``k delta`` away, and so the variance of its
rank is below ``1 - erf(x)^2`` however long the list. `docs/theory.md` has what does not hold.

He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice, real
from tautrank.arrays import F64, I64, Array, numbers, query_of
from tautrank.losses import REGISTRY, Loss, SoftRank
from tautrank.losses.base import TrainingLists
from tautrank.metrics import Discount, discount_values, metric
from tautrank.metrics.ordering import query_maxima
from tautrank.theory.loss_bounds import not_on_full_lists
from tautrank.theory.theorem import Bound, document_pairs, in_scope, sees_scores

VERSIONS = ("proof", "stated", "contests")
"""The bounds on ``|NDCG - SoftNDCG|`` that `softrank_ndcg_bound` knows."""


def not_about_softrank(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of a theorem about SoftNDCG.

    >>> not_about_softrank(SoftRank(estimator="ccs"), np.zeros(1), TrainingLists.of([1], [0, 1]))
    'it is about softrank with its exact gradient and without noise'
    """
    if isinstance(loss, SoftRank) and sees_scores(loss) and loss.estimator == "exact":
        return None
    return "it is about softrank with its exact gradient and without noise"


def not_about_full_softrank(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    """Condition of the theorem as proved and as stated: full lists and the logarithmic discount.

    >>> not_about_full_softrank(SoftRank(k=1), np.zeros(2), TrainingLists.of([1, 0], [0, 2]))
    'it is about full lists: k is 1, the longest list has 2 documents'
    """
    reason = not_about_softrank(loss, scores, lists)
    if reason is None:
        reason = not_on_full_lists(loss, lists)
    if reason is None and loss.discount != "log2":
        reason = "it is about the logarithmic discount"
    return reason


def softrank_bound(
    sigma: ArrayLike, delta: ArrayLike, documents: ArrayLike, highest_label: ArrayLike
) -> F64:
    """Return the bound on ``|NDCG - SoftNDCG|`` that the proof of the theorem gives; it falls with
    sigma.

    ``2^(K-1) N (e1 + sqrt(v / (1 - 5 v)) + 5 v)``, see the head of this module; infinity, which is
    no bound at all, from `softrank_sigma_limit` on.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, proof of
    Theorem 2.

    Args:
        sigma: standard deviation of the scores, above 0. All arguments are numbers or arrays.
        delta: least distance of two scores, above 0.
        documents: number of documents, N.
        highest_label: highest possible label, K - 1.

    >>> softrank_bound([0.15, 0.25, 0.35, 0.45], 1.0, 10, 1).round(3)
    array([ 0.067,  5.396, 62.253,    inf])
    """
    sigma, delta, n, top = _checked_setting(sigma, delta, documents, highest_label)
    return _sum_of_epsilons(sigma, delta, n, top, 0.25 * (n - 1.0))


def softrank_bound_as_stated(
    sigma: ArrayLike, delta: ArrayLike, documents: ArrayLike, highest_label: ArrayLike
) -> F64:
    """Return the bound on ``|NDCG - SoftNDCG|`` that the theorem states, without the factor
    ``(N - 1)/4``.

    Infinity from `softrank_sigma_limit_as_stated` on, where the theorem says nothing. NaN where the
    formula takes the square root of a negative number: with two to five documents, when
    ``1 - erf(x)^2 >= 1/5``.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 2.

    Args:
        sigma: standard deviation of the scores, above 0. All arguments are numbers or arrays.
        delta: least distance of two scores, above 0.
        documents: number of documents, N.
        highest_label: highest possible label, K - 1.

    >>> softrank_bound_as_stated([0.15, 0.25, 0.35, 0.45], 1.0, 10, 1).round(3)
    array([ 0.045,  3.145, 18.467,    inf])
    >>> softrank_bound_as_stated([0.15, 0.25, 0.45, 0.75], 1.0, 3, 1).round(3)
    array([0.013, 0.889,   nan,   inf])
    """
    sigma, delta, n, top = _checked_setting(sigma, delta, documents, highest_label)
    bound = _sum_of_epsilons(sigma, delta, n, top, np.ones_like(n))
    claimed = sigma < softrank_sigma_limit_as_stated(delta, n)
    return np.where(claimed, np.where(np.isinf(bound), np.nan, bound), np.inf)


def softrank_sigma_limit(delta: ArrayLike, documents: ArrayLike) -> F64:
    """Return the sigma below which the proof of the theorem holds,
    ``delta / (2 erfinv(sqrt(1 - 4/(5 (N - 1)))))``.

    There the variance of every rank is below 1/5.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, proof of
    Theorem 2.

    Args:
        delta: least distance of two scores, above 0. Both arguments are numbers or arrays.
        documents: number of documents; with one there is no limit.

    >>> softrank_sigma_limit(1.0, [2, 10, 100]).round(4)
    array([1.1912, 0.3535, 0.246 ])
    """
    return _sigma_limit(delta, documents, 0.8)


def softrank_sigma_limit_as_stated(delta: ArrayLike, documents: ArrayLike) -> F64:
    """Return the sigma below which the theorem is stated to hold,
    ``delta / (2 erfinv(sqrt((N - 2)/(N - 1))))``.

    It is larger than `softrank_sigma_limit`: the proof shows that the condition it needs implies
    this one, and then uses this one as if it implied the other.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 2.

    Args:
        delta: least distance of two scores, above 0. Both arguments are numbers or arrays.
        documents: number of documents; with one or two there is no limit.

    >>> softrank_sigma_limit_as_stated(1.0, [2, 10, 100]).round(4)
    array([   inf, 0.3718, 0.2523])
    """
    return _sigma_limit(delta, documents, 1.0)


def softrank_ndcg_bound(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    loss: Loss | str = "softrank",
    *,
    version: str = "proof",
) -> Bound:
    """Compare a bound with ``|NDCG - SoftNDCG|`` for each query.

    ``version="proof"`` is `softrank_bound` and ``version="stated"`` is `softrank_bound_as_stated`,
    with the least distance, the number of documents and the highest label of each query. They need
    the full list, the logarithmic discount, and no ties; queries they are not about are NaN.

    ``version="contests"`` is sharper, and needs none of that. Every contest that noise reverses
    moves two documents by one rank, which is worth at most the largest step
    ``d = max_r |1/D_r - 1/D_(r+1)|`` of the discount (at a cutoff it falls to 0). Where two scores
    are ``g`` apart this happens with probability ``erfc(g / (2 sigma)) / 2``, so

        |NDCG@k - SoftNDCG@k| <= d sum_{i<j} (G_i + G_j) erfc(|s_i - s_j| / (2 sigma)) / 2

    for every sigma, and for every tie policy of the metric.

    The first two: He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*,
    2008, Theorem 2.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        loss: a ``softrank`` loss with its exact gradient and without noise, or its name.
        version: ``"proof"``, ``"stated"`` or ``"contests"``.

    >>> lists = [3.0, 2.0, 1.0, 0.0], [0, 2, 1, 0], [0, 4]
    >>> softrank_ndcg_bound(*lists, "softrank(sigma=0.3)")
    bound >= |NDCG - SoftNDCG|: 5.293 >= 0.00195 on average over 1 query, the smallest gap 5.291; holds
    >>> softrank_ndcg_bound(*lists, "softrank(sigma=0.3)", version="contests")
    bound >= |NDCG - SoftNDCG|: 0.007491 >= 0.00195 on average over 1 query, the smallest gap 0.00554; holds
    """
    choice("version", version, VERSIONS)
    unless = not_about_softrank if version == "contests" else not_about_full_softrank
    chosen, s, lists = in_scope(loss, scores, labels, offsets, unless)
    y, cuts = lists.labels, lists.offsets
    ndcg = metric("ndcg", k=chosen.k, gain=chosen.gain, discount=chosen.discount).per_query(
        s, y, cuts
    )
    lower = np.abs(1.0 - chosen.bind(y, cuts).values(s) - ndcg)
    if version == "contests":
        upper = _contests_bound(chosen, s, lists)
    else:
        function = softrank_bound if version == "proof" else softrank_bound_as_stated
        upper = np.full_like(lower, np.nan)
        delta = least_distances(s, lists.offsets)
        delta[lists.sizes == 1] = 1.0  # alone: of any distance, and the bound is 0
        spoken = (delta > 0) & (lists.sizes > 0)
        tops = query_maxima(lists.labels, lists.offsets)
        upper[spoken] = function(chosen.sigma, delta[spoken], lists.sizes[spoken], tops[spoken])
        upper[np.isinf(upper)] = np.nan
    return Bound(name="bound >= |NDCG - SoftNDCG|", upper=upper, lower=lower)


class SoftRankCurve(NamedTuple):
    """How SoftNDCG approaches NDCG as sigma falls; the first index is sigma, the second the query.

    Args:
        sigma: one per row.
        difference: ``|NDCG - SoftNDCG|``; NaN without a relevant document.
        bound: `softrank_bound`; infinity where it says nothing.
        bound_as_stated: `softrank_bound_as_stated`; NaN where it is not a number, infinity where it
            says nothing.
        bound_by_contests: the sharper bound of `softrank_ndcg_bound`.

    >>> softrank_curve([2.0, 1.0, 0.0], [0, 1, 0], [0, 3], [0.5, 0.1]).difference.shape
    (2, 1)
    """

    sigma: F64
    difference: F64
    bound: F64
    bound_as_stated: F64
    bound_by_contests: F64


def softrank_curve(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    sigmas: ArrayLike,
    loss: Loss | str = "softrank",
) -> SoftRankCurve:
    """Return ``|NDCG - SoftNDCG|`` and its bounds for several sigmas.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 2.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        sigmas: standard deviations of the scores, each above 0.
        loss: a ``softrank`` loss for all but sigma, or its name; full lists and the logarithmic
            discount.

    >>> curve = softrank_curve([2.0, 1.0, 0.0], [0, 1, 0], [0, 3], [0.5, 0.25, 0.125])
    >>> curve.difference[:, 0].round(6)
    array([0.017257, 0.000556, 0.      ])
    >>> bool((curve.difference <= curve.bound_by_contests).all())
    True
    >>> bool((curve.bound_by_contests <= curve.bound).all())
    True
    """
    chosen = REGISTRY.make(loss)
    widths = numbers("sigmas", sigmas, "point of the curve")
    shape = widths.size, np.asarray(offsets).size - 1
    difference, uppers = np.empty(shape), {version: np.empty(shape) for version in VERSIONS}
    for at, sigma in enumerate(widths.tolist()):
        for version, upper in uppers.items():
            found = softrank_ndcg_bound(
                scores, labels, offsets, REGISTRY.make(chosen, sigma=sigma), version=version
            )
            difference[at], upper[at] = (
                found.lower,
                found.upper,
            )  # the last version is about every query
    return SoftRankCurve(widths, difference, *uppers.values())


def flip_sums(
    scores: F64,
    labels: F64,
    weight: Callable[[I64, I64], Array],
    offsets: I64,
    sigmas: F64,
    mus: F64,
) -> F64:
    """Return the sum over the pairs of each query, each pair times the probability that noise
    reverses it.

    Noisy scores are ``s_i + sigma (eps_i - mu y_i)``. A sigma of 0 is the limit from above: noise
    then reverses tied documents only.

    Args:
        scores: one per document; the documents of each query go from the first rank to the last.
        labels: one per document.
        weight: from the two documents of each pair to what it counts.
        offsets: start of each query, and the number of documents at the end.
        sigmas: standard deviation of the noise, one per query.
        mus: shift of the noise's mean per unit of the label, one per query.

    >>> flip_sums(np.zeros(2), np.zeros(2), lambda i, j: i + j, np.array([0, 2]), np.ones(1), np.ones(1))
    array([0.5])
    """
    from scipy.special import erfc

    sums, query = np.zeros(offsets.size - 1), query_of(offsets)
    for i, j in document_pairs(offsets):
        gap, pull = scores[i] - scores[j], mus[query[i]] * (labels[i] - labels[j])
        with np.errstate(divide="ignore", over="ignore"):
            lead = np.divide(gap, sigmas[query[i]], out=np.zeros_like(gap), where=gap > 0)
        np.add.at(sums, query[i], 0.5 * weight(i, j) * erfc(0.5 * (lead - pull)))
    return sums


def least_distances(scores: F64, offsets: I64) -> F64:
    """Return the least distance of two scores in each query: 0 with ties, infinity with one
    document or none.

    >>> least_distances(np.array([0.0, 3.0, 1.0, 5.0]), np.array([0, 3, 4]))
    array([ 1., inf])
    """
    sizes = np.diff(offsets)
    gaps = np.diff(scores[np.lexsort((scores, query_of(offsets)))], prepend=0.0)
    gaps[offsets[:-1][sizes > 0]] = np.inf  # the first document of a query has none before it
    return np.where(sizes > 0, -query_maxima(-gaps, offsets), np.inf)


def largest_steps(discount: Discount, k: int | None, lists: TrainingLists) -> F64:
    """Return the largest change of the discount from one rank of a list to the next, one per query.

    Args:
        discount: ``"log2"``, ``"reciprocal"``, or a table by rank.
        k: the cutoff, behind which it is 0; None for none.
        lists: the labelled lists.

    >>> largest_steps("reciprocal", 2, TrainingLists.of([0, 0, 0, 1], [0, 1, 4]))
    array([0. , 0.5])
    """
    values = discount_values(lists.longest + 1, discount, k)
    # A list of n documents has n - 1 steps; one that ends before the cutoff does not fall to 0.
    return np.concatenate(([0.0, 0.0], np.maximum.accumulate(-np.diff(values))))[lists.sizes]


def _contests_bound(loss: SoftRank, scores: F64, lists: TrainingLists) -> F64:
    y, cuts = lists.labels, lists.offsets
    ideal = metric("dcg", k=loss.k, gain=loss.gain, discount=loss.discount).per_query(y, y, cuts)
    order = np.lexsort((-scores, lists.query))
    gains = lists.gains(loss.gain)[order]
    sigmas, mus = np.full(ideal.size, loss.sigma), np.zeros(ideal.size)
    sums = flip_sums(scores[order], y[order], lambda i, j: gains[i] + gains[j], cuts, sigmas, mus)
    return largest_steps(loss.discount, loss.k, lists) * sums / ideal


def _sum_of_epsilons(sigma: F64, delta: F64, n: F64, highest_label: F64, factor: F64) -> F64:
    """Return ``2^(K-1) N (e1 + sqrt(v / (1 - 5 v)) + 5 v)``, ``v = factor (1 - erf(x)^2)``;
    infinity from 1/5 on.
    """
    from scipy.special import erfc

    x = delta / (2.0 * sigma)
    first = (n - 1.0) * sigma / (2.0 * np.sqrt(np.pi) * delta) * np.exp(-(x**2))
    # 1 - erf(x)^2, accurate where erf is nearly 1.
    variance = factor * (erfc(x) * (2.0 - erfc(x)))
    below = variance < 0.2
    v = np.where(below, variance, 0.0)
    return np.where(
        below, np.exp2(highest_label) * n * (first + np.sqrt(v / (1.0 - 5.0 * v)) + 5.0 * v), np.inf
    )


def _sigma_limit(delta: ArrayLike, documents: ArrayLike, share: float) -> F64:
    """Return the sigma at which ``(N - 1)/4 (1 - erf(x)^2)`` reaches ``share / 4``."""
    from scipy.special import erfinv

    _, distance, n, _ = _checked_setting(1.0, delta, documents, 0.0)
    inside = np.maximum(1.0 - np.divide(share, n - 1.0, out=np.ones_like(n), where=n > 1.0), 0.0)
    # With few documents no sigma is too large: erfinv(0) = 0.
    with np.errstate(divide="ignore"):
        return distance / (2.0 * erfinv(np.sqrt(inside)))


def _checked_setting(
    sigma: ArrayLike, delta: ArrayLike, documents: ArrayLike, highest_label: ArrayLike
) -> list[F64]:
    checked = np.vectorize(real, otypes=[np.float64])
    noise, distance = checked("sigma", sigma, above=True), checked("delta", delta, above=True)
    n, top = checked("documents", documents, least=1), checked("highest_label", highest_label)
    return list(np.broadcast_arrays(noise, distance, n, top))
