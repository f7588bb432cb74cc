"""How smoothing a metric by noise treats ties, and how much noise and shift restore their worst
case.

A metric of noisy scores, ``E metric(s + sigma eps)`` with ``eps ~ N(-mu y, I)``, tends as sigma
falls to 0 to a metric in which noise alone orders the documents with equal scores. Without the
shift (``mu = 0``) every order is as likely: ties count as their expected value. With ``mu`` the
better of two documents stands above the other with probability ``Phi(-mu (y_i - y_j) / sqrt(2))``,
so that the worst case is reached as ``mu`` grows, and only then. Of the bias of a tied pair half is
left at ``mu (y_i - y_j) = 0.95``, and a hundredth at 3.64.

At a sigma above 0 the shift also reverses documents that were in the right order: those whose
scores are less than ``sigma mu (y_i - y_j)`` apart: both the shift and the bias have a price.

Ustimenko and Prokhorenkova, *StochasticRank: Global Optimization of Scale-Free Discrete Functions*,
ICML 2020, sec. 4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import real, whole
from tautrank.arrays import F64, Bools
from tautrank.errors import DataError, OptionError
from tautrank.losses.base import TrainingLists
from tautrank.metrics import DCG, DCGRR, NDCG, Metric, discount_values, gain_values, metric
from tautrank.metrics.ordering import query_sums
from tautrank.theory.softrank_bounds import flip_sums
from tautrank.theory.theorem import check_scored_lists

# The trapezoidal rule for a normal variable; its error falls faster than any power of the step.
_STEP, _REACH = 1 / 16, 9.0
# A search for mu or sigma: from far too little to far too much, halved on a scale of logarithms.
_TINY, _HUGE, _HALVINGS = 1e-300, 1e300, 64


class Smoothed(NamedTuple):
    """A smoothed metric and the metric itself, one number per query; NaN where the query is
    skipped.

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
        """The bias in units of the bias without shift, ``expected - worst``; NaN where no tie
        matters.
        """
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
        sigma: standard deviation of the noise; 0 is the limit from above, in which noise orders
            tied documents only.
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
        raise OptionError(
            f"judge: found {chosen}, which has no ties; expected a metric of a ranking"
        )
    s, lists = check_scored_lists(scores, labels, offsets)
    sigma, mu = real("sigma", sigma, 0.0), real("mu", mu, 0.0)
    draws = whole("draws", draws, 2)
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    y, judged = lists.labels, chosen.bind(lists.labels, lists.offsets)
    # Whole numbers in the order of the scores, equal where scores are tied.
    level = np.unique(s, return_inverse=True)[1]

    def noisy() -> F64:
        noise = rng.normal(size=y.size) - mu * y
        # In the limit the noise is squeezed, in its order, into less than the distance of two
        # levels.
        return s + sigma * noise if sigma > 0 else level + noise / (2.5 + 2.5 * np.abs(noise))

    worst, expected = (
        metric(chosen, ties=ties).per_query(s, y, lists.offsets) for ties in ("worst", "expected")
    )
    # Measured from a value near them, or their own, they keep their digits.
    biases = np.array([judged.per_query(noisy()) - worst for _ in range(draws)])
    return Smoothed(
        worst + biases.mean(axis=0), biases.std(axis=0, ddof=1) / np.sqrt(draws), worst, expected
    )


