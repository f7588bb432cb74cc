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
        # A smaller bias is rounding; `where` leaves the NaN of `out` there.
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
    level = np.unique(scores, return_inverse=True)[1]

    unsmoothed = _measure_without_noise(smoothed, scores, lists)
    bound_metric = smoothed.bind(lists)
    labels = float_labels(lists)
    biases = []
    for _ in range(draws):
        noise = rng.normal(size=scores.size)
        noise -= mu * labels
        if sigma > 0:
            noisy = scores + sigma * noise
        else:
            # In the limit noise orders tied documents only: squeezed into (-0.4, 0.4) it keeps its
            # own order, and levels are 1 apart.
            squeezed = noise / (2.5 + 2.5 * np.abs(noise))
            noisy = level + squeezed
        # Differences from a value near them keep more digits than the values would.
        biases.append(bound_metric.per_query(noisy) - unsmoothed.worst)
    mean_bias = np.mean(biases, axis=0)
    return Smoothed(
        value=unsmoothed.worst + mean_bias,
        standard_error=np.std(biases, axis=0, ddof=1) / np.sqrt(draws),
        worst=unsmoothed.worst,
        expected=unsmoothed.expected,
    )


class _UnsmoothedValues(NamedTuple):
    """A metric of each query with tied documents in their worst order, and its mean over their
    orders.
    """

    worst: F64
    expected: F64


def _measure_without_noise(metric: Metric, scores: F64, lists: Lists) -> _UnsmoothedValues:
    """Return a metric of each query with tied documents in their worst order, and its mean over
    their orders.
    """
    worst = make_metric(metric, ties="worst").per_query(scores, lists)
    expected = make_metric(metric, ties="expected").per_query(scores, lists)
    return _UnsmoothedValues(worst, expected)


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
    unsmoothed = _measure_without_noise(smoothed, scores, lists)
    return Smoothed(
        value=value,
        standard_error=np.where(np.isnan(value), np.nan, 0.0),
        worst=unsmoothed.worst,
        expected=unsmoothed.expected,
    )


def _groups_of_ties(scores: F64, query: I64) -> Iterator[tuple[int, int]]:
    """Yield where each group of tied documents begins and ends; a document without ties is a group
    of its own.

    Args:
        scores: sorted inside each query, so that equal scores are neighbours.
        query: the query of each document.
    """
    # The first document has none before it: NaN differs from every score, and -1 from every query.
    has_new_score = np.diff(scores, prepend=np.nan) != 0
    is_in_new_query = np.diff(query, prepend=-1) != 0
    starts = np.flatnonzero(has_new_score | is_in_new_query).tolist()
    # Each group ends where the next one begins, the last one at the end.
    return pairwise([*starts, scores.size])


