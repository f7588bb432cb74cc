"""The papers' theorems: about cross entropy and LambdaLoss, and about losses that stand for a metric,
how directly these optimise it and what smoothing does to ties.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tautrank import theory
from tautrank.arrays import F64
from tautrank.checks import conditions
from tautrank.checks.checking import slow_theorem, theorem
from tautrank.checks.samples import only_queries, scorings_with_ties, short_lists, some_lists
from tautrank.data import Lists
from tautrank.losses import Loss
from tautrank.metrics import metric
from tautrank.theory.directness import best_scorings
from tautrank.theory.lipschitz import measured_constant, paper_constant, proven_constant
from tautrank.theory.softrank_bounds import least_distances
from tautrank.theory.theorem import has_relevant

_ROUNDING = 1e-9
# Of the trees for which the generalisation bound is worked out, as many as a booster's default.
_LEAVES = 31
# Sigma as a share of its limit, from just below it to far below it.
_SHARES = (0.999, 0.5, 0.2)
# Probability of an order other than the worst: so small that a single one is a failure.
_PRECISION = 1e-9
# Whole-number scores keep their order in noise of this size.
_LITTLE_NOISE = 1e-3
# The sigma, for scores that are 1 apart, from which on the bound that Theorem 2 states takes the
# root of a negative number: there 1 - erf(x)^2 is 1/5, whatever the number of documents. For five
# documents it is the proof's own limit. From six documents on the stated limit is the lower one.
_SIGMA_WHERE_STATED_BOUND_ENDS = float(theory.softrank_sigma_limit(1.0, 5.0))
# A mean may be this many standard errors away from what it should be.
_STANDARD_ERRORS = 5.0
_STEPS_OF_MEAN = 16
_XE_PAPER = "Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020"
_BINARY_PAPER = "Bruch et al., An Analysis of the Softmax Cross Entropy Loss, ICTIR 2019"
_LAMBDA_PAPER = "Wang et al., The LambdaLoss Framework, CIKM 2018"
_HE_LIU = "He and Liu, Are Algorithms Directly Optimizing IR Measures Really Direct?, 2008"
_AS_STATED = f"{_HE_LIU}, Theorem 2 as stated"
_STOCHASTIC = "Ustimenko and Prokhorenkova, StochasticRank, ICML 2020"


# Of any loss


@slow_theorem(
    "proven-lipschitz",
    paper=f"{_XE_PAPER}, Propositions 1 and 2; a constant from the labels here",
    unless=conditions.no_proven_constant,
)
def _proven_lipschitz(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """the loss, with its weights held fixed, is nowhere steeper than the constant proven for it"""
    # The steepest slope of each query in three random scorings (seed 0) and the worst cases, at two
    # scales of the scores.
    steepest = measured_constant(loss, lists, 3, 0, (30.0, 3e4))
    proven = proven_constant(loss, lists)
    # The margin is relative to the constant; slopes below 1e-6 are rounding.
    share_of_constant = (steepest - 1e-6) / np.maximum(proven, 1e-6)
    smallest_margin = float((1.0 - share_of_constant).min())
    detail = (
        f"the steepest slope found is {steepest.max():.3g}, the proven constant {proven.max():.3g}"
    )
    return smallest_margin, detail


@slow_theorem("m-step", paper=f"{_LAMBDA_PAPER}, sec. 4.2", unless=conditions.nothing_relevant)
def _m_step(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """with its weights held fixed, the loss falls along its derivative and never rises"""
    trace = theory.majorise_minimise(loss, scores, lists, iterations=2, steps=2)
    # `frozen` is the loss of each query before and after each step of an M-step (axis 1), with the
    # weights held fixed. A margin below 0 says that it rose.
    rise = float(np.diff(trace.frozen, axis=1).max(initial=0.0))
    return -rise, f"the largest rise in a step is {rise:.2g}"


# Of cross entropy


def _describe_smallest_gap(bound: theory.Bound) -> tuple[float, str]:
    """Return by how much an inequality ``upper >= lower`` holds at least (below 0 where it fails),
    and a sentence about the query with the smallest gap between its two sides.
    """
    # The gap of each query, in units that suit large and small values; NaN for skipped queries.
    relative_gaps = bound.gap / (1.0 + np.abs(bound.lower))
    query = int(np.nanargmin(relative_gaps))
    gap = bound.gap[query]
    upper = bound.upper[query]
    lower = bound.lower[query]
    return bound.margin, f"the smallest gap is {gap:.4g} between {upper:.4g} and {lower:.4g}"


@theorem("xe-ndcg", paper=f"{_XE_PAPER}, Theorem 1", unless=conditions.not_xendcg)
def _xe_ndcg(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """XE >= -log(NDCG + 1/maxDCG), for each query and on average"""
    return _describe_smallest_gap(theory.xe_ndcg_bound(scores, lists, loss))


@theorem(
    "xe-ndcg-refined",
    paper=f"{_XE_PAPER}, from the proof of Theorem 1",
    unless=conditions.not_xendcg,
)
def _xe_ndcg_refined(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """XE >= -log(NDCG + sum (1 - gamma) rho / maxDCG), for each query and on average"""
    return _describe_smallest_gap(theory.xe_ndcg_bound(scores, lists, loss, refined=True))


def _compare_with_paper_constant(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """Return how far the steepest slope of the loss that was found stays below the Lipschitz
    constant that the paper states, in the query where it comes nearest; and a sentence with both.

    The scores are not used: the search for steep slopes chooses its own.
    """
    is_relevant_query = has_relevant(lists)
    # From five random scorings per scale with seed 0, and the worst cases.
    steepest = measured_constant(loss, lists, 5, 0)[is_relevant_query]
    stated = paper_constant(loss, lists)[is_relevant_query]
    nearest = int(np.argmax(steepest - stated))
    detail = (
        f"the steepest slope found is {steepest[nearest]:.3g}, the constant {stated[nearest]:.3g}"
    )
    return float(stated[nearest] - steepest[nearest]), detail


@slow_theorem("xe-lipschitz", paper=f"{_XE_PAPER}, Proposition 2", unless=conditions.not_softmax)
def _xe_lipschitz(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """cross entropy is 2-Lipschitz"""
    return _compare_with_paper_constant(loss, scores, lists)


@theorem(
    "generalisation",
    paper=f"{_XE_PAPER}, Theorem 2",
    unless=conditions.no_proven_constant,
    once=True,
    flaw=(
        "its proof counts a change of a query as a change of its scores alone, but lists of other"
        " lengths differ more"
    ),
)
def _generalisation(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """the losses of two queries with scores in [0, 1] differ by at most the Lipschitz constant, as
    its bound assumes
    """
    constant = float(proven_constant(loss, lists).max())
    random_scores = np.random.default_rng(0).random(lists.n_documents)
    all_values = loss.bind(lists).values(random_scores)
    values = all_values[has_relevant(lists)]
    difference = float(np.ptp(values))  # the largest less the smallest

    # How far the loss of unseen queries may lie above that of these, for trees of _LEAVES leaves.
    covering_of_trees = functools.partial(theory.log_box_covering, dimensions=_LEAVES)
    error = theory.generalisation_error(
        values.size,
        constant,
        covering_of_trees,
        difference=max(difference, constant),
    )
    detail = (
        f"they differ by {difference:.3g}, the constant is {constant:.3g}; for trees of {_LEAVES}"
        " leaves with fixed splits the loss of unseen queries is, with 95 % confidence, at most"
        f" {error:.3g} above that of these"
    )
    return constant - difference, detail


@theorem("hessian", paper=f"{_XE_PAPER}, Claims 1 and 2", unless=conditions.not_softmax_of_floats)
def _hessian(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """with epsilon the Hessian of cross entropy is positive definite, and the spectral radius of S
    is below 1
    """
    epsilon = conditions.EPSILON
    # Both are one per query, NaN for one without documents; the gap is 1 less the spectral radius.
    eigenvalue = float(np.nanmin(theory.smallest_eigenvalue(scores, lists.offsets, epsilon)))
    gap = float(np.nanmin(theory.spectral_gap(scores, lists.offsets, epsilon)))
    detail = (
        f"with epsilon {epsilon:g} the smallest eigenvalue is {eigenvalue:.2g}, the spectral radius"
        f" 1 - {gap:.2g}"
    )
    margin = min(eigenvalue, gap)
    # A margin of 0 passes a check, but here the theorem says "above 0".
    if math.isnan(margin) or margin <= 0:
        margin = -1.0
    return margin, detail


@theorem(
    "softmax-mrr",
    paper=f"{_BINARY_PAPER}, Theorems 1 and 2; graded labels here",
    unless=conditions.not_listnet,
)
def _softmax_mrr(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """XE >= -log RR, for each query and on average"""
    return _describe_smallest_gap(theory.softmax_mrr_bound(scores, lists, loss))


@theorem(
    "softmax-ndcg",
    paper=f"{_BINARY_PAPER}, Theorem 3",
    unless=conditions.not_binary_listnet,
)
def _softmax_ndcg(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """XE >= -log NDCG, for each query and on average, with binary labels"""
    return _describe_smallest_gap(theory.softmax_ndcg_bound(scores, lists, loss))


# Of the LambdaLoss family


@theorem("lambdaloss", paper=f"{_LAMBDA_PAPER}, sec. 5.1 to 5.3", unless=conditions.not_lambdaloss)
def _lambdaloss(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """the loss and its constants are at least the cost it was derived from"""
    return _describe_smallest_gap(theory.lambdaloss_bound(scores, lists, loss))


@theorem(
    "ndcg-cost",
    paper=f"{_LAMBDA_PAPER}, sec. 5, without its constants",
    unless=conditions.not_ndcg_cost,
)
def _ndcg_cost(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """without constants the loss is at least 1 - NDCG"""
    return _describe_smallest_gap(theory.ndcg_cost_bound(scores, lists, loss))


@theorem("lambdarank-metric", paper=f"{_LAMBDA_PAPER}, sec. 5.3", unless=conditions.not_lambdarank)
def _lambdarank_metric(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """the metric that LambdaRank bounds is at least the cost of NDCG"""
    # An inequality between the two sides for each query; its gain and discount are those of the loss.
    bound = theory.lambdarank_metric_bound(scores, lists, gain=loss.gain, discount=loss.discount)
    return _describe_smallest_gap(bound)


@slow_theorem(
    "lambdarank-lipschitz",
    paper=f"{_XE_PAPER}, Proposition 1",
    unless=conditions.not_lambdarank_of_paper,
)
def _lambdarank_lipschitz(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """LambdaRank, with its weights held fixed, is sigma m^2-Lipschitz (over log 2, for logarithms
    to base 2)
    """
    return _compare_with_paper_constant(loss, scores, lists)


@slow_theorem(
    "em-descent",
    paper=f"{_LAMBDA_PAPER}, sec. 4.2",
    unless=conditions.need_not_descend,
)
def _em_descent(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """the loss never rises from one M-step to the next"""
    trace = theory.majorise_minimise(loss, scores, lists, iterations=3, steps=2)
    # `objective` is the loss of each query at every iteration (axis 0), with the weights of its own
    # ranking. A margin below 0 says that it rose; up to 1e-9 passes as rounding, since the tight
    # gamma is found to one part in 10^12 of the loss.
    rise = float(np.diff(trace.objective, axis=0).max())
    return -rise, f"from one iteration to the next the loss changes by at most {rise:.2g}"


# Of directness


@theorem(
    "directness",
    paper=f"{_HE_LIU}, Theorem 1, for seen queries",
    unless=conditions.not_scaled_as_metric,
    once=True,
    sample=some_lists,
)
def _directness(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """the best of sixteen scorings by the loss is by the metric at most 2 eps1 + eps2 worse than
    the best by the metric"""
    # The given scores, and fifteen between chance and the order of the labels. `directness` has the
    # cost of choosing by the loss; its margin is what Theorem 1 leaves of its guarantee.
    scorings = [scores, *theory.spread_scorings(lists)]
    directness = theory.directness_among(loss, scorings, lists)
    return directness.margin, repr(directness)


@theorem(
    "directness-unseen",
    paper=f"{_HE_LIU}, Theorem 1 as stated",
    unless=conditions.no_two_halves,
    once=True,
    sample=some_lists,
    flaw="the paper's proof takes for granted that the choice is as good on every unseen query",
)
def _directness_unseen(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """the same, chosen by one half of the queries and measured on the other"""
    # The given scores, and fifteen between chance and the order of the labels.
    scorings = [scores, *theory.spread_scorings(lists)]
    is_seen_query = np.arange(lists.n_queries) % 2 == 0
    seen_lists = only_queries(scores, lists, is_seen_query)[1]
    unseen_lists = only_queries(scores, lists, ~is_seen_query)[1]
    is_seen_document = is_seen_query[lists.query]

    # Choose by the even queries, measure on the odd ones.
    seen_scorings = [scoring[is_seen_document] for scoring in scorings]
    # The numbers of the best scoring by the loss and of the best one by its metric.
    best = best_scorings(loss, seen_scorings, seen_lists)
    by_loss = scorings[best.by_loss][~is_seen_document]
    by_metric = scorings[best.by_metric][~is_seen_document]
    directness = theory.directness(loss, by_loss, by_metric, unseen_lists)
    return directness.margin, repr(directness)


# Of SoftRank


def _check_below_sigma_limit(
    version: str, sigma_limit: Callable[[float, F64], F64], loss: Any, scores: F64, lists: Lists
) -> tuple[float, str]:
    """Return by how much at least SoftRank's bound on ``|NDCG - SoftNDCG|`` holds where sigma is
    below the limit of Theorem 2 (below 0 where it fails), and a sentence about it.

    The limit is proportional to the least distance of two scores of a query, so the scores of each
    query are stretched until the loss's sigma is a chosen share of the limit.

    Args:
        version: which bound, see `theory.softrank_ndcg_bound`.
        sigma_limit: from the least distance and the number of documents to the limit.
        loss: a ``softrank`` loss.
        scores: one per document.
        lists: the labelled lists.
    """
    scores, lists = only_queries(scores, lists, conditions.have_no_ties(scores, lists))
    limits_at_distance_1 = sigma_limit(1.0, lists.sizes.astype(np.float64))
    distances = least_distances(scores, lists.offsets)
    bounds = []
    for share in _SHARES:
        # Afterwards sigma is `share` times the limit of every query.
        stretch = loss.sigma / (share * limits_at_distance_1 * distances)
        stretched_scores = scores * stretch[lists.query]
        bound = theory.softrank_ndcg_bound(stretched_scores, lists, loss, version=version)
        bounds.append(bound)
    return _describe_tightest(bounds)


def _describe_tightest(bounds: list[theory.Bound]) -> tuple[float, str]:
    """Return the smallest margin of several bounds on ``|NDCG - SoftNDCG|``, and a sentence that
    says how large a share of its bound the difference reaches.
    """
    # A bound has an upper and a lower side per query (NaN where skipped): the difference is `lower`.
    margin = min(bound.margin for bound in bounds)
    largest_shares = []
    for bound in bounds:
        # A bound of 0 would divide by 0.
        shares_of_bound = bound.lower / np.maximum(bound.upper, _ROUNDING)
        largest_shares.append(float(np.nanmax(shares_of_bound)))
    largest_share = max(largest_shares)
    return margin, f"the difference is at most {largest_share:.2g} of the bound"


@slow_theorem(
    "softrank-bound",
    paper=f"{_HE_LIU}, proof of Theorem 2",
    unless=conditions.not_untied_softrank,
)
def _softrank_bound(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is below the bound, with (N - 1)/4 and a sigma below what the proof
    needs
    """
    return _check_below_sigma_limit("proof", theory.softrank_sigma_limit, loss, scores, lists)


