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

import dataclasses
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import real, whole
from tautrank.arrays import F64, I64, Bools
from tautrank.data import Lists
from tautrank.errors import DataError, OptionError
from tautrank.metrics import DCG, DCGRR, NDCG, Metric, discount_values, gain_values
from tautrank.metrics import metric as make_metric
from tautrank.metrics.ordering import query_sums
from tautrank.theory.softrank_bounds import Noise, flip_sums
from tautrank.theory.theorem import Labelled, check_scored_lists, float_labels

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

    >>> smoothed = smoothed_metric([1.0, 1.0], [1, 0], "mrr", sigma=0.0, mu=0.0, draws=4000)
    >>> smoothed.worst, smoothed.expected
    (array([0.5]), array([0.75]))
    >>> bool(abs(smoothed.value[0] - 0.75) < 5 * smoothed.standard_error[0])
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
        without_shift = self.expected - self.worst
        matters = np.abs(without_shift) > 1e-12
        shares = np.full_like(self.bias, np.nan)
        return np.divide(self.bias, without_shift, out=shares, where=matters)


def smoothed_metric(
    scores: ArrayLike,
    lists: Labelled,
    metric: Metric | str = "ndcg",
    *,
    sigma: float,
    mu: float,
    draws: int = 1000,
    seed: int = 0,
) -> Smoothed:
    """Estimate ``E metric(s + sigma eps)`` with ``eps ~ N(-mu y, I)`` from many draws.

    Ustimenko and Prokhorenkova, *StochasticRank*, ICML 2020, sec. 4.1 and 4.3.

    Args:
        scores, lists: the lists, see `tautrank.theory`.
        metric: any metric, or its name.
        sigma: standard deviation of the noise; 0 is the limit from above, in which noise orders
            tied documents only.
        mu: shift of the noise's mean per unit of the label.
        draws: number of draws, at least 2.
        seed: seed of the noise.

    >>> scores, labels = [2.0, 1.0, 1.0], [0, 1, 0]  # the tie is worth 1/2 or 1/3
    >>> for mu in (0.0, 8.0):
    ...     smoothed = smoothed_metric(scores, labels, "mrr", sigma=0.01, mu=mu)
    ...     print(round(float(smoothed.value[0]), 2), smoothed.expected.round(2), smoothed.worst.round(2))
    0.42 [0.42] [0.33]
    0.33 [0.42] [0.33]
    """
    smoothed = make_metric(metric)
    if isinstance(smoothed, DCGRR):
        raise OptionError(
            f"metric: found {smoothed}, which has no ties; expected a metric of a ranking"
        )
    scores, lists = check_scored_lists(scores, lists)
    sigma = real("sigma", sigma, 0.0)
    mu = real("mu", mu, 0.0)
    draws = whole("draws", draws, 2)
    rng = np.random.default_rng(whole("seed", seed, 0, 2**64 - 1))
    # Whole numbers in the order of the scores, equal where scores are tied.
    _, level = np.unique(scores, return_inverse=True)

    ends = _ends_of_ties(smoothed, scores, lists)
    bound_metric = smoothed.bind(lists)
    labels = float_labels(lists)
    biases = []
    for _ in range(draws):
        noise = rng.normal(size=scores.size)
        noise -= mu * labels
        if sigma > 0:
            noisy = scores + sigma * noise
        else:
            # In the limit the noise is squeezed, in its order, into less than the distance of two
            # levels.
            squeezed = noise / (2.5 + 2.5 * np.abs(noise))
            noisy = level + squeezed
        # Measured from a value near them, or their own, they keep their digits.
        biases.append(bound_metric.per_query(noisy) - ends.worst)
    mean_bias = np.mean(biases, axis=0)
    return Smoothed(
        value=ends.worst + mean_bias,
        standard_error=np.std(biases, axis=0, ddof=1) / np.sqrt(draws),
        worst=ends.worst,
        expected=ends.expected,
    )


class _EndsOfTies(NamedTuple):
    """A metric with ties at their worst and with their expected value, one number per query."""

    worst: F64
    expected: F64


def _ends_of_ties(metric: Metric, scores: F64, lists: Lists) -> _EndsOfTies:
    """Return a metric with ties at their worst and with their expected value."""
    worst = make_metric(metric, ties="worst").per_query(scores, lists)
    expected = make_metric(metric, ties="expected").per_query(scores, lists)
    return _EndsOfTies(worst, expected)


