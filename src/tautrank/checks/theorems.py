"""What is measured of any loss, and the papers' theorems.

They are about cross entropy and LambdaLoss, and about losses that stand for a metric: how directly
these optimise it, and what smoothing does to ties.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tautrank import theory
from tautrank.arrays import F64, Bools
from tautrank.checks.checking import (
    check,
    nothing_relevant,
    only_queries,
    scope,
    short_lists,
    slow_check,
    some_lists,
)
from tautrank.errors import OptionError
from tautrank.losses import (
    LambdaLoss,
    LambdaRank,
    Loss,
    NDCGLoss1,
    NDCGLoss2,
    SmoothedLoss,
    SoftmaxLoss,
)
from tautrank.losses.base import TrainingLists
from tautrank.metrics import DCG, NDCG, Metric, discount_values, metric
from tautrank.metrics.base import mean_over_queries
from tautrank.theory.directness import best_scorings
from tautrank.theory.lipschitz import measured_constant, paper_constant, proven_constant
from tautrank.theory.loss_bounds import (
    PLAIN_LISTNET,
    PLAIN_XENDCG,
    WITH_CONSTANTS,
    WITHOUT_CONSTANTS,
    family,
    from_1,
)
from tautrank.theory.minimising import DampedSoftmax
from tautrank.theory.softrank_bounds import EXACT_SOFTRANK, least_distances
from tautrank.theory.theorem import (
    about,
    about_kind,
    first_reason,
    negative_log,
    only_for,
    sees_scores,
)

_Examine = Callable[[Any, F64, TrainingLists], tuple[float, str]]

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
_NARROW = 1e-3
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


def _falls_slowly(loss: Any, scores: F64, lists: TrainingLists) -> np.bool_:
    return (
        discount_values(lists.longest, loss.discount) * np.arange(1, lists.longest + 1) >= 1.0
    ).all()


def _steps_shrink(loss: Any, scores: F64, lists: TrainingLists) -> np.bool_:
    return (np.diff(discount_values(lists.longest + 1, loss.discount), 2) >= 0).all()


def _is_bounded(loss: Any, scores: F64, lists: TrainingLists) -> np.bool_:
    return np.isfinite(proven_constant(loss, lists)).all()


def _underflows(loss: Any, scores: F64, lists: TrainingLists) -> str | None:
    rho = DampedSoftmax.of(scores, lists.offsets, _EPSILON).rho
    return "a probability is too small for a float" if (rho < 1e-290).any() else None


_above_1_over_rank = about("discounts of at least 1/rank", _falls_slowly)
_with_shrinking_steps = about("discounts whose steps shrink", _steps_shrink)
_binary = about(
    "binary labels", lambda loss, s, lists: np.unique(lists.labels[lists.labels > 0]).size <= 1
)
_linear = about("the linear target", lambda loss, *_: loss.target == "linear")
_xendcg = scope(PLAIN_XENDCG)
_lambdarank = scope(about_kind(LambdaRank, "lambdarank without noise"), from_1)
_with_constants = scope(*WITH_CONSTANTS, only_for(NDCGLoss1, _above_1_over_rank))
_without_constants = scope(
    *WITHOUT_CONSTANTS,
    only_for(NDCGLoss2, _with_shrinking_steps),
    only_for(NDCGLoss1, from_1, _above_1_over_rank),
)
_softmax = about_kind(SoftmaxLoss, "the softmax family without noise")
_with_constant = about("losses with a proven Lipschitz constant", _is_bounded)


def _need_not_descend(loss: Loss, *_: Any) -> str | None:
    return None if theory.descends(loss) else "nothing makes its EM descend"


def _no_scale(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    if not sees_scores(loss):
        return "it is about losses without noise"
    if isinstance(loss, LambdaLoss) and (loss.norm is not None or loss._draws_rankings):
        return "it is about the hard assignment without norm"
    try:
        theory.surrogate(loss)
    except OptionError:
        return "its value does not have the scale of a metric"
    return nothing_relevant(loss, scores, lists)


def _several(lists: TrainingLists) -> Bools:
    """Return the queries with several documents, one of them relevant."""
    return (lists.sizes > 1) & lists.has_relevant


def _without_ties(scores: F64, lists: TrainingLists) -> Bools:
    """Return the queries that Theorem 2 is about: several documents, no tie, and one of them
    relevant.
    """
    return (least_distances(scores, lists.offsets) > 0) & _several(lists)


def _no_halves(loss: Loss, scores: F64, lists: TrainingLists) -> str | None:
    both = all(lists.has_relevant[half::2].any() for half in (0, 1))
    return None if both else "one half of the queries has no relevant document"


_softrank = scope(*EXACT_SOFTRANK)
_full = about(
    "full lists and the logarithmic discount",
    lambda loss, *_: loss.k is None and loss.discount == "log2",
)
_untied = about(
    "lists without ties", lambda loss, scores, lists: _without_ties(scores, lists).any()
)
_long = about(
    "lists of several documents, one of them relevant", lambda loss, s, lists: _several(lists).any()
)
_ranking = about(
    "the metrics of a ranking",
    lambda loss, *_: loss.ignores_shifts and isinstance(loss.metric, Metric),
)
_smoothed = scope(about_kind(SmoothedLoss, "stochasticrank and reinforce without noise"), _ranking)
_worst_ties = about("metrics with ties at their worst", lambda loss, *_: loss._ties_are_worst)


# Of any loss


@slow_check("lipschitz", unless=nothing_relevant)
def _lipschitz(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the loss, with its weights held fixed, is Lipschitz, its slope does not grow with the
    scores
    """
    near, far = (measured_constant(loss, lists, 3, 0, (scale,)) for scale in (30.0, 3e4))
    proven = proven_constant(loss, lists)
    near_most, far_most = float(near.max()), float(far.max())
    if not np.isfinite(proven).all():
        detail = f"the steepest slope found is {near_most:.3g}, and {far_most:.3g} at scores a thousand times as large"
        return 1.5 * near_most + _ROUNDING - far_most, detail
    most = np.maximum(near, far)
    detail = f"the steepest slope found is {float(most.max()):.3g}, the proven constant {proven.max():.3g}"
    return float((1.0 - (most - 1e-6) / np.maximum(proven, 1e-6)).min()), detail


