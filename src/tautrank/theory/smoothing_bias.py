"""How smoothing a metric by noise treats ties, and how much noise and shift restore their worst case.

A metric of noisy scores, ``E metric(s + sigma eps)`` with ``eps ~ N(-mu y, I)``, tends as sigma falls to 0 to a metric
in which noise alone orders the documents with equal scores. Without the shift (``mu = 0``) every order is as likely:
ties count as their expected value. With ``mu`` the better of two documents stands above the other with probability
``Phi(-mu (y_i - y_j) / sqrt(2))``, so that the worst case is reached as ``mu`` grows, and only then. Of the
bias of a tied pair half is left at ``mu (y_i - y_j) = 0.95``, and a hundredth at 3.64.

At a sigma above 0 the shift also reverses documents that were in the right order: those whose scores are less than
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
from tautrank.metrics import DCG, DCGRR, NDCG, Metric, discount_values, gain_values, metric
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.distributions import check_scored_lists
from tautrank.theory.softrank_bounds import begins_group

# Documents that are judged at once: few enough for the cache of most processors.
_BLOCK = 1 << 18
# The trapezoidal rule for a normal variable; its error falls faster than any power of the step.
_STEP, _REACH = 1 / 16, 9.0
# Where a search for mu or sigma ends: no float64 tells more apart.
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Smoothed:
    """A smoothed metric and the metric itself, one number per query; NaN where the query is skipped.

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
    """Estimate ``E metric(s + sigma eps)`` with ``eps ~ N(-mu y, I)`` from many draws.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, sec. 4.1 and 4.3.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        judge: any metric, or its name.
        sigma: standard deviation of the noise; 0 is the limit from above, in which noise orders tied documents only.
        mu: shift of the noise's mean per unit of the label.
        draws: number of draws, at least 2.
        seed: seed of the noise.

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
    judges = {}
    for count in {at_once, draws % at_once} - {0}:
        ends = (np.arange(count)[:, None] * y.size + lists.offsets[1:]).ravel()
        judges[count] = chosen.bind(np.tile(y, count), np.concatenate(([0], ends)))
    # Whole numbers in the order of the scores of a query, equal where scores are tied.
    order = np.lexsort((s, lists.query))
    level = np.empty(s.size)
    level[order] = np.cumsum(begins_group(s[order], lists.query))
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
    """Return the exact limit of smoothed DCG or NDCG as sigma falls to 0.

    Only ties are left to the noise. Given its own noise ``t``, a tied document stands below another one with
    probability ``Phi(-t - mu (y_i - y_j))``, independently of all others, so its expected discount is an integral over
    ``t`` of a sum of independent trials. For ``m`` tied documents with ``l`` distinct labels it takes time ``O(l
    m^2)``.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, sec. 4.2 and 4.3.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        judge: ``dcg`` or ``ndcg`` with its options, as a metric or by name.
        mu: shift of the noise's mean per unit of the label.

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
    chosen = metric(judge)
    if not isinstance(chosen, DCG | NDCG):
        raise OptionError(f"judge: found {chosen}; expected dcg or ndcg, or smoothed_metric, which takes any metric")
    from tautrank.theory._kernels import tied_discounts

    s, lists = check_scored_lists(scores, labels, offsets)
    y, cuts = lists.labels, lists.offsets
    order = np.lexsort((y, -s, lists.query))
    starts = np.flatnonzero(begins_group(s[order], lists.query)).astype(np.int64)
    discounts = discount_values(lists.longest, chosen.discount, chosen.k)
    nodes = np.arange(-_REACH, _REACH + _STEP, _STEP)
    chances = np.exp(-0.5 * nodes**2)
    groups, places = np.append(starts, s.size), starts - cuts[lists.query[starts]]
    mu = real("mu", mu, 0.0)
    tied = tied_discounts(groups, places, y[order], discounts, mu, nodes, chances / chances.sum())
    # A query without a gain is skipped by either metric.
    ideal = DCG(k=chosen.k, gain=chosen.gain, discount=chosen.discount).per_query(y, y, cuts)
    norm = ideal if isinstance(chosen, NDCG) else np.where(np.isnan(ideal), np.nan, 1.0)
    value = query_sums(gain_values(y[order], chosen.gain) * tied, cuts) / norm
    worst, expected = (metric(chosen, ties=ties).per_query(s, y, cuts) for ties in ("worst", "expected"))
    return Smoothed(value, np.where(np.isnan(value), np.nan, 0.0), worst, expected)