@slow_theorem("softrank-bound-as-stated", paper=_AS_STATED, unless=conditions.not_untied_softrank)
def _softrank_bound_as_stated(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is below the bound without (N - 1)/4, where that is a number"""

    # With few documents the stated bound ends (a negative number under a root) before the stated
    # limit of sigma is reached.
    def limit_where_bound_is_number(delta: float, n_documents: F64) -> F64:
        stated_limit = theory.softrank_sigma_limit_as_stated(delta, n_documents)
        return np.minimum(stated_limit, _SIGMA_WHERE_STATED_BOUND_ENDS)

    return _check_below_sigma_limit("stated", limit_where_bound_is_number, loss, scores, lists)


@theorem(
    "softrank-sigma-limit",
    paper=_AS_STATED,
    unless=conditions.not_softrank_of_several,
    once=True,
    flaw=(
        "with two to five documents the bound asks for the root of a negative number before sigma"
        " reaches the limit"
    ),
)
def _softrank_sigma_limit(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """for every sigma below the stated limit the stated bound is a number"""
    # Sigma and its limits are in units of delta, the distance of neighbouring scores. They depend
    # on the number of documents only, not on the scores.
    sizes_of_lists = lists.sizes[conditions.have_several(lists)]
    n_documents = np.unique(sizes_of_lists).astype(np.float64)
    stated_limits = theory.softrank_sigma_limit_as_stated(1.0, n_documents)

    # The theorem holds for a list if the bound ends at or above the stated limit.
    # The margin is by how much, relative to the limit; the limit is infinite for two documents.
    bound_ends = _SIGMA_WHERE_STATED_BOUND_ENDS
    margins = np.minimum(bound_ends / stated_limits - 1.0, 1.0)
    worst = int(np.argmin(margins))
    limits = f"a number below {bound_ends:.3g} delta, stated {stated_limits[worst]:.3g} delta"
    detail = f"with {n_documents[worst]:g} documents delta apart: {limits}"
    return float(margins[worst]), detail


@theorem(
    "softrank-contests",
    paper=f"{_HE_LIU}, a sharper form of Theorem 2",
    unless=conditions.not_softrank,
    sample=short_lists,
)
def _softrank_contests(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is at most the largest step of the discount times the gains of the pairs
    that noise reverses
    """
    # "Contests" are the pairs of documents whose order noise may reverse.
    bound = theory.softrank_ndcg_bound(scores, lists, loss, version="contests")
    return _describe_tightest([bound])


# Of smoothing by noise


@slow_theorem(
    "smoothing-worst",
    paper=f"{_STOCHASTIC}, Theorem 1",
    unless=conditions.not_smoothed_with_worst_ties,
)
def _smoothing_worst(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """with a large mu and a small sigma the smoothed metric is the metric with ties at their
    worst
    """
    # A margin and a sentence for each of several scorings with ties: the smallest margin counts.
    outcomes = [_compare_with_worst(loss, tied, lists) for tied in scorings_with_ties(scores)]
    return min(outcomes)


def _compare_with_worst(loss: Any, tied_scores: F64, lists: Lists) -> tuple[float, str]:
    """Return by how much the smoothed metric stays within rounding of the metric with ties in
    their worst order (below 0 where it does not), and a sentence with the difference.

    The noise is that of StochasticRank's Theorem 1: its shift ``mu`` per label is large enough,
    and its standard deviation ``sigma`` small enough, that no other order of ties is drawn.

    Args:
        loss: a smoothed metric.
        tied_scores: one per document, some of them equal.
        lists: the labelled lists.
    """
    # One mu for all queries: the largest that any needs, and then the sigma that goes with it.
    smoothing_by_query = theory.consistent_smoothing(tied_scores, lists, _PRECISION)
    mu = float(smoothing_by_query.mu.max())
    smoothing = theory.consistent_smoothing(tied_scores, lists, _PRECISION, least_mu=mu)
    sigma = min(float(smoothing.sigma.min()), 1.0)

    smoothed = dataclasses.replace(loss, mu=mu, sigma=sigma, samples=4)
    # The value of the loss is minus the smoothed metric.
    smoothed_metric = -smoothed.bind(lists).values(tied_scores)
    worst_metric = metric(loss.metric, ties="worst", empty="skip")
    difference = smoothed_metric - worst_metric.per_query(tied_scores, lists)
    largest = float(np.nanmax(np.abs(difference)))
    detail = f"with mu {mu:.3g} and sigma {sigma:.2g} the largest difference is {largest:.2g}"
    return _ROUNDING - largest, detail


@slow_theorem(
    "smoothing-expected", paper=f"{_STOCHASTIC}, sec. 4.3", unless=conditions.not_smoothed_ranking
)
def _smoothing_expected(loss: Any, scores: F64, lists: Lists) -> tuple[float, str]:
    """without shift, as sigma falls to 0, the smoothed metric counts ties as their expected
    value
    """
    # A margin and a sentence for each of several scorings with ties: the smallest margin counts.
    outcomes = [_compare_with_expected(loss, tied, lists) for tied in scorings_with_ties(scores)]
    return min(outcomes)


def _compare_with_expected(loss: Any, tied_scores: F64, lists: Lists) -> tuple[float, str]:
    """Return by how much the mean of a smoothed metric stays within five standard errors of the
    metric's mean over the orders of tied documents (below 0 where it does not), and a sentence.

    The noise is not shifted by labels and is too small to reorder documents that are not tied, so
    it draws every order of tied documents with the same probability.

    Args:
        loss: a smoothed metric.
        tied_scores: one per document, some of them equal.
        lists: the labelled lists.
    """
    expected_metric = metric(loss.metric, ties="expected", empty="skip")
    expected = expected_metric.per_query(tied_scores, lists)

    smoothed = dataclasses.replace(loss, mu=0.0, sigma=_LITTLE_NOISE, samples=32)
    objective = smoothed.bind(lists)
    # Each step draws new noise; the value of the loss is minus the smoothed metric.
    differences = []
    for step in range(_STEPS_OF_MEAN):
        smoothed_metric = -objective.values(tied_scores, step)
        differences.append(float(np.nanmean(smoothed_metric - expected)))

    mean = float(np.mean(differences))
    standard_deviation = float(np.std(differences, ddof=1))
    standard_error = standard_deviation / math.sqrt(_STEPS_OF_MEAN)
    tolerance = _STANDARD_ERRORS * standard_error + _ROUNDING
    detail = f"the mean difference is {mean:.2g}, its standard error {standard_error:.2g}"
    return tolerance - abs(mean), detail
