"""What becomes of ties when a metric is smoothed by noise, and how much noise and shift bring back their worst case.

A metric of noisy scores, ``E metric(s + sigma eps)`` with ``eps ~ N(-mu y, I)``, tends as sigma falls to 0 to a metric
in which noise alone orders the documents with equal scores. Without the shift (``mu = 0``) every order is as likely:
ties count as their expected value. With ``mu`` the better of two documents stands above the other with probability
``Phi(-mu (y_i - y_j) / sqrt(2))``, so that the worst case is reached as ``mu`` grows, and only then. Of the
bias of a tied pair half is left at ``mu (y_i - y_j) = 0.95``, and a hundredth at 3.64.

At a sigma above 0 the shift also turns round documents that were in the right order, those whose scores are less than
``sigma mu (y_i - y_j)`` apart: both the shift and the bias have a price.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*, ICML 2020, sec. 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.arguments import real, whole
from tautrank.errors import DataError, OptionError
from tautrank.losses.base import Lists
from tautrank.metrics import DCG, DCGRR, NDCG, BoundMetric, Metric, discount_values, gain_values, metric
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.bound import Bound
from tautrank.theory.distributions import check_scored_lists
from tautrank.theory.softrank_bounds import begins_group, largest_steps

_PAPER = "Ustimenko and Prokhorenkova, StochasticRank, ICML 2020"
# Documents that are judged at once: few enough for the cache of most processors.
_BLOCK = 1 << 18
# The trapezoidal rule for a normal variable; its error falls faster than any power of the step.
_STEP, _REACH = 1 / 16, 9.0
# Where a search for mu or sigma ends: no float64 tells more apart.
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A smoothed metric beside the metric itself, one number a query; NaN where the query is skipped.

    Args:
        value: the metric of noisy scores, on average over the draws; or its exact limit.
        standard_error: of that average; 0 where it is exact.
        worst: the metric with ties at their worst.
        expected: the metric with the expected value of ties.

    >>> found = smoothed_metric([1.0, 1.0], [1, 0], [0, 2], "mrr", sigma=0.0, mu=0.0, draws=4000)
    >>> found.worst, found.expected
    (array([0.5]), array([0.75]))
    >>> bool(abs(found.value[0] - 0.75) < 5 * found.standard_error[0])
    True
    """

    value: F64
    standard_error: F64
    worst: F64
    expected: F64

    @property
    def bias(self) -> F64:
        """The smoothed metric less the metric with ties at their worst."""
        return self.value - self.worst

    @property
    def share(self) -> F64:
        """The bias in units of the bias without shift, ``expected - worst``; NaN where no tie matters."""
        whole_bias = self.expected - self.worst
        matters = np.abs(whole_bias) > 1e-12
        return np.divide(self.bias, whole_bias, out=np.full_like(self.bias, np.nan), where=matters)


