"""What is measured of any loss, and the theorems of the papers on cross entropy and LambdaLoss."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tautrank.checks.registry import (
    Condition,
    Examine,
    about,
    check,
    first_reason,
    nothing_relevant,
    of_kind,
    slow_check,
)
from tautrank.losses import ARPLoss1, ARPLoss2, LambdaLoss, LambdaRank, Loss, NDCGLoss1, NDCGLoss2, NDCGLoss2PP, RankNet
from tautrank.losses.base import Lists
from tautrank.losses.softmax import XENDCG, ListNet, SoftmaxLoss
from tautrank.metrics import discount_values, metric
from tautrank.metrics.ordering import F64
from tautrank.theory.bound import Bound, negative_log
from tautrank.theory.em import descends, majorise_minimise
from tautrank.theory.generalisation import generalisation_error, log_box_covering
from tautrank.theory.hessian import DampedSoftmax, smallest_eigenvalue, spectral_gap
from tautrank.theory.lipschitz import measured_constant, paper_constant, proven_constant
from tautrank.theory.pairwise_bounds import lambdaloss_bound, lambdarank_metric_bound, ndcg_cost_bound
from tautrank.theory.softmax_bounds import softmax_mrr_bound, softmax_ndcg_bound, xe_ndcg_bound

_ROUNDING = 1e-9
# Of the damped softmax in the check of its Hessian.
_EPSILON = 1e-3
# Of the trees for which the generalisation bound is worked out, as many as a booster's default.
_LEAVES = 31
_NDCG_LOSSES = (NDCGLoss1, NDCGLoss2, NDCGLoss2PP)
_XE_PAPER = "Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020"
_BINARY_PAPER = "Bruch et al., An Analysis of the Softmax Cross Entropy Loss, ICTIR 2019"
_LAMBDA_PAPER = "Wang et al., The LambdaLoss Framework, CIKM 2018"


# Conditions


def _of_family(*kinds: type[LambdaLoss]) -> Condition:
    """Return the condition of a theorem about members of the LambdaLoss family as the paper defines them."""
    without_norm = about("losses without norm", lambda loss, *_: loss.norm is None)
    hard = about("the hard assignment", lambda loss, *_: not loss._draws_rankings)
    return of_kind(kinds, f"{', '.join(kind.name for kind in kinds)} without noise", without_norm, hard)


def _only(kinds: type[Loss] | tuple[type[Loss], ...], *conditions: Condition) -> Condition:
    """Return a condition that some classes have to meet."""
    needed = first_reason(*conditions)
    return lambda loss, scores, lists: needed(loss, scores, lists) if isinstance(loss, kinds) else None


def _cut_off(loss: Any, scores: F64, lists: Lists) -> str | None:
    if loss.k is None or loss.k >= lists.longest:
        return None
    return f"it is about full lists: k is {loss.k}, the longest list has {lists.longest} documents"


def _falls_slowly(loss: Any, scores: F64, lists: Lists) -> np.bool_:
    return (discount_values(lists.longest, loss.discount) * np.arange(1, lists.longest + 1) >= 1.0).all()


def _steps_shrink(loss: Any, scores: F64, lists: Lists) -> np.bool_:
    return (np.diff(discount_values(lists.longest + 1, loss.discount), 2) >= 0).all()


def _underflows(loss: Any, scores: F64, lists: Lists) -> str | None:
    rho = DampedSoftmax.of(scores, lists.offsets, _EPSILON).rho
    return "a probability is too small for a float" if (rho < 1e-290).any() else None


_from_1 = about("discounts that start at 1", lambda loss, *_: discount_values(1, loss.discount)[0] == 1.0)
_above_1_over_rank = about("discounts of at least 1/rank", _falls_slowly)
_with_shrinking_steps = about("discounts whose steps shrink", _steps_shrink)
_binary = about("binary labels", lambda loss, s, lists: np.unique(lists.labels[lists.labels > 0]).size <= 1)
_linear = about("the linear target", lambda loss, *_: loss.target == "linear")
_with_constant = about(
    "losses with a proven Lipschitz constant",
    lambda loss, scores, lists: np.isfinite(proven_constant(loss, lists)).all(),
)


def _need_not_descend(loss: Loss, *_: Any) -> str | None:
    return None if descends(loss) else "nothing makes its EM descend"


# Of any loss


@slow_check(
    "lipschitz",
    "the loss, with its weights held fixed, is Lipschitz, its slope does not grow with the scores",
    unless=nothing_relevant,
)
def _lipschitz(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    near, far = (measured_constant(loss, lists, 3, 0, (scale,)) for scale in (30.0, 3e4))
    proven = proven_constant(loss, lists)
    near_most, far_most = float(near.max()), float(far.max())
    if not np.isfinite(proven).all():
        detail = f"the steepest slope found is {near_most:.3g}, and {far_most:.3g} at scores a thousand times as large"
        return 1.5 * near_most + _ROUNDING - far_most, detail
    most = np.maximum(near, far)
    detail = f"the steepest slope found is {float(most.max()):.3g}, the proven constant {proven.max():.3g}"
    return float((1.0 - (most - 1e-6) / np.maximum(proven, 1e-6)).min()), detail


@slow_check(
    "m-step",
    "with its weights held fixed, the loss falls along its derivative and never rises",
    unless=nothing_relevant,
)
def _m_step(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    trace = majorise_minimise(loss, scores, lists.labels, lists.offsets, iterations=2, steps=2)
    rise = float(np.diff(trace.frozen, axis=1).max(initial=0.0))
    return -rise, f"the largest rise in a step is {rise:.2g}"


def _above(judge: str, cost: Callable[[F64], F64]) -> Examine:
    """Return the check that a loss lies above a cost computed from a metric, measured on the lists at hand."""

    def examine(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
        lower = cost(metric(judge).per_query(scores, lists.labels, lists.offsets))
        gap = loss.bind(lists.labels, lists.offsets).values(scores) - lower
        kept = np.flatnonzero(~np.isnan(lower))
        at = int(kept[np.argmin(gap[kept])])
        below = int(np.count_nonzero(gap[kept] < -_ROUNDING))
        where = f"below it in {below} of {kept.size} queries, " if below else ""
        return float(gap[at]), f"{where}the smallest gap is {gap[at]:.4g}, at a cost of {lower[at]:.4g}"

    return examine


def _one_minus(values: F64) -> F64:
    return 1.0 - values


for _name, _words, _judge, _cost in (
    ("above-ndcg-cost", "1 - NDCG", "ndcg", _one_minus),
    ("above-mrr-cost", "1 - RR", "mrr", _one_minus),
    ("above-log-ndcg", "-log NDCG", "ndcg", negative_log),
    ("above-log-mrr", "-log RR", "mrr", negative_log),
):
    check(_name, f"measured: the loss is at least {_words}", unless=nothing_relevant)(_above(_judge, _cost))


# Of cross entropy


def _bounded(bound: Callable[[F64, F64, NDArray[np.int64], Any], Bound]) -> Examine:
    """Return the check of a theorem's bound."""

    def examine(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
        found = bound(scores, lists.labels, lists.offsets, loss)
        at = int(np.nanargmin(found.gap / (1.0 + np.abs(found.lower))))
        sides = f"{found.upper[at]:.4g} and {found.lower[at]:.4g}"
        return found.margin, f"the smallest gap is {found.gap[at]:.4g} between {sides}"

    return examine


def _below_paper_constant(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    asked = lists.has_relevant
    found, stated = measured_constant(loss, lists, 5, 0)[asked], paper_constant(loss, lists)[asked]
    at = int(np.argmax(found - stated))
    detail = f"the steepest slope found is {found[at]:.3g}, the constant {stated[at]:.3g}"
    return float(stated[at] - found[at]), detail


check(
    "xe-ndcg",
    "XE >= -log(NDCG + 1/maxDCG), for each query and on average",
    paper=f"{_XE_PAPER}, Theorem 1",
    unless=of_kind(XENDCG, "xendcg without noise"),
)(_bounded(xe_ndcg_bound))

check(
    "xe-ndcg-refined",
    "XE >= -log(NDCG + sum (1 - gamma) rho / maxDCG), for each query and on average",
    paper=f"{_XE_PAPER}, from the proof of Theorem 1",
    unless=of_kind(XENDCG, "xendcg without noise"),
)(_bounded(functools.partial(xe_ndcg_bound, refined=True)))

slow_check(
    "xe-lipschitz",
    "cross entropy is 2-Lipschitz",
    paper=f"{_XE_PAPER}, Proposition 2",
    unless=of_kind(SoftmaxLoss, "the softmax family without noise"),
)(_below_paper_constant)


@check(
    "generalisation",
    "the losses of two queries with scores in [0, 1] differ by at most the Lipschitz constant, as its bound assumes",
    paper=f"{_XE_PAPER}, Theorem 2",
    unless=first_reason(nothing_relevant, _with_constant),
    once=True,
    flaw="its proof counts a change of a query as a change of its scores alone, but lists of other lengths differ more",
)
def _generalisation(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    asked = lists.has_relevant
    constant = float(proven_constant(loss, lists).max())
    drawn = np.random.default_rng(0).random(scores.size)
    difference = float(np.ptp(loss.bind(lists.labels, lists.offsets).values(drawn)[asked]))
    error = generalisation_error(
        int(asked.sum()), constant, lambda r: log_box_covering(r, _LEAVES), difference=max(difference, constant)
    )
    return constant - difference, (
        f"they differ by {difference:.3g}, the constant is {constant:.3g}; for trees of {_LEAVES} leaves with fixed "
        f"splits the loss of unseen queries is, with 95 % confidence, at most {error:.3g} above that of these"
    )


@check(
    "hessian",
    "with epsilon the Hessian of cross entropy is positive definite, and the spectral radius of S is below 1",
    paper=f"{_XE_PAPER}, Claims 1 and 2",
    unless=of_kind(SoftmaxLoss, "the softmax family without noise", _underflows),
)
def _hessian(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    eigenvalue = float(np.nanmin(smallest_eigenvalue(scores, lists.offsets, _EPSILON)))
    gap = float(np.nanmin(spectral_gap(scores, lists.offsets, _EPSILON)))
    margin = min(eigenvalue, gap)
    detail = f"with epsilon {_EPSILON:g} the smallest eigenvalue is {eigenvalue:.2g}, the spectral radius 1 - {gap:.2g}"
    return (margin if margin > 0 else -1.0), detail


check(
    "softmax-mrr",
    "XE >= -log RR, for each query and on average",
    paper=f"{_BINARY_PAPER}, Theorems 1 and 2; graded labels here",
    unless=of_kind(ListNet, "listnet without noise"),
)(_bounded(softmax_mrr_bound))

check(
    "softmax-ndcg",
    "XE >= -log NDCG, for each query and on average, with binary labels",
    paper=f"{_BINARY_PAPER}, Theorem 3",
    unless=of_kind(ListNet, "listnet without noise", _linear, _binary),
)(_bounded(softmax_ndcg_bound))


# Of the LambdaLoss family


check(
    "lambdaloss",
    "the loss and its constants are at least the cost it was derived from",
    paper=f"{_LAMBDA_PAPER}, sec. 5.1 to 5.3",
    unless=first_reason(
        _of_family(RankNet, ARPLoss1, ARPLoss2, *_NDCG_LOSSES, LambdaRank),
        _only(_NDCG_LOSSES, _cut_off, _from_1),
        _only(NDCGLoss1, _above_1_over_rank),
    ),
)(_bounded(lambdaloss_bound))

check(
    "ndcg-cost",
    "without constants the loss is at least 1 - NDCG",
    paper=f"{_LAMBDA_PAPER}, sec. 5, without its constants",
    unless=first_reason(
        _of_family(*_NDCG_LOSSES, LambdaRank),
        _cut_off,
        _only(NDCGLoss2, _with_shrinking_steps),
        _only(NDCGLoss1, _from_1, _above_1_over_rank),
    ),
)(_bounded(ndcg_cost_bound))

check(
    "lambdarank-metric",
    "the metric that LambdaRank bounds is at least the cost of NDCG",
    paper=f"{_LAMBDA_PAPER}, sec. 5.3",
    unless=of_kind(LambdaRank, "lambdarank without noise", _from_1),
)(_bounded(lambda s, y, cuts, loss: lambdarank_metric_bound(s, y, cuts, gain=loss.gain, discount=loss.discount)))

slow_check(
    "lambdarank-lipschitz",
    "LambdaRank, with its weights held fixed, is sigma m^2-Lipschitz (over log 2, for logarithms to base 2)",
    paper=f"{_XE_PAPER}, Proposition 1",
    unless=_of_family(LambdaRank),
)(_below_paper_constant)


@slow_check(
    "em-descent",
    "the loss never rises from one M-step to the next",
    paper=f"{_LAMBDA_PAPER}, sec. 4.2",
    unless=first_reason(_need_not_descend, nothing_relevant),
)
def _em_descent(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    trace = majorise_minimise(loss, scores, lists.labels, lists.offsets, iterations=3, steps=2)
    # The tight gamma is found to one part in 10^12 of the loss.
    rise = float(np.diff(trace.objective, axis=0).max())
    return -rise, f"from one iteration to the next the loss changes by at most {rise:.2g}"
