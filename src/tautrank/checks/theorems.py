"""The papers' theorems: about cross entropy and LambdaLoss, and about losses that stand for a metric,
how directly these optimise it and what smoothing does to ties.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tautrank import theory
from tautrank.arrays import F64, Bools
from tautrank.checks.checking import slow_theorem, theorem
from tautrank.checks.conditions import (
    not_smoothed_ranking,
    not_smoothed_with_worst_ties,
    not_softrank,
    nothing_relevant,
)
from tautrank.checks.samples import only_queries, scorings_with_ties, short_lists, some_lists
from tautrank.errors import OptionError
from tautrank.losses import (
    LambdaLoss,
    LambdaRank,
    Loss,
    NDCGLoss1,
    NDCGLoss2,
    SoftmaxLoss,
)
from tautrank.losses.base import TrainingLists
from tautrank.metrics import discount_values, metric
from tautrank.theory.directness import best_scorings
from tautrank.theory.lipschitz import measured_constant, paper_constant, proven_constant
from tautrank.theory.loss_bounds import (
    discount_not_from_1,
    not_about_lambdaloss,
    not_about_listnet,
    not_about_ndcg_cost,
    not_about_xendcg,
    not_of_family,
)
from tautrank.theory.minimising import DampedSoftmax
from tautrank.theory.softrank_bounds import least_distances
from tautrank.theory.theorem import sees_scores

_ROUNDING = 1e-9
# Of the damped softmax in the check of its Hessian.
_EPSILON = 1e-3
# Of the trees for which the generalisation bound is worked out, as many as a booster's default.
_LEAVES = 31
# Sigma as a share of its limit, from just below it to far below it.
_SHARES = (0.999, 0.5, 0.2)
# Probability of an order other than the worst: so small that a single one is a failure.
_PRECISION = 1e-9
# Whole-number scores keep their order in noise of this size.
_LITTLE_NOISE = 1e-3
# In units of delta, where the stated bound takes the root of 0: 1 - erf(x)^2 is 1/5, whatever the
# number of documents, and five of them make it the proof's own limit. From six documents on the
# stated limit is the lower one.
_ROOT_OF_0 = float(theory.softrank_sigma_limit(1.0, 5.0))
_XE_PAPER = "Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020"
_BINARY_PAPER = "Bruch et al., An Analysis of the Softmax Cross Entropy Loss, ICTIR 2019"
_LAMBDA_PAPER = "Wang et al., The LambdaLoss Framework, CIKM 2018"
_HE_LIU = "He and Liu, Are Algorithms Directly Optimizing IR Measures Really Direct?, 2008"
_AS_STATED = f"{_HE_LIU}, Theorem 2 as stated"
_STOCHASTIC = "Ustimenko and Prokhorenkova, StochasticRank, ICML 2020"


# Conditions


def _not_xendcg(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    reason = not_about_xendcg(loss, scores, lists)
    return reason or nothing_relevant(loss, scores, lists)


def _not_listnet(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    reason = not_about_listnet(loss, scores, lists)
    return reason or nothing_relevant(loss, scores, lists)


def _not_binary_listnet(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    reason = _not_listnet(loss, scores, lists)
    if reason is not None:
        return reason
    if loss.target != "linear":
        return "it is about the linear target"
    if np.unique(lists.labels[lists.labels > 0]).size > 1:
        return "it is about binary labels"
    return None


def _not_softmax(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    if not isinstance(loss, SoftmaxLoss) or not sees_scores(loss):
        return "it is about the softmax family without noise"
    return nothing_relevant(loss, scores, lists)


def _not_softmax_of_floats(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    reason = _not_softmax(loss, scores, lists)
    if reason is not None:
        return reason
    rho = DampedSoftmax.of(scores, lists.offsets, _EPSILON).rho
    return "a probability is too small for a float" if (rho < 1e-290).any() else None


def _not_lambdaloss(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    reason = not_about_lambdaloss(loss, scores, lists) or nothing_relevant(loss, scores, lists)
    if reason is None and isinstance(loss, NDCGLoss1):
        reason = _discount_below_reciprocal(loss, lists)
    return reason


def _not_ndcg_cost(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    reason = not_about_ndcg_cost(loss, scores, lists) or nothing_relevant(loss, scores, lists)
    if reason is None and isinstance(loss, NDCGLoss2):
        reason = _steps_of_discount_grow(loss, lists)
    if reason is None and isinstance(loss, NDCGLoss1):
        reason = discount_not_from_1(loss) or _discount_below_reciprocal(loss, lists)
    return reason


def _discount_below_reciprocal(loss: Any, lists: TrainingLists) -> str | None:
    ranks = np.arange(1, lists.longest + 1)
    if (discount_values(lists.longest, loss.discount) * ranks >= 1.0).all():
        return None
    return "it is about discounts of at least 1/rank"


def _steps_of_discount_grow(loss: Any, lists: TrainingLists) -> str | None:
    changes_of_steps = np.diff(discount_values(lists.longest + 1, loss.discount), 2)
    return None if (changes_of_steps >= 0).all() else "it is about discounts whose steps shrink"


def _not_lambdarank(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    if not isinstance(loss, LambdaRank) or not sees_scores(loss):
        return "it is about lambdarank without noise"
    return nothing_relevant(loss, scores, lists) or discount_not_from_1(loss)


def _not_lambdarank_of_paper(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    return not_of_family(loss, (LambdaRank,)) or nothing_relevant(loss, scores, lists)


def _no_proven_constant(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    reason = nothing_relevant(loss, scores, lists)
    if reason is not None:
        return reason
    if np.isfinite(proven_constant(loss, lists)).all():
        return None
    return "it is about losses with a proven Lipschitz constant"


def _need_not_descend(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    if not theory.descends(loss):
        return "nothing makes its EM descend"
    return nothing_relevant(loss, scores, lists)


def _not_scaled_as_metric(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    if not sees_scores(loss):
        return "it is about losses without noise"
    if isinstance(loss, LambdaLoss) and (loss.norm is not None or loss._draws_rankings):
        return "it is about the hard assignment without norm"
    try:
        theory.surrogate(loss)
    except OptionError:
        return "its value does not have the scale of a metric"
    return nothing_relevant(loss, scores, lists)


def _no_two_halves(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    reason = _not_scaled_as_metric(loss, scores, lists)
    if reason is not None:
        return reason
    if lists.has_relevant[::2].any() and lists.has_relevant[1::2].any():
        return None
    return "one half of the queries has no relevant document"


def _have_several(lists: TrainingLists) -> Bools:
    """Return whether each query has several documents, one of them relevant."""
    return (lists.sizes > 1) & lists.has_relevant


def _have_no_ties(scores: F64, lists: TrainingLists) -> Bools:
    """Return whether Theorem 2 is about each query: several documents, no tie, and one of them
    relevant.
    """
    return (least_distances(scores, lists.offsets) > 0) & _have_several(lists)


def _not_full_softrank(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    reason = not_softrank(loss, scores, lists)
    if reason is None and (loss.k is not None or loss.discount != "log2"):
        reason = "it is about full lists and the logarithmic discount"
    return reason


def _not_untied_softrank(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    reason = _not_full_softrank(loss, scores, lists)
    if reason is None and not _have_no_ties(scores, lists).any():
        reason = "it is about lists without ties"
    return reason


def _not_softrank_of_several(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    reason = _not_full_softrank(loss, scores, lists)
    if reason is None and not _have_several(lists).any():
        reason = "it is about lists of several documents, one of them relevant"
    return reason


# Of any loss


@slow_theorem(
    "proven-lipschitz",
    paper=f"{_XE_PAPER}, Propositions 1 and 2; a constant from the labels here",
    unless=_no_proven_constant,
)
def _proven_lipschitz(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the loss, with its weights held fixed, is nowhere steeper than the constant proven for it"""
    steepest = measured_constant(loss, lists, 3, 0, (30.0, 3e4))
    proven = proven_constant(loss, lists)
    shares = (steepest - 1e-6) / np.maximum(proven, 1e-6)
    detail = (
        f"the steepest slope found is {steepest.max():.3g}, the proven constant {proven.max():.3g}"
    )
    return float((1.0 - shares).min()), detail


