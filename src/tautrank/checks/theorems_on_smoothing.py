"""Theorems about losses that stand for a metric: how directly they optimise it, and what smoothing does to ties."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tautrank.checks.registry import (
    Examine,
    about,
    check,
    first_reason,
    nothing_relevant,
    of_kind,
    only_queries,
    slow_check,
    some_lists,
    some_short_lists,
)
from tautrank.errors import OptionError
from tautrank.losses import LambdaLoss, Loss, SmoothedLoss, SoftRank
from tautrank.losses.base import Lists
from tautrank.metrics import DCG, NDCG, Metric, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.metrics.ordering import F64
from tautrank.theory.bound import Bound, sees_scores
from tautrank.theory.directness import best_scorings, directness, directness_among, spread_scorings, surrogate
from tautrank.theory.smoothing_bias import consistent_smoothing, smoothed_metric, smoothing_limit
from tautrank.theory.softrank_bounds import (
    least_distances,
    softrank_ndcg_bound,
    softrank_sigma_limit,
    softrank_sigma_limit_as_stated,
)

_HE_LIU = "He and Liu, Are Algorithms Directly Optimizing IR Measures Really Direct?, 2008"
_STOCHASTIC = "Ustimenko and Prokhorenkova, StochasticRank, ICML 2020"

# Sigma as a share of its limit, from just below it to far below it.
_SHARES = (0.999, 0.5, 0.2)
# Probability of an order other than the worst: so small that a single one is a failure.
_PRECISION = 1e-9
# Whole-number scores keep their order in noise of this size.
_NARROW = 1e-3
# Differences below this are rounding of a sum of gains.
_ROUNDING = 1e-9


# Conditions


def _no_scale(loss: Loss, scores: F64, lists: Lists) -> str | None:
    if not sees_scores(loss):
        return "it is about losses without noise"
    if isinstance(loss, LambdaLoss) and (loss.norm is not None or loss._draws_rankings):
        return "it is about the hard assignment without norm"
    try:
        surrogate(loss)
    except OptionError:
        return "its value does not have the scale of a metric"
    return nothing_relevant(loss, scores, lists)


def _several(lists: Lists) -> NDArray[np.bool_]:
    """Return the queries with several documents, one of them relevant."""
    return (lists.sizes > 1) & lists.has_relevant


def _without_ties(scores: F64, lists: Lists) -> NDArray[np.bool_]:
    """Return the queries that Theorem 2 is about: several documents, no tie, and one of them relevant."""
    return (least_distances(scores, lists.offsets) > 0) & _several(lists)


def _no_halves(loss: Loss, scores: F64, lists: Lists) -> str | None:
    both = all(lists.has_relevant[half::2].any() for half in (0, 1))
    return None if both else "one half of the queries has no relevant document"


_WORDS = "softrank with its exact gradient and without noise"
_softrank = of_kind(SoftRank, _WORDS, about(_WORDS, lambda loss, *_: loss.estimator == "exact"))
_full = about("full lists and the logarithmic discount", lambda loss, *_: loss.k is None and loss.discount == "log2")
_untied = about("lists without ties", lambda loss, scores, lists: _without_ties(scores, lists).any())
_long = about("lists of several documents, one of them relevant", lambda loss, s, lists: _several(lists).any())
_of_ranking = about(
    "the metrics of a ranking", lambda loss, *_: loss.ignores_shifts and isinstance(loss.metric, Metric)
)
_smoothed = of_kind(SmoothedLoss, "stochasticrank and reinforce without noise", _of_ranking)
_worst_ties = about("metrics with ties at their worst", lambda loss, *_: loss._ties_are_worst)


# Of directness


@check(
    "directness",
    "the best of sixteen scorings by the loss is by the metric at most 2 eps1 + eps2 worse than the best by the metric",
    paper=f"{_HE_LIU}, Theorem 1, for seen queries",
    unless=_no_scale,
    once=True,
    sample=some_lists,
)
def _directness(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    scorings = [scores, *spread_scorings(lists.labels, lists.offsets)]
    found = directness_among(loss, scorings, lists.labels, lists.offsets)
    return found.margin, repr(found)


@check(
    "directness-unseen",
    "the same, chosen by one half of the queries and measured on the other",
    paper=f"{_HE_LIU}, Theorem 1 as stated",
    unless=first_reason(_no_scale, _no_halves),
    once=True,
    sample=some_lists,
    flaw="the paper's proof takes for granted that the choice is as good on every unseen query",
)
def _directness_unseen(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    scorings = [scores, *spread_scorings(lists.labels, lists.offsets)]
    even = np.arange(lists.sizes.size) % 2 == 0
    seen, unseen = (only_queries(scores, lists, half)[1] for half in (even, ~even))
    rows = np.repeat(even, lists.sizes)
    best = best_scorings(loss, [s[rows] for s in scorings], seen.labels, seen.offsets)
    by_loss, by_metric = (scorings[at][~rows] for at in best)
    found = directness(loss, by_loss, by_metric, unseen.labels, unseen.offsets)
    return found.margin, repr(found)


# Of SoftRank


def _below_limits(version: str, limit: Callable[[F64], F64]) -> Examine:
    """Return the check of a bound of Theorem 2, with each query's scores stretched until sigma is below its limit."""

    def examine(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
        kept = _without_ties(scores, lists)
        least = least_distances(scores, lists.offsets)[kept]
        s, some = only_queries(scores, lists, kept)
        bounds = []
        for share in _SHARES:
            stretch = loss.sigma / (share * limit(some.sizes.astype(np.float64)) * least)
            stretched = s * stretch[some.query]
            bounds.append(softrank_ndcg_bound(stretched, some.labels, some.offsets, loss, version=version))
        return _worst_of(bounds)

    return examine


def _worst_of(bounds: list[Bound]) -> tuple[float, str]:
    worst = min(bounds, key=lambda bound: bound.margin)
    ratio = max(float(np.nanmax(bound.lower / np.maximum(bound.upper, _ROUNDING))) for bound in bounds)
    return worst.margin, f"the difference is at most {ratio:.2g} of the bound"


slow_check(
    "softrank-bound",
    "|NDCG - SoftNDCG| is below the bound, with (N - 1)/4 and a sigma below what the proof needs",
    paper=f"{_HE_LIU}, proof of Theorem 2",
    unless=first_reason(_softrank, _full, _untied),
)(_below_limits("proof", lambda sizes: softrank_sigma_limit(1.0, sizes)))

slow_check(
    "softrank-bound-as-stated",
    "|NDCG - SoftNDCG| is below the bound without (N - 1)/4, where that is a number",
    paper=f"{_HE_LIU}, Theorem 2 as stated",
    unless=first_reason(_softrank, _full, _untied),
)(
    _below_limits(
        # From six documents on the stated limit is the lower one; below that 1 - 5 epsilon_3 reaches 0 before it.
        "stated", lambda sizes: np.minimum(softrank_sigma_limit_as_stated(1.0, sizes), softrank_sigma_limit(1.0, 5.0))
    )
)  # fmt: skip


@check(
    "softrank-sigma-limit",
    "for every sigma below the stated limit the stated bound is a number",
    paper=f"{_HE_LIU}, Theorem 2 as stated",
    unless=first_reason(_softrank, _full, _long),
    once=True,
    flaw="with two to five documents the bound asks for the root of a negative number before sigma reaches the limit",
)
def _softrank_sigma_limit(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    sizes = np.unique(lists.sizes[_several(lists)]).astype(np.float64)
    stated = softrank_sigma_limit_as_stated(1.0, sizes)
    # Where 1 - erf(x)^2 is 1/5, whatever the number of documents; five of them make it the proof's own limit.
    number = np.full(sizes.size, float(softrank_sigma_limit(1.0, 5.0)))
    ratio = np.minimum(number / stated - 1.0, 1.0)
    at = int(np.argmin(ratio))
    limits = f"a number below {number[at]:.3g} delta, stated {stated[at]:.3g} delta"
    return float(ratio[at]), f"with {sizes[at]:g} documents delta apart: {limits}"


@check(
    "softrank-contests",
    "|NDCG - SoftNDCG| is at most the largest step of the discount times the gains of the pairs that noise reverses",
    paper=f"{_HE_LIU}, a sharper form of Theorem 2",
    unless=_softrank,
    sample=some_short_lists,
)
def _softrank_contests(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    return _worst_of([softrank_ndcg_bound(scores, lists.labels, lists.offsets, loss, version="contests")])


def _with_ties(examine: Callable[[Any, F64, Lists], tuple[float, str]]) -> Examine:
    """Function decorator: check at whole-number scores, many of them tied, and at equal ones; the worse counts."""

    def worst(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
        spread = float(scores.std())
        coarse = np.round(scores / spread) if spread > 0 else np.zeros_like(scores)
        return min(examine(loss, tied, lists) for tied in (coarse, np.zeros_like(scores)))

    return worst


@check(
    "softrank-ties",
    "measured: as sigma falls to 0, ties count as their expected value",
    unless=_softrank,
    once=True,
    sample=some_lists,
)
@_with_ties
def _softrank_ties(loss: Any, tied: F64, lists: Lists) -> tuple[float, str]:
    judge = NDCG(k=loss.k, gain=loss.gain, discount=loss.discount, ties="expected")
    expected = judge.per_query(tied, lists.labels, lists.offsets)
    near = dataclasses.replace(loss, sigma=_NARROW)
    difference = np.abs(1.0 - near.bind(lists.labels, lists.offsets).values(tied) - expected)
    worst = float(np.nanmax(difference))
    return 1e-6 - worst, f"the largest difference is {worst:.2g}: contests are taken as independent"


# Of smoothing by noise


@slow_check(
    "smoothing-worst",
    "with a large mu and a small sigma the smoothed metric is the metric with ties at their worst",
    paper=f"{_STOCHASTIC}, Theorem 1",
    unless=first_reason(_smoothed, _worst_ties),
)
@_with_ties
def _smoothing_worst(loss: Any, tied: F64, lists: Lists) -> tuple[float, str]:
    y, cuts = lists.labels, lists.offsets
    mu = float(consistent_smoothing(tied, y, cuts, _PRECISION).mu.max())
    sigma = min(float(consistent_smoothing(tied, y, cuts, _PRECISION, least_mu=mu).sigma.min()), 1.0)
    near = dataclasses.replace(loss, mu=mu, sigma=sigma, samples=4)
    difference = -near.bind(y, cuts).values(tied) - _judge(loss, "worst").per_query(tied, y, cuts)
    largest = float(np.nanmax(np.abs(difference)))
    return 1e-9 - largest, f"with mu {mu:.3g} and sigma {sigma:.2g} the largest difference is {largest:.2g}"


@slow_check(
    "smoothing-expected",
    "without shift, as sigma falls to 0, the smoothed metric counts ties as their expected value",
    paper=f"{_STOCHASTIC}, sec. 4.3",
    unless=_smoothed,
)
@_with_ties
def _smoothing_expected(loss: Any, tied: F64, lists: Lists) -> tuple[float, str]:
    expected = _judge(loss, "expected").per_query(tied, lists.labels, lists.offsets)
    near = dataclasses.replace(loss, mu=0.0, sigma=_NARROW, samples=32)
    objective = near.bind(lists.labels, lists.offsets)
    means = np.array([float(np.nanmean(-objective.values(tied, step) - expected)) for step in range(16)])
    difference, error = float(means.mean()), float(means.std(ddof=1)) / 4.0
    detail = f"the mean difference is {difference:.2g}, its standard error {error:.2g}"
    return 5.0 * error + 1e-9 - abs(difference), detail


@slow_check(
    "smoothing-bias",
    "measured: with the mu it has, as sigma falls to 0, less than 0.001 is left of what ties add to their worst case",
    unless=first_reason(_smoothed, _worst_ties),
)
@_with_ties
def _smoothing_bias(loss: Any, tied: F64, lists: Lists) -> tuple[float, str]:
    judge, mu = _judge(loss, "worst"), loss._shift_by_label
    given = (tied, lists.labels, lists.offsets, judge)
    exact = isinstance(judge, DCG | NDCG)
    found = smoothing_limit(*given, mu=mu) if exact else smoothed_metric(*given, sigma=0.0, mu=mu, draws=200)
    bias, without = mean_over_queries(found.bias), mean_over_queries(found.expected - found.worst)
    part = f", {bias / without:.0%} of that without shift" if without > 1e-9 else ""
    return 1e-3 - bias, f"with mu {mu:g} a mean bias of {bias:.3g} is left{part}"


def _judge(loss: SmoothedLoss, ties: str) -> Metric:
    assert isinstance(loss.metric, Metric)
    return metric(loss.metric, ties=ties, empty="skip")