def smoothed_metric(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    judge: Metric | str = "ndcg",
    *,
    sigma: float,
    mu: float,
    draws: int = 1000,
    seed: int = 0,
) -> Smoothed:
    """``E metric(s + sigma eps)`` with ``eps ~ N(-mu y, I)``, from many draws, beside what it should tend to.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, sec. 4.1 and 4.3.

    Args:
        scores: one finite number a document.
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        judge: any metric, or its name.
        sigma: standard deviation of the noise; 0 is the limit from above, in which noise orders tied documents only.
        mu: how far a label shifts the mean of the noise.
        draws: how many, at least 2.
        seed: of the noise.

    >>> lists = [2.0, 1.0, 1.0], [0, 1, 0], [0, 3]  # the tie is worth 1/2 or 1/3
    >>> for mu in (0.0, 8.0):
    ...     found = smoothed_metric(*lists, "mrr", sigma=0.01, mu=mu)
    ...     print(round(float(found.value[0]), 2), found.expected.round(2), found.worst.round(2))
    0.42 [0.42] [0.33]
    0.33 [0.42] [0.33]
    """
    chosen = metric(judge)
    if isinstance(chosen, DCGRR):
        raise OptionError(f"judge: found {chosen}, which has no ties; expected a metric of a ranking")
    s, lists = check_scored_lists(scores, labels, offsets)
    sigma, mu = real("sigma", sigma, 0.0), real("mu", mu, 0.0)
    draws = whole("draws", draws, 2)
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    y, queries = lists.labels, lists.sizes.size
    at_once = max(1, min(draws, _BLOCK // max(y.size, 1)))
    # A draw is a copy of all lists; the metric works out once what depends on labels.
    judges = {count: _copies(chosen, lists, count) for count in {at_once, draws % at_once} - {0}}
    level = _levels(s, lists)
    total, squares = np.zeros(queries), np.zeros(queries)
    worst = metric(chosen, ties="worst").per_query(s, y, lists.offsets)
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        noise = rng.normal(size=(count, y.size)) - mu * y
        # In the limit the noise is squeezed, in its order, into less than the distance of two levels.
        noisy = s + sigma * noise if sigma > 0 else level + noise / (2.5 + 2.5 * np.abs(noise))
        # Measured from a value near them, the squares keep their digits.
        values = judges[count].per_query(noisy.ravel()).reshape(count, queries) - worst
        total += values.sum(axis=0)
        squares += (values**2).sum(axis=0)
    mean = total / draws
    variance = np.maximum(squares / draws - mean**2, 0.0) * draws / (draws - 1)
    expected = metric(chosen, ties="expected").per_query(s, y, lists.offsets)
    return Smoothed(worst + mean, np.sqrt(variance / draws), worst, expected)


def smoothing_limit(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, judge: Metric | str = "ndcg", *, mu: float
) -> Smoothed:
    """The exact limit of smoothed DCG or NDCG as sigma falls to 0, beside the metric with worst and expected ties.

    Only ties are left to the noise. Given its own noise ``t``, a tied document stands below another one with
    probability ``Phi(-t - mu (y_i - y_j))``, independently of all others, so its expected discount is an integral over
    ``t`` of a sum of independent trials. For ``m`` tied documents with ``l`` distinct labels it takes time ``O(l
    m^2)``.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, sec. 4.2 and 4.3.

    Args:
        scores: one finite number a document.
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        judge: ``dcg`` or ``ndcg`` with its options, as a metric or by name.
        mu: how far a label shifts the mean of the noise.

    >>> lists = [1.0, 1.0, 0.0], [2, 0, 1], [0, 3]
    >>> found = smoothing_limit(*lists, mu=0.0)
    >>> bool(abs(found.value - found.expected)[0] < 1e-12)
    True
    >>> for mu in (0.1, 1.0, 3.0):  # the bias that is left, in units of that of no shift
    ...     print(smoothing_limit(*lists, mu=mu).share.round(4))
    [0.8875]
    [0.1573]
    [0.]
    """
    chosen = _discounted(judge)
    s, lists = check_scored_lists(scores, labels, offsets)
    value = _limits(s, lists, chosen, np.full(lists.sizes.size, real("mu", mu, 0.0)))
    worst, expected = (
        metric(chosen, ties=ties).per_query(s, lists.labels, lists.offsets) for ties in ("worst", "expected")
    )
    return Smoothed(value, np.where(np.isnan(value), np.nan, 0.0), worst, expected)


def flipped_pairs(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, *, sigma: ArrayLike, mu: ArrayLike) -> F64:
    """How many pairs of unlike documents the noise is expected to put in another order than the worst one, one a query.

    ``sum Phi(-(s_i - s_j) / (sigma sqrt(2)) + mu (y_i - y_j) / sqrt(2))`` over the pairs of unlike labels in which
    ``i`` stands above ``j`` when ties are ranked for the worst. The probability that any order but the worst comes out
    is at most this.

    From the proof of Theorem 1 of Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, appendix B.2.

    Args:
        scores: one finite number a document.
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        sigma: standard deviation of the noise, at least 0; one for all or one a query. 0 is the limit from above.
        mu: how far a label shifts the mean of the noise, at least 0; one for all or one a query.

    >>> flipped_pairs([1.0, 1.0, 5.0, 5.0], [1, 0, 1, 0], [0, 2, 4], sigma=0, mu=[0.0, 4.0]).round(4)
    array([0.5   , 0.0023])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    return _flips(s, lists, _of_queries("sigma", sigma, lists), _of_queries("mu", mu, lists))


def smoothing_bias_bound(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, judge: Metric | str = "ndcg", *, mu: float
) -> Bound:
    """How far the limit of smoothed DCG or NDCG can be from ties at their worst, above how far it is.

    ``d sum (G_i - G_j) Phi(-mu (y_i - y_j) / sqrt(2))`` over the tied pairs with ``y_i > y_j``, with ``d`` the largest
    step of the discount from one rank to the next; or the metric with ties at their best less that with ties at their
    worst, if that is less. Any order of the tied documents is reached from the worst one by swaps of neighbours, one
    for each pair that has changed its order, and such a swap is worth at most ``d (G_i - G_j)``.

    A form of Theorem 1 of Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, with numbers.

    Args:
        scores: one finite number a document.
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        judge: ``dcg`` or ``ndcg`` with its options, as a metric or by name.
        mu: how far a label shifts the mean of the noise.

    >>> smoothing_bias_bound([1.0, 1.0, 1.0], [1, 0, 0], [0, 3], mu=2.0)
    d sum (G_i - G_j) Phi >= |smoothed - worst|: 0.05805 >= 0.02609 on average over 1 query, the smallest gap 0.03197;
    holds
    """
    chosen = _discounted(judge)
    found = smoothing_limit(scores, labels, offsets, chosen, mu=mu)
    s, lists = check_scored_lists(scores, labels, offsets)
    best = metric(chosen, ties="best").per_query(s, lists.labels, lists.offsets)
    gains = lists.gains(chosen.gain) / np.repeat(_norms(chosen, lists), lists.sizes)
    shifts = np.full(lists.sizes.size, real("mu", mu, 0.0))
    flips = _flips(s, lists, np.zeros_like(shifts), shifts, np.nan_to_num(gains))
    return Bound(
        name="d sum (G_i - G_j) Phi >= |smoothed - worst|",
        paper=f"{_PAPER}, Theorem 1 with numbers",
        upper=np.minimum(largest_steps(chosen.discount, chosen.k, lists) * flips, best - found.worst),
        lower=np.abs(found.bias),
    )


def smallest_shift(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, precision: float, judge: Metric | str = "ndcg"
) -> F64:
    """The smallest ``mu`` for which the limit of smoothed DCG or NDCG is within ``precision`` of the worst case of
    ties.

    One number a query; 0 where the ties matter less than that, NaN where the query is skipped. The bias falls with
    ``mu``, so halving an interval finds it.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, Theorem 1, which says that there is one.

    Args:
        scores: one finite number a document.
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        precision: a number above 0.
        judge: ``dcg`` or ``ndcg`` with its options, as a metric or by name.

    >>> smallest_shift([0.0] * 4, [1, 0, 2, 0], [0, 2, 4], 0.01).round(2)  # a label of 2 is shifted twice as far
    array([2.72, 1.36])
    """
    chosen = _discounted(judge)
    s, lists = check_scored_lists(scores, labels, offsets)
    enough = real("precision", precision, 0.0, above=True)
    worst = metric(chosen, ties="worst").per_query(s, lists.labels, lists.offsets)

    def too_small(mus: F64) -> NDArray[np.bool_]:
        return _limits(s, lists, chosen, mus) - worst > enough

    return np.where(np.isnan(worst), np.nan, _smallest(too_small, worst.size))


class ConsistentSmoothing(NamedTuple):
    """A shift and a noise that bring a smoothed metric as near as was asked for; one number a query.

    Args:
        mu: how far a label shifts the mean of the noise.
        sigma: standard deviation of the noise; infinity where nothing limits it.

    >>> ConsistentSmoothing(np.array([3.6]), np.array([0.1])).mu
    array([3.6])
    """

    mu: F64
    sigma: F64


def consistent_smoothing(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, precision: float, *, least_mu: float = 0.0
) -> ConsistentSmoothing:
    """A ``mu`` and a ``sigma`` for which every metric's smoothed value is near its value with ties at their worst.

    At these, and at any smaller sigma, the order is the worst one but for a probability of ``precision``; so the
    smoothed metric differs from the metric by at most ``precision`` times the difference of its highest and lowest
    value. The shift makes tied documents of unlike labels flip with half of that probability, and then the noise is
    made small enough to flip others, shift included, with the other half.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, Theorem 1, whose proof says that both exist.

    Args:
        scores: one finite number a document.
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        precision: a number above 0 and at most 1.
        least_mu: take no smaller mu than this.

    >>> mu, sigma = consistent_smoothing([2.0, 1.0, 1.0], [2, 1, 0], [0, 3], 0.01)
    >>> mu.round(2), sigma.round(3)
    (array([3.64]), array([0.092]))
    >>> flipped_pairs([2.0, 1.0, 1.0], [2, 1, 0], [0, 3], sigma=sigma, mu=mu).round(4)
    array([0.01])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    half = 0.5 * real("precision", precision, 0.0, above=True, most=1.0)
    queries = lists.sizes.size
    nothing = np.zeros(queries)
    needed = _smallest(lambda mus: _flips(s, lists, nothing, mus) > half, queries)
    mu = np.maximum(needed, real("least_mu", least_mu, 0.0))
    tied = _flips(s, lists, nothing, mu)
    # From far too little to far too much: the number of flips grows with sigma.
    inside = np.full(queries, 1e-300)
    outside = np.full(queries, 1e300)
    unlimited = _flips(s, lists, outside, mu) - tied <= half
    for _ in range(_HALVINGS + 20):
        middle = np.sqrt(inside) * np.sqrt(outside)
        enough = _flips(s, lists, middle, mu) - tied <= half
        inside, outside = np.where(enough, middle, inside), np.where(enough, outside, middle)
    return ConsistentSmoothing(mu, np.where(unlimited, np.inf, inside))


def _flips(scores: F64, lists: Lists, sigmas: F64, mus: F64, gains: F64 | None = None) -> F64:
    """The expected number of flips; or with gains, each flip counting the difference of the two."""
    from tautrank.theory._contest_kernel import DIFFERENCE, UNLIKE, flip_sums

    order = np.lexsort((lists.labels, -scores, lists.query))
    labels = lists.labels[order]
    weights, counts = (labels, UNLIKE) if gains is None else (gains[order], DIFFERENCE)
    sums: F64 = flip_sums(scores[order], labels, weights, counts, lists.offsets, sigmas, mus)
    return sums


def _smallest(too_small: Callable[[F64], NDArray[np.bool_]], queries: int) -> F64:
    """The smallest mu that is not too small, one a query, by doubling and then halving an interval."""
    low, high = np.zeros(queries), np.ones(queries)
    needed = too_small(low)
    while (short := needed & too_small(high)).any():
        low[short], high[short] = high[short], 2.0 * high[short]
        if high.max() > 1e12:
            raise DataError("labels: found two that differ too little for any mu; expected labels further apart")
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        short = too_small(middle)
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.where(needed, high, 0.0)


def _of_queries(name: str, values: ArrayLike, lists: Lists) -> F64:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1 or (array.ndim == 1 and array.size != lists.sizes.size) or not (array >= 0).all():
        raise OptionError(f"{name}: found {values!r}; expected a number of at least 0, or one a query")
    return np.broadcast_to(array, lists.sizes.shape).copy()


def _copies(judge: Metric, lists: Lists, count: int) -> BoundMetric:
    """The metric bound to so many copies of all lists."""
    ends = (np.arange(count)[:, None] * lists.labels.size + lists.offsets[1:]).ravel()
    return judge.bind(np.tile(lists.labels, count), np.concatenate(([0], ends)))


def _levels(scores: F64, lists: Lists) -> F64:
    """Whole numbers in the order of the scores of a query, equal ones where scores are tied."""
    order = np.lexsort((scores, lists.query))
    level = np.empty(scores.size)
    level[order] = np.cumsum(begins_group(scores[order], lists.query))
    return level


def _discounted(judge: Metric | str) -> DCG | NDCG:
    chosen = metric(judge)
    if not isinstance(chosen, DCG | NDCG):
        raise OptionError(f"judge: found {chosen}; expected dcg or ndcg, or smoothed_metric, which takes any metric")
    return chosen


def _norms(judge: DCG | NDCG, lists: Lists) -> F64:
    """What the DCG of each query is divided by; NaN without a gain."""
    y = lists.labels
    ideal = DCG(k=judge.k, gain=judge.gain, discount=judge.discount).per_query(y, y, lists.offsets)
    return ideal if isinstance(judge, NDCG) else np.where(np.isnan(ideal), np.nan, 1.0)


def _limits(scores: F64, lists: Lists, judge: DCG | NDCG, mus: F64) -> F64:
    """The limit of the smoothed metric, each query with a shift of its own; NaN where the query is skipped."""
    from tautrank.theory._contest_kernel import tied_discounts

    order = np.lexsort((lists.labels, -scores, lists.query))
    labels = lists.labels[order]
    starts = np.flatnonzero(begins_group(scores[order], lists.query)).astype(np.int64)
    query = lists.query[starts]
    discounts = discount_values(lists.longest, judge.discount)
    if judge.k is not None:
        discounts[judge.k :] = 0.0
    nodes = np.arange(-_REACH, _REACH + _STEP, _STEP)
    chances = np.exp(-0.5 * nodes**2)
    groups, places = np.append(starts, scores.size), starts - lists.offsets[query]
    expected = tied_discounts(groups, places, labels, discounts, mus[query], nodes, chances / chances.sum())
    return query_sums(gain_values(labels, judge.gain) * expected, lists.offsets) / _norms(judge, lists)