@slow_theorem("m-step", paper=f"{_LAMBDA_PAPER}, sec. 4.2", unless=nothing_relevant)
def _m_step(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """with its weights held fixed, the loss falls along its derivative and never rises"""
    trace = theory.majorise_minimise(
        loss, scores, lists.labels, lists.offsets, iterations=2, steps=2
    )
    rise = float(np.diff(trace.frozen, axis=1).max(initial=0.0))
    return -rise, f"the largest rise in a step is {rise:.2g}"


# Of cross entropy


def _smallest_gap(found: theory.Bound) -> tuple[float, str]:
    at = int(np.nanargmin(found.gap / (1.0 + np.abs(found.lower))))
    sides = f"{found.upper[at]:.4g} and {found.lower[at]:.4g}"
    return found.margin, f"the smallest gap is {found.gap[at]:.4g} between {sides}"


@theorem("xe-ndcg", paper=f"{_XE_PAPER}, Theorem 1", unless=_not_xendcg)
def _xe_ndcg(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """XE >= -log(NDCG + 1/maxDCG), for each query and on average"""
    return _smallest_gap(theory.xe_ndcg_bound(scores, lists.labels, lists.offsets, loss))


@theorem("xe-ndcg-refined", paper=f"{_XE_PAPER}, from the proof of Theorem 1", unless=_not_xendcg)
def _xe_ndcg_refined(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """XE >= -log(NDCG + sum (1 - gamma) rho / maxDCG), for each query and on average"""
    return _smallest_gap(
        theory.xe_ndcg_bound(scores, lists.labels, lists.offsets, loss, refined=True)
    )


def _below_paper_constant(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    asked = lists.has_relevant
    found, stated = measured_constant(loss, lists, 5, 0)[asked], paper_constant(loss, lists)[asked]
    at = int(np.argmax(found - stated))
    detail = f"the steepest slope found is {found[at]:.3g}, the constant {stated[at]:.3g}"
    return float(stated[at] - found[at]), detail


@slow_theorem("xe-lipschitz", paper=f"{_XE_PAPER}, Proposition 2", unless=_not_softmax)
def _xe_lipschitz(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """cross entropy is 2-Lipschitz"""
    return _below_paper_constant(loss, scores, lists)


@theorem(
    "generalisation",
    paper=f"{_XE_PAPER}, Theorem 2",
    unless=_no_proven_constant,
    once=True,
    flaw="its proof counts a change of a query as a change of its scores alone, but lists of other lengths differ more",
)
def _generalisation(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the losses of two queries with scores in [0, 1] differ by at most the Lipschitz constant, as
    its bound assumes
    """
    asked = lists.has_relevant
    constant = float(proven_constant(loss, lists).max())
    drawn = np.random.default_rng(0).random(scores.size)
    difference = float(np.ptp(loss.bind(lists.labels, lists.offsets).values(drawn)[asked]))
    covering = functools.partial(theory.log_box_covering, dimensions=_LEAVES)
    error = theory.generalisation_error(
        int(asked.sum()), constant, covering, difference=max(difference, constant)
    )
    found = f"they differ by {difference:.3g}, the constant is {constant:.3g}; for trees of {_LEAVES} leaves"
    unseen = f"with 95 % confidence, at most {error:.3g} above that of these"
    return (
        constant - difference,
        f"{found} with fixed splits the loss of unseen queries is, {unseen}",
    )


@theorem("hessian", paper=f"{_XE_PAPER}, Claims 1 and 2", unless=_not_softmax_of_floats)
def _hessian(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """with epsilon the Hessian of cross entropy is positive definite, and the spectral radius of S
    is below 1
    """
    eigenvalue = float(np.nanmin(theory.smallest_eigenvalue(scores, lists.offsets, _EPSILON)))
    gap = float(np.nanmin(theory.spectral_gap(scores, lists.offsets, _EPSILON)))
    margin = min(eigenvalue, gap)
    detail = f"with epsilon {_EPSILON:g} the smallest eigenvalue is {eigenvalue:.2g}, the spectral radius 1 - {gap:.2g}"
    return (margin if margin > 0 else -1.0), detail


@theorem(
    "softmax-mrr",
    paper=f"{_BINARY_PAPER}, Theorems 1 and 2; graded labels here",
    unless=_not_listnet,
)
def _softmax_mrr(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """XE >= -log RR, for each query and on average"""
    return _smallest_gap(theory.softmax_mrr_bound(scores, lists.labels, lists.offsets, loss))


@theorem(
    "softmax-ndcg",
    paper=f"{_BINARY_PAPER}, Theorem 3",
    unless=_not_binary_listnet,
)
def _softmax_ndcg(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """XE >= -log NDCG, for each query and on average, with binary labels"""
    return _smallest_gap(theory.softmax_ndcg_bound(scores, lists.labels, lists.offsets, loss))


# Of the LambdaLoss family


@theorem("lambdaloss", paper=f"{_LAMBDA_PAPER}, sec. 5.1 to 5.3", unless=_not_lambdaloss)
def _lambdaloss(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the loss and its constants are at least the cost it was derived from"""
    return _smallest_gap(theory.lambdaloss_bound(scores, lists.labels, lists.offsets, loss))


@theorem(
    "ndcg-cost", paper=f"{_LAMBDA_PAPER}, sec. 5, without its constants", unless=_not_ndcg_cost
)
def _ndcg_cost(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """without constants the loss is at least 1 - NDCG"""
    return _smallest_gap(theory.ndcg_cost_bound(scores, lists.labels, lists.offsets, loss))


@theorem("lambdarank-metric", paper=f"{_LAMBDA_PAPER}, sec. 5.3", unless=_not_lambdarank)
def _lambdarank_metric(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the metric that LambdaRank bounds is at least the cost of NDCG"""
    own = {"gain": loss.gain, "discount": loss.discount}
    return _smallest_gap(theory.lambdarank_metric_bound(scores, lists.labels, lists.offsets, **own))


@slow_theorem(
    "lambdarank-lipschitz", paper=f"{_XE_PAPER}, Proposition 1", unless=_not_lambdarank_of_paper
)
def _lambdarank_lipschitz(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """LambdaRank, with its weights held fixed, is sigma m^2-Lipschitz (over log 2, for logarithms
    to base 2)
    """
    return _below_paper_constant(loss, scores, lists)


@slow_theorem(
    "em-descent",
    paper=f"{_LAMBDA_PAPER}, sec. 4.2",
    unless=_need_not_descend,
)
def _em_descent(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the loss never rises from one M-step to the next"""
    trace = theory.majorise_minimise(
        loss, scores, lists.labels, lists.offsets, iterations=3, steps=2
    )
    # The tight gamma is found to one part in 10^12 of the loss.
    rise = float(np.diff(trace.objective, axis=0).max())
    return -rise, f"from one iteration to the next the loss changes by at most {rise:.2g}"


# Of directness


@theorem(
    "directness",
    paper=f"{_HE_LIU}, Theorem 1, for seen queries",
    unless=_not_scaled_as_metric,
    once=True,
    sample=some_lists,
)
def _directness(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the best of sixteen scorings by the loss is by the metric at most 2 eps1 + eps2 worse than
    the best by the metric"""
    scorings = [scores, *theory.spread_scorings(lists.labels, lists.offsets)]
    found = theory.directness_among(loss, scorings, lists.labels, lists.offsets)
    return found.margin, repr(found)


@theorem(
    "directness-unseen",
    paper=f"{_HE_LIU}, Theorem 1 as stated",
    unless=_no_two_halves,
    once=True,
    sample=some_lists,
    flaw="the paper's proof takes for granted that the choice is as good on every unseen query",
)
def _directness_unseen(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the same, chosen by one half of the queries and measured on the other"""
    scorings = [scores, *theory.spread_scorings(lists.labels, lists.offsets)]
    even = np.arange(lists.sizes.size) % 2 == 0
    seen, unseen = (only_queries(scores, lists, half)[1] for half in (even, ~even))
    rows = np.repeat(even, lists.sizes)
    best = best_scorings(loss, [s[rows] for s in scorings], seen.labels, seen.offsets)
    by_loss, by_metric = (scorings[at][~rows] for at in best)
    found = theory.directness(loss, by_loss, by_metric, unseen.labels, unseen.offsets)
    return found.margin, repr(found)


# Of SoftRank


def _below_limits(
    version: str, limit: Callable[..., F64], loss: Any, scores: F64, lists: TrainingLists
) -> tuple[float, str]:
    """Check a bound of Theorem 2, with each query's scores stretched until sigma is below its
    limit.
    """
    kept = _have_no_ties(scores, lists)
    least = least_distances(scores, lists.offsets)[kept]
    s, some = only_queries(scores, lists, kept)
    bounds = []
    for share in _SHARES:
        stretch = loss.sigma / (share * limit(1.0, some.sizes.astype(np.float64)) * least)
        stretched = s * stretch[some.query]
        bounds.append(
            theory.softrank_ndcg_bound(stretched, some.labels, some.offsets, loss, version=version)
        )
    return _worst_of(bounds)


def _worst_of(bounds: list[theory.Bound]) -> tuple[float, str]:
    worst = min(bounds, key=lambda bound: bound.margin)
    ratio = max(
        float(np.nanmax(bound.lower / np.maximum(bound.upper, _ROUNDING))) for bound in bounds
    )
    return worst.margin, f"the difference is at most {ratio:.2g} of the bound"


@slow_theorem(
    "softrank-bound",
    paper=f"{_HE_LIU}, proof of Theorem 2",
    unless=_not_untied_softrank,
)
def _softrank_bound(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is below the bound, with (N - 1)/4 and a sigma below what the proof
    needs
    """
    return _below_limits("proof", theory.softrank_sigma_limit, loss, scores, lists)


@slow_theorem("softrank-bound-as-stated", paper=_AS_STATED, unless=_not_untied_softrank)
def _softrank_bound_as_stated(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is below the bound without (N - 1)/4, where that is a number"""

    def limit(delta: float, sizes: F64) -> F64:
        return np.minimum(theory.softrank_sigma_limit_as_stated(delta, sizes), _ROOT_OF_0)

    return _below_limits("stated", limit, loss, scores, lists)


@theorem(
    "softrank-sigma-limit",
    paper=_AS_STATED,
    unless=_not_softrank_of_several,
    once=True,
    flaw="with two to five documents the bound asks for the root of a negative number before sigma reaches the limit",
)
def _softrank_sigma_limit(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """for every sigma below the stated limit the stated bound is a number"""
    sizes = np.unique(lists.sizes[_have_several(lists)]).astype(np.float64)
    stated = theory.softrank_sigma_limit_as_stated(1.0, sizes)
    ratio = np.minimum(_ROOT_OF_0 / stated - 1.0, 1.0)
    at = int(np.argmin(ratio))
    limits = f"a number below {_ROOT_OF_0:.3g} delta, stated {stated[at]:.3g} delta"
    return float(ratio[at]), f"with {sizes[at]:g} documents delta apart: {limits}"


@theorem(
    "softrank-contests",
    paper=f"{_HE_LIU}, a sharper form of Theorem 2",
    unless=not_softrank,
    sample=short_lists,
)
def _softrank_contests(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is at most the largest step of the discount times the gains of the pairs
    that noise reverses
    """
    return _worst_of(
        [theory.softrank_ndcg_bound(scores, lists.labels, lists.offsets, loss, version="contests")]
    )


# Of smoothing by noise


@slow_theorem(
    "smoothing-worst", paper=f"{_STOCHASTIC}, Theorem 1", unless=not_smoothed_with_worst_ties
)
def _smoothing_worst(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """with a large mu and a small sigma the smoothed metric is the metric with ties at their
    worst
    """
    return min(_smoothed_as_worst(loss, tied, lists) for tied in scorings_with_ties(scores))


def _smoothed_as_worst(loss: Any, tied: F64, lists: TrainingLists) -> tuple[float, str]:
    """Compare a smoothed metric, with the mu and the sigma of Theorem 1, with the metric itself."""
    labels, offsets = lists.labels, lists.offsets
    mu = float(theory.consistent_smoothing(tied, labels, offsets, _PRECISION).mu.max())
    smoothing = theory.consistent_smoothing(tied, labels, offsets, _PRECISION, least_mu=mu)
    sigma = min(float(smoothing.sigma.min()), 1.0)
    smoothed = dataclasses.replace(loss, mu=mu, sigma=sigma, samples=4)

    worst = metric(loss.metric, ties="worst", empty="skip").per_query(tied, labels, offsets)
    difference = -smoothed.bind(labels, offsets).values(tied) - worst
    largest = float(np.nanmax(np.abs(difference)))
    detail = f"with mu {mu:.3g} and sigma {sigma:.2g} the largest difference is {largest:.2g}"
    return 1e-9 - largest, detail


@slow_theorem("smoothing-expected", paper=f"{_STOCHASTIC}, sec. 4.3", unless=not_smoothed_ranking)
def _smoothing_expected(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """without shift, as sigma falls to 0, the smoothed metric counts ties as their expected
    value
    """
    return min(_smoothed_as_expected(loss, tied, lists) for tied in scorings_with_ties(scores))


def _smoothed_as_expected(loss: Any, tied: F64, lists: TrainingLists) -> tuple[float, str]:
    """Compare a smoothed metric without shift with the metric that counts ties as expected."""
    expectation = metric(loss.metric, ties="expected", empty="skip")
    expected = expectation.per_query(tied, lists.labels, lists.offsets)
    smoothed = dataclasses.replace(loss, mu=0.0, sigma=_LITTLE_NOISE, samples=32)
    objective = smoothed.bind(lists.labels, lists.offsets)
    means = np.array(
        [float(np.nanmean(-objective.values(tied, step) - expected)) for step in range(16)]
    )
    difference = float(means.mean())
    standard_error = float(means.std(ddof=1)) / 4.0
    detail = f"the mean difference is {difference:.2g}, its standard error {standard_error:.2g}"
    return 5.0 * standard_error + 1e-9 - abs(difference), detail