def _tied_discounts(labels: F64, discounts: F64, mu: float) -> F64:
    """Return the expected discount of each document of one tie, when normal noise of mean ``-mu y``
    orders its documents.

    Take one document with label ``y`` and fix its noise ``t``. Another one with label ``y'`` stands
    above it with probability ``Phi(-t - mu (y' - y))``, independently of the rest. Adding these one
    by one gives the distribution of the document's place in the tie, and with it the expected
    discount for this ``t``, whose mean over ``t`` is taken numerically.

    Args:
        labels: the labels of the tied documents.
        discounts: the discounts from the first rank of the tie on.
        mu: shift of the noise's mean per unit of the label.
    """
    from scipy.special import ndtr

    # Values of the noise on an even grid, and how much each counts in the mean over t.
    noise = np.arange(-_REACH, _REACH + _STEP, _STEP)
    density = np.exp(-0.5 * noise**2)
    expected_discounts = np.empty(labels.size)
    for label in np.unique(labels):
        has_label = labels == label
        # Documents with the same label have the same discount: one of them stands for all, and the
        # labels of the others are its rivals.
        rest_of_tie = np.delete(labels, np.argmax(has_label))
        # A row per place in the tie, a column per value of the document's noise.
        chance_of_place = np.zeros((labels.size, noise.size))
        chance_of_place[0] = 1.0
        for rival_label in rest_of_tie:
            # ndtr is Phi, the normal distribution function.
            chance_above = ndtr(-noise - mu * (rival_label - label))
            # A rival above moves the document one place down, one below leaves it where it is.
            moved_down = chance_of_place[:-1] * chance_above
            chance_of_place *= 1.0 - chance_above
            chance_of_place[1:] += moved_down

        discount_at_noise = discounts[: labels.size] @ chance_of_place
        expected_discounts[has_label] = discount_at_noise @ density / density.sum()
    return expected_discounts


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

    Scores are smoothed as ``s + sigma (noise - mu y)``, so ``mu`` pushes the better of two tied
    documents down. The worst order ranks tied documents with the lower label first. With the
    returned numbers, and with any smaller sigma, smoothing leaves this order with a probability of
    at least ``1 - precision``; so the smoothed metric differs from the metric by at most
    ``precision`` times the difference of its highest and lowest value.

    Half of ``precision`` is allowed for tied documents of different labels: ``mu`` is the smallest
    one at which noise reverses no more. The other half is for documents with different scores:
    sigma is the largest one at which noise and shift reverse no more.

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
    allowed_flips = 0.5 * real("precision", precision, 0.0, above=True, most=1.0)
    least_mu = real("least_mu", least_mu, 0.0)
    no_sigma = np.zeros(lists.n_queries)

    # As sigma falls to 0, noise reverses tied documents only.
    def flips_too_many_ties(mu: F64) -> Bools:
        return flipped_pairs(scores, lists, Noise(no_sigma, mu)) > allowed_flips

    smallest_mu = _find_turning_point(flips_too_many_ties, lists.n_queries).smallest_that_fails
    if smallest_mu.max(initial=0.0) > 1e12:
        raise DataError(
            "labels: found two that differ too little for any mu; expected labels further apart"
        )
    # The search starts just above 0: where it did not move, no shift is needed.
    needed_mu = np.where(smallest_mu > 1e-200, smallest_mu, 0.0)
    mu = np.maximum(needed_mu, least_mu)
    flipped_ties = flipped_pairs(scores, lists, Noise(no_sigma, mu))

    def flips_few_untied(sigma: F64) -> Bools:
        flipped = flipped_pairs(scores, lists, Noise(sigma, mu))
        return flipped - flipped_ties <= allowed_flips

    turning_point = _find_turning_point(flips_few_untied, lists.n_queries)
    is_limited = turning_point.smallest_that_fails < _HUGE
    sigma = np.where(is_limited, turning_point.largest_that_holds, np.inf)
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
    # Best score first; of equal scores the lower label first, which is the worst order.
    worst_order = np.lexsort((lists.labels, -scores, lists.query))
    labels = lists.labels[worst_order]
    # `flip_sums` adds up weight times the chance that noise reverses a pair, and wants the documents
    # in their order of rank.
    lists_in_order = dataclasses.replace(lists, labels=labels)

    # A weight of True is 1, of False 0: pairs with equal labels do not count.
    def have_different_labels(i: I64, j: I64) -> Bools:
        return np.asarray(labels[i] != labels[j])

    return flip_sums(scores[worst_order], lists_in_order, have_different_labels, noise)


class _TurningPoint(NamedTuple):
    """The two neighbouring numbers of each query between which a condition stops to hold."""

    largest_that_holds: F64
    smallest_that_fails: F64


def _find_turning_point(condition: Callable[[F64], Bools], n_queries: int) -> _TurningPoint:
    """Find, for each query, the number up to which a condition holds, by bisection.

    Args:
        condition: from one positive number per query to whether it holds there; it must hold for
            all numbers below some limit of the query, and for none above.
        n_queries: number of queries.
    """
    # Each round halves the interval (on a scale of logarithms) in which the number lies.
    low = np.full(n_queries, _TINY)
    high = np.full(n_queries, _HUGE)
    for _ in range(_HALVINGS):
        # The geometric mean, since the two ends are many orders of magnitude apart.
        middle = np.sqrt(low) * np.sqrt(high)
        holds = condition(middle)
        low = np.where(holds, middle, low)
        high = np.where(holds, high, middle)
    return _TurningPoint(largest_that_holds=low, smallest_that_fails=high)
