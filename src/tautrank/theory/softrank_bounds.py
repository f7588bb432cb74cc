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

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import choice, real
from tautrank.arrays import F64, I64, Array, numbers, query_of
from tautrank.data import Lists
from tautrank.losses import REGISTRY, Loss, SoftRank
from tautrank.metrics import DCG, NDCG, Discount, discount_values, gain_values
from tautrank.metrics.ordering import query_maxima
from tautrank.theory.loss_bounds import not_on_full_lists
from tautrank.theory.theorem import (
    Bound,
    Labelled,
    check_lists,
    document_pairs,
    float_labels,
    in_scope,
    sees_scores,
)

VERSIONS = ("proof", "stated", "contests")
"""The bounds on ``|NDCG - SoftNDCG|`` that `softrank_ndcg_bound` knows."""


def not_about_softrank(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Condition of a theorem about SoftNDCG.

    >>> not_about_softrank(SoftRank(estimator="ccs"), np.zeros(1), Lists.of([1]))
    'it is about softrank with its exact gradient and without noise'
    """
    if isinstance(loss, SoftRank) and sees_scores(loss) and loss.estimator == "exact":
        return None
    return "it is about softrank with its exact gradient and without noise"


def not_about_full_softrank(loss: Any, scores: F64, lists: Lists) -> str | None:
    """Return why SoftRank's Theorem 2 is not about a loss and lists; None where it is: on full
    lists, without a cutoff, and with the logarithmic discount.

    >>> not_about_full_softrank(SoftRank(k=1), np.zeros(2), Lists.of([1, 0]))
    'it is about full lists: k is 1, the longest list has 2 documents'
    """
    reason = not_about_softrank(loss, scores, lists)
    if reason is None:
        reason = not_on_full_lists(loss, lists)
    if reason is None and loss.discount != "log2":
        reason = "it is about the logarithmic discount"
    return reason


class _Setting(NamedTuple):
    """What the bound of Theorem 2 is about: four arrays of the same shape.

    Attributes:
        sigma: standard deviation of the scores.
        delta: least distance of two scores.
        n: number of documents.
        highest_label: highest possible label.
    """

    sigma: F64
    delta: F64
    n: F64
    highest_label: F64


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
    setting = _checked_setting(sigma, delta, documents, highest_label)
    return _sum_of_epsilons(setting, factor=0.25 * (setting.n - 1.0))


def softrank_bound_as_stated(
    sigma: ArrayLike, delta: ArrayLike, documents: ArrayLike, highest_label: ArrayLike
) -> F64:
    """Return SoftRank's bound on ``|NDCG - SoftNDCG|`` for given sigma, distance of scores, number
    of documents and highest label, as the theorem states it: without its proof's ``(N - 1)/4``.

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
    setting = _checked_setting(sigma, delta, documents, highest_label)
    # The formula of the bound; the factor is (N - 1)/4 in the proof, and 1 in the statement.
    bound = _sum_of_epsilons(setting, factor=np.ones_like(setting.n))
    is_claimed = setting.sigma < softrank_sigma_limit_as_stated(setting.delta, setting.n)
    # The formula gives infinity where it would take the root of a negative number.
    is_number = np.isfinite(bound)
    return np.where(is_claimed, np.where(is_number, bound, np.nan), np.inf)


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
    lists: Labelled,
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
        scores, lists: the lists, see `tautrank.theory`.
        loss: a ``softrank`` loss with its exact gradient and without noise, or its name.
        version: ``"proof"``, ``"stated"`` or ``"contests"``.

    >>> scores, labels = [3.0, 2.0, 1.0, 0.0], [0, 2, 1, 0]
    >>> softrank_ndcg_bound(scores, labels, "softrank(sigma=0.3)")
    bound >= |NDCG - SoftNDCG|: 5.293 >= 0.00195 on average over 1 query, the smallest gap 5.291; holds
    >>> softrank_ndcg_bound(scores, labels, "softrank(sigma=0.3)", version="contests")
    bound >= |NDCG - SoftNDCG|: 0.007491 >= 0.00195 on average over 1 query, the smallest gap 0.00554; holds
    """
    choice("version", version, VERSIONS)
    softrank: Any = REGISTRY.make(loss)
    # `in_scope` refuses a loss that the bound is not about, with the reason that `unless` gives.
    unless = not_about_softrank if version == "contests" else not_about_full_softrank
    scores, lists = in_scope(softrank, scores, lists, unless)
    ndcg = NDCG(k=softrank.k, gain=softrank.gain, discount=softrank.discount)
    # The value of the loss is 1 - SoftNDCG.
    soft_ndcg = 1.0 - softrank.bind(lists).values(scores)
    difference = np.abs(soft_ndcg - ndcg.per_query(scores, lists))
    if version == "contests":
        bound = _contests_bound(softrank, scores, lists)
    elif version == "proof":
        bound = _bound_of_lists(softrank_bound, softrank, scores, lists)
    else:
        bound = _bound_of_lists(softrank_bound_as_stated, softrank, scores, lists)
    return Bound(name="bound >= |NDCG - SoftNDCG|", upper=bound, lower=difference)


def _bound_of_lists(
    bound: Callable[[float, F64, I64, F64], F64], loss: SoftRank, scores: F64, lists: Lists
) -> F64:
    """Return a bound on ``|NDCG - SoftNDCG|`` for each query, from the least distance of its
    scores, the number of its documents and its highest label; NaN where there is no bound: in a
    query with ties or without documents, or where the formula gives infinity.

    Args:
        bound: `softrank_bound` or `softrank_bound_as_stated`.
        loss: the loss, whose sigma is the standard deviation of every score.
        scores: one per document.
        lists: the labelled lists.
    """
    distances = least_distances(scores, lists.offsets)
    # A single document has no distance: any will do, since the bound is 0.
    distances[lists.sizes == 1] = 1.0
    highest_labels = query_maxima(float_labels(lists), lists.offsets)
    applies = (distances > 0) & (lists.sizes > 0)
    bounds = np.full(lists.n_queries, np.nan)
    bounds[applies] = bound(
        loss.sigma, distances[applies], lists.sizes[applies], highest_labels[applies]
    )
    bounds[np.isinf(bounds)] = np.nan
    return bounds


class SoftRankCurve(NamedTuple):
    """How SoftNDCG approaches NDCG as sigma falls; the first index is sigma, the second the query.

    Args:
        sigma: one per row.
        difference: ``|NDCG - SoftNDCG|``; NaN without a relevant document.
        bound: `softrank_bound`; infinity where it says nothing.
        bound_as_stated: `softrank_bound_as_stated`; NaN where it is not a number, infinity where it
            says nothing.
        bound_by_contests: the sharper bound of `softrank_ndcg_bound`.

    >>> softrank_curve([2.0, 1.0, 0.0], [0, 1, 0], [0.5, 0.1]).difference.shape
    (2, 1)
    """

    sigma: F64
    difference: F64
    bound: F64
    bound_as_stated: F64
    bound_by_contests: F64


def softrank_curve(
    scores: ArrayLike,
    lists: Labelled,
    sigmas: ArrayLike,
    loss: Loss | str = "softrank",
) -> SoftRankCurve:
    """Return ``|NDCG - SoftNDCG|`` and its bounds for several sigmas.

    He and Liu, *Are Algorithms Directly Optimizing IR Measures Really Direct?*, 2008, Theorem 2.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        sigmas: standard deviations of the scores, each above 0.
        loss: a ``softrank`` loss for all but sigma, or its name; full lists and the logarithmic
            discount.

    >>> curve = softrank_curve([2.0, 1.0, 0.0], [0, 1, 0], [0.5, 0.25, 0.125])
    >>> curve.difference[:, 0].round(6)
    array([0.017257, 0.000556, 0.      ])
    >>> bool((curve.difference <= curve.bound_by_contests).all())
    True
    >>> bool((curve.bound_by_contests <= curve.bound).all())
    True
    """
    softrank = REGISTRY.make(loss)
    sigmas = numbers("sigmas", sigmas, "point of the curve")
    differences = []
    bounds: dict[str, list[F64]] = {version: [] for version in VERSIONS}
    for sigma in sigmas.tolist():
        with_sigma = REGISTRY.make(softrank, sigma=sigma)
        for version in VERSIONS:
            bound = softrank_ndcg_bound(scores, lists, with_sigma, version=version)
            bounds[version].append(bound.upper)
        # The lower side is the difference itself, the same for all versions; that of the last one,
        # "contests", is about every query, where the others have NaN.
        differences.append(bound.lower)
    n_queries = check_lists(lists).n_queries
    shape = sigmas.size, n_queries
    return SoftRankCurve(
        sigma=sigmas,
        difference=np.reshape(differences, shape),
        bound=np.reshape(bounds["proof"], shape),
        bound_as_stated=np.reshape(bounds["stated"], shape),
        bound_by_contests=np.reshape(bounds["contests"], shape),
    )


class Noise(NamedTuple):
    """Normal noise of scores, ``s_i + sigma (eps_i - mu y_i)``.

    Attributes:
        sigma: standard deviation, one per query; 0 is the limit from above.
        mu: shift of the mean per unit of the label, one per query.
    """

    sigma: F64
    mu: F64


def flip_sums(scores: F64, lists: Lists, weight: Callable[[I64, I64], Array], noise: Noise) -> F64:
    """Return, for each query, the sum over its pairs of documents of a weight times the probability
    that noise reverses the pair.

    Noisy scores are ``s_i + sigma (eps_i - mu y_i)``: ``s`` are the scores, ``y`` the labels,
    ``eps`` standard normal and independent, and ``mu`` a shift that lowers documents by their
    label. A pair ``s_i >= s_j`` is reversed when the noise of ``j`` exceeds that of ``i`` by the
    lead ``(s_i - s_j) / sigma`` less the shift ``mu (y_i - y_j)``. A sigma of 0 is the limit from above: noise
    then reverses tied documents only.

    Args:
        scores: one per document; the documents of each query go from the first rank to the last.
        lists: the labels of these documents, and their queries.
        weight: from the two documents of each pair to what it counts.
        noise: the noise of each query.

    >>> noise = Noise(sigma=np.ones(1), mu=np.ones(1))
    >>> flip_sums(np.zeros(2), Lists.of([0, 0]), lambda i, j: i + j, noise)
    array([0.5])
    """
    from scipy.special import erfc

    sums = np.zeros(lists.n_queries)
    # Document i is ranked above j.
    for i, j in document_pairs(lists.offsets):
        query = lists.query[i]
        score_gap = scores[i] - scores[j]
        label_gap = lists.labels[i] - lists.labels[j]
        # In units of sigma: how far i is ahead, and how far the shift pushes it down. Tied
        # documents are 0 apart for every sigma, also for 0: `where` leaves their lead at the 0 that
        # is in `out`, where 0/0 would be NaN. With a sigma of 0 all others are infinitely far ahead.
        lead = np.zeros_like(score_gap)
        with np.errstate(divide="ignore", over="ignore"):
            np.divide(score_gap, noise.sigma[query], out=lead, where=score_gap > 0)
        shift = noise.mu[query] * label_gap
        # The difference of two standard normal numbers has variance 2, so the chance that the noise
        # of j exceeds that of i by more than x is erfc(x / 2) / 2.
        twice_chance = erfc(0.5 * (lead - shift))
        np.add.at(sums, query, 0.5 * weight(i, j) * twice_chance)
    return sums


def least_distances(scores: F64, offsets: I64) -> F64:
    """Return the least distance of two scores in each query: 0 with ties, infinity with one
    document or none.

    >>> least_distances(np.array([0.0, 3.0, 1.0, 5.0]), np.array([0, 3, 4]))
    array([ 1., inf])
    """
    has_documents = np.diff(offsets) > 0
    by_score = np.lexsort((scores, query_of(offsets)))
    gaps_to_previous = np.diff(scores[by_score], prepend=0.0)
    # The first document of a query has no previous one.
    first_documents = offsets[:-1][has_documents]
    gaps_to_previous[first_documents] = np.inf
    # The minimum is the negative of the maximum of the negatives.
    smallest_gaps = -query_maxima(-gaps_to_previous, offsets)
    return np.where(has_documents, smallest_gaps, np.inf)


def largest_steps(discount: Discount, k: int | None, lists: Lists) -> F64:
    """Return the largest change of the discount from one rank of a list to the next, one per query.

    Args:
        discount: ``"log2"``, ``"reciprocal"``, or a table by rank.
        k: the cutoff, behind which it is 0; None for none.
        lists: the labelled lists.

    >>> largest_steps("reciprocal", 2, Lists.of([0, 0, 0, 1], [0, 1, 4]))
    array([0. , 0.5])
    """
    values = discount_values(lists.longest + 1, discount, k)
    falls = -np.diff(values)  # from each rank to the next
    largest_fall = np.maximum.accumulate(falls)
    # Entry n is for lists of n documents. A list of n documents has n - 1 steps between its ranks: none for n of 0 and 1.
    largest_by_size = np.concatenate(([0.0, 0.0], largest_fall))
    return largest_by_size[lists.sizes]


def _contests_bound(loss: SoftRank, scores: F64, lists: Lists) -> F64:
    """Return a bound on ``|NDCG - SoftNDCG|`` for each query:
    ``d sum_{i<j} (G_i + G_j) erfc(|s_i - s_j| / (2 sigma)) / 2``.

    With scores ``s`` and noise of standard deviation ``sigma``, ``erfc(...) / 2`` is the chance
    that noise reverses documents ``i`` and ``j``; each then moves by one rank, which is worth at
    most its gain ``G`` (over the maximal DCG) times ``d``, the largest step of the discount from
    one rank to the next. `flip_sums` adds up weight times this chance over the pairs.
    """
    dcg = DCG(k=loss.k, gain=loss.gain, discount=loss.discount)
    # The best ranking has the labels themselves as scores.
    max_dcg = dcg.per_query(lists.labels, lists)

    # `flip_sums` wants the documents of each query from the highest score to the lowest.
    ranking = np.lexsort((-scores, lists.query))
    gains = gain_values(lists.labels, loss.gain)[ranking]
    lists_in_order = dataclasses.replace(lists, labels=lists.labels[ranking])

    def sum_of_gains(i: I64, j: I64) -> F64:
        return gains[i] + gains[j]

    # SoftRank's noise has the same sigma everywhere, and no shift mu by the label.
    noise = Noise(sigma=np.full(max_dcg.size, loss.sigma), mu=np.zeros(max_dcg.size))
    sums = flip_sums(scores[ranking], lists_in_order, sum_of_gains, noise)
    d = largest_steps(loss.discount, loss.k, lists)
    # Division by the maximal DCG makes G of the gains.
    return d * sums / max_dcg


def _sum_of_epsilons(setting: _Setting, factor: F64) -> F64:
    """Return SoftRank's bound on ``|NDCG - SoftNDCG|`` (Theorem 2 of He and Liu),
    ``2^(K-1) N (e1 + sqrt(v / (1 - 5 v)) + 5 v)``; infinity where ``v >= 1/5``.

    Here ``x = delta / (2 sigma)``, ``v = factor (1 - erf(x)^2)`` and
    ``e1 = (N - 1) sigma / (2 delta sqrt(pi)) exp(-x^2)``.

    Args:
        setting: ``sigma``, the least distance ``delta`` of two scores, the number ``N`` of
            documents and the highest label ``K - 1``, as arrays of the same shape.
        factor: ``(N - 1)/4`` in the proof, 1 in the statement.
    """
    from scipy.special import erfc

    sigma, delta, n, highest_label = setting
    x = delta / (2.0 * sigma)
    e1 = (n - 1.0) * sigma
    e1 = e1 / (2.0 * np.sqrt(np.pi) * delta)
    e1 = e1 * np.exp(-(x**2))

    # 1 - erf(x)^2 = c (2 - c) with c = 1 - erf(x), accurate where erf is nearly 1.
    c = erfc(x)
    variance = factor * (c * (2.0 - c))
    is_below_limit = variance < 0.2
    v = np.where(is_below_limit, variance, 0.0)
    e2 = np.sqrt(v / (1.0 - 5.0 * v))
    sum_of_epsilons = e1 + e2 + 5.0 * v
    bound = np.exp2(highest_label) * n * sum_of_epsilons
    return np.where(is_below_limit, bound, np.inf)


def _sigma_limit(delta: ArrayLike, documents: ArrayLike, share: float) -> F64:
    """Return the standard deviation ``sigma`` of scores at which ``(N - 1)/4 (1 - erf(x)^2)``
    reaches ``share / 4``, with ``x = delta / (2 sigma)``; infinity where it never does.

    Solved for sigma this is ``delta / (2 erfinv(sqrt(1 - share / (N - 1))))``.

    Args:
        delta: least distance of two scores.
        documents: number of documents, ``N``.
        share: 0.8 for the limit of the proof, 1 for that of the statement.
    """
    from scipy.special import erfinv

    # Checks the ranges and gives all the same shape; the sigma of 1 and the highest label of 0 are
    # placeholders that are not used.
    setting = _checked_setting(1.0, delta, documents, 0.0)
    n = setting.n
    # The other documents are n - 1; a single document has none, and `where` leaves it a share of 1.
    share_per_rival = np.divide(share, n - 1.0, out=np.ones_like(n), where=n > 1.0)
    erf_squared = np.maximum(1.0 - share_per_rival, 0.0)
    x = erfinv(np.sqrt(erf_squared))
    # With few documents x is 0, and no sigma is too large.
    with np.errstate(divide="ignore"):
        return setting.delta / (2.0 * x)


def _checked_setting(
    sigma: ArrayLike, delta: ArrayLike, documents: ArrayLike, highest_label: ArrayLike
) -> _Setting:
    """Take the arguments of SoftRank's Theorem 2, numbers or arrays, and return them as arrays of
    one shape; an error names the argument that is out of its range.

    Args:
        sigma: standard deviation of the scores, above 0.
        delta: least distance of two scores, above 0.
        documents: number of documents, at least 1.
        highest_label: at least 0.
    """
    # `real` checks a single number: this applies it to each.
    checked = np.vectorize(real, otypes=[np.float64])
    arrays = np.broadcast_arrays(
        checked("sigma", sigma, above=True),
        checked("delta", delta, above=True),
        checked("documents", documents, least=1),
        checked("highest_label", highest_label),
    )
    return _Setting(*arrays)