def smoothing_limit(
    scores: ArrayLike,
    lists: Labelled,
    metric: Metric | str = "ndcg",
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
        scores, lists: the lists, see `tautrank.theory`.
        metric: ``dcg`` or ``ndcg`` with its options, as a metric or by name.
        mu: shift of the noise's mean per unit of the label.

    >>> scores, labels = [1.0, 1.0, 0.0], [2, 0, 1]
    >>> smoothed = smoothing_limit(scores, labels, mu=0.0)
    >>> bool(abs(smoothed.value - smoothed.expected)[0] < 1e-12)
    True
    >>> for mu in (0.1, 1.0, 3.0):  # the bias that is left, in units of that of no shift
    ...     print(smoothing_limit(scores, labels, mu=mu).share.round(4))
    [0.8875]
    [0.1573]
    [0.]
    """
    smoothed = make_metric(metric)
    if not isinstance(smoothed, DCG | NDCG):
        raise OptionError(
            f"metric: found {smoothed}; expected dcg or ndcg, or smoothed_metric, which takes any"
            " metric"
        )
    scores, lists = check_scored_lists(scores, lists)
    mu = real("mu", mu, 0.0)
    order = np.lexsort((lists.labels, -scores, lists.query))
    discounts = discount_values(lists.longest, smoothed.discount, smoothed.k)
    expected_discounts = np.zeros(scores.size)
    for first, end in _groups_of_ties(scores[order], lists.query):
        rank = first - lists.offsets[lists.query[first]]
        labels = float_labels(lists)[order[first:end]]
        expected_discounts[first:end] = _tied_discounts(labels, discounts[rank:], mu)
    gains = gain_values(lists.labels[order], smoothed.gain)
    dcg = query_sums(gains * expected_discounts, lists.offsets)

    # A query without a gain is skipped by either metric.
    ideal_dcg = DCG(k=smoothed.k, gain=smoothed.gain, discount=smoothed.discount)
    norm = ideal_dcg.per_query(lists.labels, lists)
    if isinstance(smoothed, DCG):
        norm = np.where(np.isnan(norm), np.nan, 1.0)
    value = dcg / norm
    ends = _ends_of_ties(smoothed, scores, lists)
    return Smoothed(
        value=value,
        standard_error=np.where(np.isnan(value), np.nan, 0.0),
        worst=ends.worst,
        expected=ends.expected,
    )


def _groups_of_ties(scores: F64, query: I64) -> Iterator[tuple[int, int]]:
    """Yield the first place and the end of each group of documents of a query with equal scores.

    Args:
        scores: in order.
        query: the query of each document.
    """
    is_lower = np.diff(scores, prepend=np.nan) != 0
    is_of_next_query = np.diff(query, prepend=-1) != 0
    starts = np.flatnonzero(is_lower | is_of_next_query).tolist()
    return pairwise([*starts, scores.size])


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
        has_label = labels == label
        # The probability of each place, at each value of its own noise.
        places = np.zeros((labels.size, nodes.size))
        places[0] = 1.0
        for other_label in np.delete(labels, np.argmax(has_label)):
            is_above = ndtr(-nodes - mu * (other_label - label))
            moved_down = places[:-1] * is_above
            places *= 1.0 - is_above
            places[1:] += moved_down
        at_nodes = discounts[: labels.size] @ places
        expected[has_label] = at_nodes @ weights / weights.sum()
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
    lists: Labelled,
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
        scores, lists: the lists, see `tautrank.theory`.
        precision: a number above 0 and at most 1.
        least_mu: smallest mu to return.

    >>> mu, sigma = consistent_smoothing([2.0, 1.0, 1.0], [2, 1, 0], 0.01)
    >>> mu.round(2), sigma.round(3)
    (array([3.64]), array([0.092]))
    >>> flipped_pairs(np.array([2.0, 1.0, 1.0]), Lists.of([2, 1, 0]), Noise(sigma, mu)).round(4)
    array([0.01])
    """
    scores, lists = check_scored_lists(scores, lists)
    half = 0.5 * real("precision", precision, 0.0, above=True, most=1.0)
    least_mu = real("least_mu", least_mu, 0.0)
    no_noise = np.zeros(lists.n_queries)

    def flips_too_many_ties(mu: F64) -> Bools:
        return flipped_pairs(scores, lists, Noise(no_noise, mu)) > half

    smallest_mu = _turning_point(flips_too_many_ties, lists.n_queries).fails
    if smallest_mu.max(initial=0.0) > 1e12:
        raise DataError(
            "labels: found two that differ too little for any mu; expected labels further apart"
        )
    # Where a mu of next to nothing is enough, it need not be any.
    mu = np.maximum(np.where(smallest_mu > 1e-200, smallest_mu, 0.0), least_mu)
    flipped_ties = flipped_pairs(scores, lists, Noise(no_noise, mu))

    def flips_few_others(sigma: F64) -> Bools:
        flipped = flipped_pairs(scores, lists, Noise(sigma, mu))
        return flipped - flipped_ties <= half

    turning = _turning_point(flips_few_others, lists.n_queries)
    sigma = np.where(turning.fails < _HUGE, turning.holds, np.inf)
    return ConsistentSmoothing(mu, sigma)


def flipped_pairs(scores: F64, lists: Lists, noise: Noise) -> F64:
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
        noise: the noise of each query.

    >>> noise = Noise(sigma=np.zeros(2), mu=np.array([0.0, 4.0]))
    >>> lists = Lists.of([1.0, 0.0, 1.0, 0.0], [0, 2, 4])
    >>> flipped_pairs(np.array([1.0, 1.0, 5.0, 5.0]), lists, noise).round(4)
    array([0.5   , 0.0023])
    """
    order = np.lexsort((lists.labels, -scores, lists.query))
    labels = lists.labels[order]
    in_order = dataclasses.replace(lists, labels=labels)

    def differ(i: I64, j: I64) -> Bools:
        return np.asarray(labels[i] != labels[j])

    return flip_sums(scores[order], in_order, differ, noise)


class _TurningPoint(NamedTuple):
    """Where a condition stops to hold, one number per query.

    Attributes:
        holds: the largest number found at which it holds.
        fails: the smallest number found at which it does not.
    """

    holds: F64
    fails: F64


def _turning_point(condition: Callable[[F64], Bools], n_queries: int) -> _TurningPoint:
    """Return where a condition stops to hold, for conditions that hold below some number."""
    low = np.full(n_queries, _TINY)
    high = np.full(n_queries, _HUGE)
    for _ in range(_HALVINGS):
        middle = np.sqrt(low) * np.sqrt(high)
        holds = condition(middle)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return _TurningPoint(holds=low, fails=high)