def smoothing_limit(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    judge: Metric | str = "ndcg",
    *,
    mu: float,
) -> Smoothed:
    """Return the exact limit of smoothed DCG or NDCG as sigma falls to 0.

    Only ties are left to the noise. Given its own noise ``t``, a tied document stands below another
    one with probability ``Phi(-t - mu (y_i - y_j))``, independently of all others, so its expected
    discount is an integral over ``t`` of a sum of independent trials. For ``m`` tied documents with
    ``l`` distinct labels it takes time ``O(l m^2)``.

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
        raise OptionError(
            f"judge: found {chosen}; expected dcg or ndcg, or smoothed_metric, which takes any metric"
        )
    s, lists = check_scored_lists(scores, labels, offsets)
    y, cuts = lists.labels, lists.offsets
    order = np.lexsort((y, -s, lists.query))
    starts = np.flatnonzero(
        (np.diff(s[order], prepend=np.nan) != 0) | (np.diff(lists.query, prepend=-1) != 0)
    )
    discounts = discount_values(lists.longest, chosen.discount, chosen.k)
    places = starts - cuts[lists.query[starts]]
    mu = real("mu", mu, 0.0)
    groups = zip(np.split(y[order], starts[1:]), places, strict=True) if s.size else ()
    tied = np.concatenate(
        [[], *(_tied_discounts(labels, discounts[place:], mu) for labels, place in groups)]
    )
    # A query without a gain is skipped by either metric.
    ideal = DCG(k=chosen.k, gain=chosen.gain, discount=chosen.discount).per_query(y, y, cuts)
    norm = ideal if isinstance(chosen, NDCG) else np.where(np.isnan(ideal), np.nan, 1.0)
    value = query_sums(gain_values(y[order], chosen.gain) * tied, cuts) / norm
    worst, expected = (
        metric(chosen, ties=ties).per_query(s, y, cuts) for ties in ("worst", "expected")
    )
    return Smoothed(value, np.where(np.isnan(value), np.nan, 0.0), worst, expected)


def _tied_discounts(labels: F64, discounts: F64, mu: float) -> F64:
    """Return the expected discount of each of several tied documents, ordered by normal noise of
    mean ``-mu y``.

    Given a document's own noise the others stand above it independently of each other, so its place
    among them is a sum of independent trials; what is left is an integral over its own noise.
    """
    from scipy.special import ndtr

    nodes = np.arange(-_REACH, _REACH + _STEP, _STEP)
    weights = np.exp(-0.5 * nodes**2)
    expected = np.empty(labels.size)
    for label in np.unique(labels):
        of_label = labels == label
        # The probability of each place, at each value of its own noise.
        places = np.zeros((labels.size, nodes.size))
        places[0] = 1.0
        for other in np.delete(labels, np.argmax(of_label)):
            above = ndtr(-nodes - mu * (other - label))
            places[1:] = places[1:] * (1.0 - above) + places[:-1] * above
            places[0] *= 1.0 - above
        expected[of_label] = discounts[: labels.size] @ places @ weights / weights.sum()
    return expected


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
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    precision: float,
    *,
    least_mu: float = 0.0,
) -> ConsistentSmoothing:
    """Return a ``mu`` and a ``sigma`` that bring every smoothed metric near its value with ties at
    their worst.

    At these, and at any smaller sigma, the order is the worst one but for a probability of
    ``precision``; so the smoothed metric differs from the metric by at most ``precision`` times the
    difference of its highest and lowest value. The shift makes tied documents of different labels
    flip with half of that probability, and then the noise is made small enough to flip others,
    shift included, with the other half.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, Theorem 1, whose proof says that both
    exist.

    Args:
        scores, labels, offsets: the lists, see `tautrank.theory`.
        precision: a number above 0 and at most 1.
        least_mu: smallest mu to return.

    >>> mu, sigma = consistent_smoothing([2.0, 1.0, 1.0], [2, 1, 0], [0, 3], 0.01)
    >>> mu.round(2), sigma.round(3)
    (array([3.64]), array([0.092]))
    >>> flipped_pairs(np.array([2.0, 1.0, 1.0]), TrainingLists.of([2, 1, 0], [0, 3]), sigma, mu).round(4)
    array([0.01])
    """
    s, lists = check_scored_lists(scores, labels, offsets)
    half = 0.5 * real("precision", precision, 0.0, above=True, most=1.0)
    nothing = np.zeros(lists.sizes.size)
    _, needed = _turning_point(
        lambda mus: flipped_pairs(s, lists, nothing, mus) > half, nothing.size
    )
    if needed.max(initial=0.0) > 1e12:
        raise DataError(
            "labels: found two that differ too little for any mu; expected labels further apart"
        )
    # Where a mu of next to nothing is enough, it need not be any.
    mu = np.maximum(np.where(needed > 1e-200, needed, 0.0), real("least_mu", least_mu, 0.0))
    tied = flipped_pairs(s, lists, nothing, mu)
    sigma, beyond = _turning_point(
        lambda sigmas: flipped_pairs(s, lists, sigmas, mu) - tied <= half, nothing.size
    )
    return ConsistentSmoothing(mu, np.where(beyond < _HUGE, sigma, np.inf))


def flipped_pairs(scores: F64, lists: TrainingLists, sigmas: F64, mus: F64) -> F64:
    """Return how many pairs with different labels the noise is expected to move out of their worst
    order.

    ``sum Phi(-(s_i - s_j) / (sigma sqrt(2)) + mu (y_i - y_j) / sqrt(2))`` over the pairs with
    different labels in which ``i`` stands above ``j`` when ties are in their worst order. The
    probability that any other order comes out is at most this sum.

    From the proof of Theorem 1 of Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020,
    appendix B.2.

    Args:
        scores: one per document.
        lists: the labelled lists.
        sigmas: standard deviation of the noise, one per query; 0 is the limit from above.
        mus: shift of the noise's mean per unit of the label, one per query.

    >>> lists = TrainingLists.of([1, 0, 1, 0], [0, 2, 4])
    >>> flipped_pairs(np.array([1.0, 1.0, 5.0, 5.0]), lists, np.zeros(2), np.array([0.0, 4.0])).round(4)
    array([0.5   , 0.0023])
    """
    order = np.lexsort((lists.labels, -scores, lists.query))
    y = lists.labels[order]
    return flip_sums(scores[order], y, lambda i, j: y[i] != y[j], lists.offsets, sigmas, mus)


def _turning_point(holds: Callable[[F64], Bools], queries: int) -> tuple[F64, F64]:
    """Return the largest number for which it holds, one per query, and the smallest for which it no
    longer does.
    """
    low, high = np.full(queries, _TINY), np.full(queries, _HUGE)
    for _ in range(_HALVINGS):
        middle = np.sqrt(low) * np.sqrt(high)
        so_far = holds(middle)
        low, high = np.where(so_far, middle, low), np.where(so_far, high, middle)
    return low, high