class ConsistentSmoothing(NamedTuple):
    """A shift and a noise for a given precision, one number per query.

    Args:
        mu: shift of the noise's mean per unit of the label.
        sigma: standard deviation of the noise; infinity where nothing limits it.

    >>> ConsistentSmoothing(np.array([3.6]), np.array([0.1])).mu
    array([3.6])
    """

    mu: F64
    sigma: F64


def consistent_smoothing(
    scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, precision: float, *, least_mu: float = 0.0
) -> ConsistentSmoothing:
    """Return a ``mu`` and a ``sigma`` that bring every smoothed metric near its value with ties at their worst.

    At these, and at any smaller sigma, the order is the worst one but for a probability of ``precision``; so the
    smoothed metric differs from the metric by at most ``precision`` times the difference of its highest and lowest
    value. The shift makes tied documents of unlike labels flip with half of that probability, and then the noise is
    made small enough to flip others, shift included, with the other half.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, Theorem 1, whose proof says that both exist.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        precision: a number above 0 and at most 1.
        least_mu: smallest mu to return.

    >>> mu, sigma = consistent_smoothing([2.0, 1.0, 1.0], [2, 1, 0], [0, 3], 0.01)
    >>> mu.round(2), sigma.round(3)
    (array([3.64]), array([0.092]))
    >>> flipped_pairs(np.array([2.0, 1.0, 1.0]), Lists.of([2, 1, 0], [0, 3], None), sigma, mu).round(4)
    array([0.01])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    half = 0.5 * real("precision", precision, 0.0, above=True, most=1.0)
    queries = lists.sizes.size
    nothing = np.zeros(queries)
    needed = _smallest(lambda mus: flipped_pairs(s, lists, nothing, mus) > half, queries)
    mu = np.maximum(needed, real("least_mu", least_mu, 0.0))
    tied = flipped_pairs(s, lists, nothing, mu)
    # From far too little to far too much: the number of flips grows with sigma.
    inside = np.full(queries, 1e-300)
    outside = np.full(queries, 1e300)
    unlimited = flipped_pairs(s, lists, outside, mu) - tied <= half
    for _ in range(_HALVINGS + 20):
        middle = np.sqrt(inside) * np.sqrt(outside)
        enough = flipped_pairs(s, lists, middle, mu) - tied <= half
        inside, outside = np.where(enough, middle, inside), np.where(enough, outside, middle)
    return ConsistentSmoothing(mu, np.where(unlimited, np.inf, inside))


def flipped_pairs(scores: F64, lists: Lists, sigmas: F64, mus: F64) -> F64:
    """Return how many pairs with different labels the noise is expected to move out of their worst order.

    ``sum Phi(-(s_i - s_j) / (sigma sqrt(2)) + mu (y_i - y_j) / sqrt(2))`` over the pairs with different labels in
    which ``i`` stands above ``j`` when ties are in their worst order. The probability that any other order comes out is
    at most this sum.

    From the proof of Theorem 1 of Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, appendix B.2.

    Args:
        scores: one per document.
        lists: the labelled lists.
        sigmas: standard deviation of the noise, one per query; 0 is the limit from above.
        mus: shift of the noise's mean per unit of the label, one per query.

    >>> lists = Lists.of([1, 0, 1, 0], [0, 2, 4], None)
    >>> flipped_pairs(np.array([1.0, 1.0, 5.0, 5.0]), lists, np.zeros(2), np.array([0.0, 4.0])).round(4)
    array([0.5   , 0.0023])
    """
    from tautrank.theory._kernels import flip_sums

    order = np.lexsort((lists.labels, -scores, lists.query))
    labels = lists.labels[order]
    return flip_sums(scores[order], labels, np.full(labels.size, 0.5), True, lists.offsets, sigmas, mus)


def _smallest(too_small: Callable[[F64], NDArray[np.bool_]], queries: int) -> F64:
    """Return the smallest sufficient mu, one per query, by doubling and then halving an interval."""
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
