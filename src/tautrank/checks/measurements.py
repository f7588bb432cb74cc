"""What is measured of a loss: how steep it is, how far it lies above the cost of a metric, and how
it counts ties.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tautrank import theory
from tautrank.arrays import F64
from tautrank.checks.checking import measurement, slow_measurement
from tautrank.checks.conditions import not_smoothed_with_worst_ties, not_softrank, nothing_relevant
from tautrank.checks.samples import scorings_with_ties, some_lists
from tautrank.data import Lists
from tautrank.losses import Loss
from tautrank.metrics import DCG, NDCG, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.theory.lipschitz import measured_constant, proven_constant
from tautrank.theory.theorem import negative_log

# A gap of no more than this is rounding.
_ROUNDING = 1e-9
# Whole-number scores keep their order in noise of this size.
_LITTLE_NOISE = 1e-3


@slow_measurement("lipschitz", reported="largest", unless=nothing_relevant)
def _lipschitz(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """the steepest slope that is found, with the weights of the loss held fixed"""
    # From three random scorings with seed 0, next to worst cases, at one scale of the scores each:
    # standard deviations of 30 and 30 000. A slope that grows with the scale has no constant.
    near = float(measured_constant(loss, lists, 3, 0, (30.0,)).max())
    far = float(measured_constant(loss, lists, 3, 0, (3e4,)).max())
    proven = float(proven_constant(loss, lists).max())
    detail = f"{near:.4g} at scores some 30 apart, {far:.4g} at scores a thousand times as far"
    if np.isfinite(proven):
        detail = f"the proven constant is {proven:.4g}"
    return max(near, far), detail


def _gap_above(
    cost_name: str,
    metric_name: str,
    cost: Callable[[F64], F64],
    loss: Loss,
    scores: F64,
    lists: Lists,
) -> tuple[float, str]:
    """Return the smallest gap, over the queries, between a loss and a cost computed from a metric
    (below 0 where the loss is below the cost), and a sentence about it.

    Args:
        cost_name: the cost in words.
        metric_name: the metric that it is computed from.
        cost: from the metric of each query to its cost.
        loss: any loss.
        scores: one per document.
        lists: the labelled lists.
    """
    # NaN where the metric skips a query, for one without a relevant document.
    costs = cost(metric(metric_name).per_query(scores, lists))
    gaps = loss.bind(lists).values(scores) - costs
    with_value = np.flatnonzero(~np.isnan(costs))
    narrowest = int(with_value[np.argmin(gaps[with_value])])

    n_below = int(np.count_nonzero(gaps[with_value] < -_ROUNDING))
    detail = f"{cost_name} is {costs[narrowest]:.4g} there"
    if n_below:
        detail += f"; the loss is below it in {n_below} of {with_value.size} queries"
    # A gap that is only rounding counts as 0.
    smallest = float(gaps[narrowest])
    return (smallest if abs(smallest) > _ROUNDING else 0.0), detail


def _enter_gap(name: str, cost_name: str, metric_name: str, cost: Callable[[F64], F64]) -> None:
    """Enter into the checks, under a name, the measurement of the smallest gap between any loss and
    a cost computed from a metric.
    """
    statement = f"the smallest gap between the loss and {cost_name}"
    # `measurement` makes a decorator, here called with a function whose first arguments are set.
    enter = measurement(name, statement, unless=nothing_relevant)
    enter(functools.partial(_gap_above, cost_name, metric_name, cost))


def _one_minus(values: F64) -> F64:
    return 1.0 - values


_enter_gap("above-ndcg-cost", "1 - NDCG", "ndcg", _one_minus)
_enter_gap("above-mrr-cost", "1 - RR", "mrr", _one_minus)
_enter_gap("above-log-ndcg", "-log NDCG", "ndcg", negative_log)
_enter_gap("above-log-mrr", "-log RR", "mrr", negative_log)


@measurement("softrank-ties", reported="largest", unless=not_softrank, once=True, sample=some_lists)
def _softrank_ties(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """the largest difference between NDCG with the expected value of ties and SoftNDCG as sigma
    falls to 0
    """
    # NDCG as its mean over all orders of tied documents.
    ndcg = NDCG(k=loss.k, gain=loss.gain, discount=loss.discount, ties="expected")
    nearly_hard = dataclasses.replace(loss, sigma=_LITTLE_NOISE)
    objective = nearly_hard.bind(lists)
    largest = 0.0
    for tied in scorings_with_ties(scores):
        expected = ndcg.per_query(tied, lists)
        # The loss is 1 - SoftNDCG. NDCG is NaN for queries without a relevant document.
        difference = np.abs(1.0 - objective.values(tied) - expected)
        largest = max(largest, float(np.nanmax(difference)))
    return largest, "contests among ties are taken as independent"


@slow_measurement("smoothing-bias", reported="largest", unless=not_smoothed_with_worst_ties)
def _smoothing_bias(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """with the mu that it has, as sigma falls to 0, how much more than their worst case ties count,
    on average
    """
    return max(_tie_bias(loss, tied, lists) for tied in scorings_with_ties(scores))


def _tie_bias(loss: Any, tied: F64, lists: Lists) -> tuple[float, str]:
    """Return the mean bias of a smoothed metric at tied scores, and a sentence that says what share
    of it the shift ``mu`` leaves.

    The loss is a metric of noisy scores. As the noise shrinks, noise alone orders tied documents;
    the bias is by how much the metric then exceeds that of their worst order. ``mu`` shifts the
    noise against the labels, so that the worst order becomes more likely.
    """
    smoothed_metric = metric(loss.metric, ties="worst", empty="skip")
    mu = loss._shift_by_label
    # DCG and NDCG have an exact limit; for others it is estimated from draws (sigma of 0 is the
    # limit of ever smaller noise).
    if isinstance(smoothed_metric, DCG | NDCG):
        smoothed = theory.smoothing_limit(tied, lists, smoothed_metric, mu=mu)
    else:
        smoothed = theory.smoothed_metric(tied, lists, smoothed_metric, sigma=0.0, mu=mu, draws=200)
    bias = mean_over_queries(smoothed.bias)
    without_shift = mean_over_queries(smoothed.expected - smoothed.worst)
    # Where ties make no difference there is no share of it.
    share = f", {bias / without_shift:.0%} of that without shift" if without_shift > 1e-9 else ""
    return bias, f"with mu {mu:g}{share}"