@slow_check("m-step", unless=nothing_relevant)
def _m_step(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """with its weights held fixed, the loss falls along its derivative and never rises"""
    trace = theory.majorise_minimise(
        loss, scores, lists.labels, lists.offsets, iterations=2, steps=2
    )
    rise = float(np.diff(trace.frozen, axis=1).max(initial=0.0))
    return -rise, f"the largest rise in a step is {rise:.2g}"


def _above(
    judge: str, cost: Callable[[F64], F64], loss: Loss, scores: F64, lists: TrainingLists
) -> tuple[float, str]:
    """Check that a loss lies above a cost computed from a metric, measured on the lists at hand."""
    lower = cost(metric(judge).per_query(scores, lists.labels, lists.offsets))
    gap = loss.bind(lists.labels, lists.offsets).values(scores) - lower
    kept = np.flatnonzero(~np.isnan(lower))
    at = int(kept[np.argmin(gap[kept])])
    below = int(np.count_nonzero(gap[kept] < -_ROUNDING))
    where = f"below it in {below} of {kept.size} queries, " if below else ""
    return float(gap[at]), f"{where}the smallest gap is {gap[at]:.4g}, at a cost of {lower[at]:.4g}"


for _name, _words, _of, _cost in (
    ("above-ndcg-cost", "1 - NDCG", "ndcg", functools.partial(np.subtract, 1.0)),
    ("above-mrr-cost", "1 - RR", "mrr", functools.partial(np.subtract, 1.0)),
    ("above-log-ndcg", "-log NDCG", "ndcg", negative_log),
    ("above-log-mrr", "-log RR", "mrr", negative_log),
):
    _enter = check(_name, f"measured: the loss is at least {_words}", unless=nothing_relevant)
    _enter(functools.partial(_above, _of, _cost))


# Of cross entropy


def _smallest_gap(found: theory.Bound) -> tuple[float, str]:
    at = int(np.nanargmin(found.gap / (1.0 + np.abs(found.lower))))
    sides = f"{found.upper[at]:.4g} and {found.lower[at]:.4g}"
    return found.margin, f"the smallest gap is {found.gap[at]:.4g} between {sides}"


@check("xe-ndcg", paper=f"{_XE_PAPER}, Theorem 1", unless=_xendcg)
def _xe_ndcg(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """XE >= -log(NDCG + 1/maxDCG), for each query and on average"""
    return _smallest_gap(theory.xe_ndcg_bound(scores, lists.labels, lists.offsets, loss))


@check("xe-ndcg-refined", paper=f"{_XE_PAPER}, from the proof of Theorem 1", unless=_xendcg)
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


@slow_check("xe-lipschitz", paper=f"{_XE_PAPER}, Proposition 2", unless=scope(_softmax))
def _xe_lipschitz(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """cross entropy is 2-Lipschitz"""
    return _below_paper_constant(loss, scores, lists)


@check(
    "generalisation",
    paper=f"{_XE_PAPER}, Theorem 2",
    unless=first_reason(nothing_relevant, _with_constant),
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


@check("hessian", paper=f"{_XE_PAPER}, Claims 1 and 2", unless=scope(_softmax, _underflows))
def _hessian(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """with epsilon the Hessian of cross entropy is positive definite, and the spectral radius of S
    is below 1
    """
    eigenvalue = float(np.nanmin(theory.smallest_eigenvalue(scores, lists.offsets, _EPSILON)))
    gap = float(np.nanmin(theory.spectral_gap(scores, lists.offsets, _EPSILON)))
    margin = min(eigenvalue, gap)
    detail = f"with epsilon {_EPSILON:g} the smallest eigenvalue is {eigenvalue:.2g}, the spectral radius 1 - {gap:.2g}"
    return (margin if margin > 0 else -1.0), detail


@check(
    "softmax-mrr",
    paper=f"{_BINARY_PAPER}, Theorems 1 and 2; graded labels here",
    unless=scope(PLAIN_LISTNET),
)
def _softmax_mrr(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """XE >= -log RR, for each query and on average"""
    return _smallest_gap(theory.softmax_mrr_bound(scores, lists.labels, lists.offsets, loss))


@check(
    "softmax-ndcg",
    paper=f"{_BINARY_PAPER}, Theorem 3",
    unless=scope(PLAIN_LISTNET, _linear, _binary),
)
def _softmax_ndcg(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """XE >= -log NDCG, for each query and on average, with binary labels"""
    return _smallest_gap(theory.softmax_ndcg_bound(scores, lists.labels, lists.offsets, loss))


# Of the LambdaLoss family


@check("lambdaloss", paper=f"{_LAMBDA_PAPER}, sec. 5.1 to 5.3", unless=_with_constants)
def _lambdaloss(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the loss and its constants are at least the cost it was derived from"""
    return _smallest_gap(theory.lambdaloss_bound(scores, lists.labels, lists.offsets, loss))


@check(
    "ndcg-cost", paper=f"{_LAMBDA_PAPER}, sec. 5, without its constants", unless=_without_constants
)
def _ndcg_cost(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """without constants the loss is at least 1 - NDCG"""
    return _smallest_gap(theory.ndcg_cost_bound(scores, lists.labels, lists.offsets, loss))


@check("lambdarank-metric", paper=f"{_LAMBDA_PAPER}, sec. 5.3", unless=_lambdarank)
def _lambdarank_metric(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the metric that LambdaRank bounds is at least the cost of NDCG"""
    own = {"gain": loss.gain, "discount": loss.discount}
    return _smallest_gap(theory.lambdarank_metric_bound(scores, lists.labels, lists.offsets, **own))


@slow_check(
    "lambdarank-lipschitz", paper=f"{_XE_PAPER}, Proposition 1", unless=scope(*family(LambdaRank))
)
def _lambdarank_lipschitz(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """LambdaRank, with its weights held fixed, is sigma m^2-Lipschitz (over log 2, for logarithms
    to base 2)
    """
    return _below_paper_constant(loss, scores, lists)


@slow_check(
    "em-descent",
    paper=f"{_LAMBDA_PAPER}, sec. 4.2",
    unless=first_reason(_need_not_descend, nothing_relevant),
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


@check(
    "directness",
    paper=f"{_HE_LIU}, Theorem 1, for seen queries",
    unless=_no_scale,
    once=True,
    sample=some_lists,
)
def _directness(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """the best of sixteen scorings by the loss is by the metric at most 2 eps1 + eps2 worse than
    the best by the metric"""
    scorings = [scores, *theory.spread_scorings(lists.labels, lists.offsets)]
    found = theory.directness_among(loss, scorings, lists.labels, lists.offsets)
    return found.margin, repr(found)


@check(
    "directness-unseen",
    paper=f"{_HE_LIU}, Theorem 1 as stated",
    unless=first_reason(_no_scale, _no_halves),
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
    kept = _without_ties(scores, lists)
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


@slow_check(
    "softrank-bound",
    paper=f"{_HE_LIU}, proof of Theorem 2",
    unless=first_reason(_softrank, _full, _untied),
)
def _softrank_bound(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is below the bound, with (N - 1)/4 and a sigma below what the proof
    needs
    """
    return _below_limits("proof", theory.softrank_sigma_limit, loss, scores, lists)


@slow_check(
    "softrank-bound-as-stated", paper=_AS_STATED, unless=first_reason(_softrank, _full, _untied)
)
def _softrank_bound_as_stated(loss: Any, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is below the bound without (N - 1)/4, where that is a number"""

    def limit(delta: float, sizes: F64) -> F64:
        return np.minimum(theory.softrank_sigma_limit_as_stated(delta, sizes), _ROOT_OF_0)

    return _below_limits("stated", limit, loss, scores, lists)


@check(
    "softrank-sigma-limit",
    paper=_AS_STATED,
    unless=first_reason(_softrank, _full, _long),
    once=True,
    flaw="with two to five documents the bound asks for the root of a negative number before sigma reaches the limit",
)
def _softrank_sigma_limit(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """for every sigma below the stated limit the stated bound is a number"""
    sizes = np.unique(lists.sizes[_several(lists)]).astype(np.float64)
    stated = theory.softrank_sigma_limit_as_stated(1.0, sizes)
    ratio = np.minimum(_ROOT_OF_0 / stated - 1.0, 1.0)
    at = int(np.argmin(ratio))
    limits = f"a number below {_ROOT_OF_0:.3g} delta, stated {stated[at]:.3g} delta"
    return float(ratio[at]), f"with {sizes[at]:g} documents delta apart: {limits}"


@check(
    "softrank-contests",
    paper=f"{_HE_LIU}, a sharper form of Theorem 2",
    unless=_softrank,
    sample=short_lists,
)
def _softrank_contests(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
    """|NDCG - SoftNDCG| is at most the largest step of the discount times the gains of the pairs
    that noise reverses
    """
    return _worst_of(
        [theory.softrank_ndcg_bound(scores, lists.labels, lists.offsets, loss, version="contests")]
    )


def _with_ties(examine: _Examine) -> _Examine:
    """Function decorator: check at whole-number scores, many of them tied, and at equal ones; the
    worse counts.
    """

    @functools.wraps(examine)
    def worst(loss: Loss, scores: F64, lists: TrainingLists) -> tuple[float, str]:
        spread = float(scores.std())
        coarse = np.round(scores / spread) if spread > 0 else np.zeros_like(scores)
        return min(examine(loss, tied, lists) for tied in (coarse, np.zeros_like(scores)))

    return worst


@check("softrank-ties", unless=_softrank, once=True, sample=some_lists)
@_with_ties
def _softrank_ties(loss: Any, tied: F64, lists: TrainingLists) -> tuple[float, str]:
    """measured: as sigma falls to 0, ties count as their expected value"""
    judge = NDCG(k=loss.k, gain=loss.gain, discount=loss.discount, ties="expected")
    expected = judge.per_query(tied, lists.labels, lists.offsets)
    near = dataclasses.replace(loss, sigma=_NARROW)
    worst = float(
        np.nanmax(np.abs(1.0 - near.bind(lists.labels, lists.offsets).values(tied) - expected))
    )
    return 1e-6 - worst, f"the largest difference is {worst:.2g}: contests are taken as independent"


# Of smoothing by noise


@slow_check(
    "smoothing-worst",
    paper=f"{_STOCHASTIC}, Theorem 1",
    unless=first_reason(_smoothed, _worst_ties),
)
@_with_ties
def _smoothing_worst(loss: Any, tied: F64, lists: TrainingLists) -> tuple[float, str]:
    """with a large mu and a small sigma the smoothed metric is the metric with ties at their
    worst
    """
    y, cuts = lists.labels, lists.offsets
    mu = float(theory.consistent_smoothing(tied, y, cuts, _PRECISION).mu.max())
    sigma = min(
        float(theory.consistent_smoothing(tied, y, cuts, _PRECISION, least_mu=mu).sigma.min()), 1.0
    )
    near = dataclasses.replace(loss, mu=mu, sigma=sigma, samples=4)
    difference = -near.bind(y, cuts).values(tied) - _judge(loss, "worst").per_query(tied, y, cuts)
    largest = float(np.nanmax(np.abs(difference)))
    return (
        1e-9 - largest,
        f"with mu {mu:.3g} and sigma {sigma:.2g} the largest difference is {largest:.2g}",
    )


@slow_check("smoothing-expected", paper=f"{_STOCHASTIC}, sec. 4.3", unless=_smoothed)
@_with_ties
def _smoothing_expected(loss: Any, tied: F64, lists: TrainingLists) -> tuple[float, str]:
    """without shift, as sigma falls to 0, the smoothed metric counts ties as their expected
    value
    """
    expected = _judge(loss, "expected").per_query(tied, lists.labels, lists.offsets)
    objective = dataclasses.replace(loss, mu=0.0, sigma=_NARROW, samples=32).bind(
        lists.labels, lists.offsets
    )
    means = np.array(
        [float(np.nanmean(-objective.values(tied, step) - expected)) for step in range(16)]
    )
    difference, error = float(means.mean()), float(means.std(ddof=1)) / 4.0
    detail = f"the mean difference is {difference:.2g}, its standard error {error:.2g}"
    return 5.0 * error + 1e-9 - abs(difference), detail


@slow_check("smoothing-bias", unless=first_reason(_smoothed, _worst_ties))
@_with_ties
def _smoothing_bias(loss: Any, tied: F64, lists: TrainingLists) -> tuple[float, str]:
    """measured: with the mu it has, as sigma falls to 0, less than 0.001 is left of what ties add
    to their worst case"""
    judge, mu = _judge(loss, "worst"), loss._shift_by_label
    given = (tied, lists.labels, lists.offsets, judge)
    if isinstance(judge, DCG | NDCG):
        found = theory.smoothing_limit(*given, mu=mu)
    else:
        found = theory.smoothed_metric(*given, sigma=0.0, mu=mu, draws=200)
    bias, without = mean_over_queries(found.bias), mean_over_queries(found.expected - found.worst)
    part = f", {bias / without:.0%} of that without shift" if without > 1e-9 else ""
    return 1e-3 - bias, f"with mu {mu:g} a mean bias of {bias:.3g} is left{part}"


def _judge(loss: Any, ties: str) -> Metric:
    return metric(loss.metric, ties=ties, empty="skip")
