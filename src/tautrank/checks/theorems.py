"""What is claimed of a loss, as a list: each claim knows which losses it speaks of, and checks itself on given lists.

General claims speak of any loss, a new one included: that its gradient is its derivative, that it lies above a
metric's cost. The papers' theorems speak of theirs. `check_claims` runs all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.arguments import choice
from tautrank.checks.laws import DOES_NOT_APPLY as DOES_NOT_APPLY
from tautrank.checks.laws import FAILS as FAILS
from tautrank.checks.laws import HOLDS as HOLDS
from tautrank.checks.laws import (
    LAWS,
    Results,
    gradient_and_slopes,
    not_finite,
    reordered,
    results,
    shifted,
    without_relevant,
)
from tautrank.data.grouping import offsets_from_sizes
from tautrank.losses import (
    XENDCG,
    ARPLoss1,
    ARPLoss2,
    LambdaLoss,
    LambdaRank,
    ListNet,
    Loss,
    NDCGLoss1,
    NDCGLoss2,
    NDCGLoss2PP,
    RankNet,
    SoftmaxLoss,
)
from tautrank.losses import loss as loss_named
from tautrank.losses.base import Lists
from tautrank.metrics import discount_values, metric
from tautrank.metrics.ordering import F64, query_sums
from tautrank.theory.bound import Bound, negative_log, sees_scores
from tautrank.theory.distributions import check_scored_lists
from tautrank.theory.em import descends, majorise_minimise
from tautrank.theory.hessian import DampedSoftmax, smallest_eigenvalue, spectral_gap
from tautrank.theory.lipschitz import measured_constant, paper_constant, proven_constant
from tautrank.theory.pairwise_bounds import lambdaloss_bound, lambdarank_metric_bound, ndcg_cost_bound
from tautrank.theory.softmax_bounds import (
    softmax_mrr_bound,
    softmax_ndcg_bound,
    xe_ndcg_bound,
    xe_ndcg_refined_bound,
)

# Lists longer than this are looked at in this many places, spread evenly.
_MOST_PLACES = 40
# Lists up to this length are short enough for claims that compare every pair of documents many times.
_SHORT = 200
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Outcome:
    """What came of a claim on given lists.

    Args:
        claim: its name.
        status: ``"holds"``, ``"fails"`` or ``"does not apply"``.
        margin: how far it was from failing, below 0 where it fails; NaN where it does not apply.
        detail: a sentence with the numbers, or the reason why it does not apply.
        queries: how many were looked at.

    >>> Outcome("derivative", HOLDS, 1e-5, "the largest error is 2e-10")
    derivative holds: the largest error is 2e-10
    """

    claim: str
    status: str
    margin: float
    detail: str
    queries: int = 0

    def __repr__(self) -> str:
        return f"{self.claim} {self.status}: {self.detail}"


Check = Callable[[Loss, F64, Lists], tuple[float, str] | str]
"""From a loss, scores and lists to a margin and a sentence; or to the reason why the claim does not apply to them."""

Sample = Callable[[F64, Lists], tuple[F64, Lists]]
"""From scores and lists to some of them, whole queries."""


@dataclass(frozen=True)
class Claim:
    """A statement about losses that can be checked.

    Args:
        name: what a user types.
        statement: the claim, in a sentence.
        paper: where it stands; empty for claims of this library.
        silent_on: from a loss to the reason why the claim does not speak of it, or None where it does.
        examine: from a loss, scores and lists to a margin (the claim fails below ``-tolerance``) and a sentence, or to
            the reason why the claim does not speak of these lists.
        tolerance: how far below 0 counts as rounding.
        once: whether one scoring is enough, because the claim looks for scores itself or does not depend on them.
        sample: which queries are enough, for a claim that takes long; None for all.
        flaw: what is known to be wrong with the claim as its paper has it; empty for most.

    >>> CLAIMS["xe-ndcg"].statement
    'XE >= -log(NDCG + 1/maxDCG), for each query and on average'
    """

    name: str
    statement: str
    paper: str
    silent_on: Callable[[Loss], str | None]
    examine: Check
    tolerance: float = _ROUNDING
    once: bool = False
    sample: Sample | None = None
    flaw: str = ""

    def check(self, loss: Loss | str, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> Outcome:
        """Check the claim for a loss at given scores.

        Args:
            loss: any loss, or its name.
            scores: one finite number a document.
            labels: one finite number of at least 0 a document.
            offsets: where each query starts, and the number of documents at the end.

        >>> CLAIMS["xe-ndcg"].check("listnet", [1.0, 0.0], [0, 1], [0, 2])
        xe-ndcg does not apply: it speaks of xendcg without noise
        """
        chosen = loss_named(loss)
        reason = self.silent_on(chosen)
        looked_at = 0
        if reason is None:
            s, lists = check_scored_lists(scores, labels, offsets)
            if self.sample is not None:
                s, lists = self.sample(s, lists)
            looked_at = lists.sizes.size
            found = self.examine(chosen, s, lists)
            if not isinstance(found, str):
                margin, detail = found
                # NaN is no margin: nothing was found to look at.
                if not math.isnan(margin):
                    status = HOLDS if margin >= -self.tolerance else FAILS
                    return Outcome(self.name, status, margin, detail, looked_at)
                found = "no query it looks at has a relevant document"
            reason = found
        return Outcome(self.name, DOES_NOT_APPLY, math.nan, reason, looked_at)


CLAIMS: dict[str, Claim] = {}
"""Every claim by its name, general ones first."""


def claim(
    name: str,
    statement: str,
    *,
    paper: str = "",
    silent_on: Callable[[Loss], str | None] = lambda loss: None,
    tolerance: float = _ROUNDING,
    once: bool = False,
    sample: Sample | None = None,
    flaw: str = "",
) -> Callable[[Check], Check]:
    """Function decorator: make a check known to `check_claims` under a name.

    Args:
        name: what a user types.
        statement: the claim, in a sentence.
        paper: where it stands.
        silent_on: as in `Claim`.
        tolerance: as in `Claim`.
        once: as in `Claim`.
        sample: as in `Claim`.
        flaw: as in `Claim`.

    >>> @claim("positive", "the loss is never below 0")
    ... def positive(loss, scores, lists):
    ...     least = float(loss.bind(lists.labels, lists.offsets).values(scores).min())
    ...     return least, f"the smallest value is {least:g}"
    >>> CLAIMS["positive"].check("mse", [2.0], [1], [0, 1])
    positive holds: the smallest value is 0.5
    >>> del CLAIMS["positive"]
    """

    def enter(check: Check) -> Check:
        CLAIMS[name] = Claim(name, statement, paper, silent_on, check, tolerance, once, sample, flaw)
        return check

    return enter


def check_claims(
    loss: Loss | str,
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    names: Iterable[str] | None = None,
    more: Sequence[ArrayLike] = (),
) -> list[Outcome]:
    """Check every claim for a loss, at the given scores and at harder ones made from them.

    Beside the given scores, every claim that depends on scores is checked with all of them equal, with the documents
    upside down, and with the scores a hundred times as far apart and a hundred times as near. The outcome is that of
    the worst.

    Args:
        loss: any loss, or its name; one of your own need not be registered.
        scores: one finite number a document.
        labels: one finite number of at least 0 a document.
        offsets: where each query starts, and the number of documents at the end.
        names: of the claims; None for all.
        more: other scorings of the same documents to check at, just as they are.

    >>> for outcome in check_claims("xendcg", [1.0, 0.0, 2.0], [1, 0, 2], [0, 3], ["xe-ndcg", "xe-lipschitz"]):
    ...     print(outcome)
    xe-ndcg holds: the smallest gap is 1.02 between 0.7767 and -0.2433
    xe-lipschitz holds: the steepest slope found is 1.98, the constant 2
    """
    chosen = loss_named(loss)
    s, lists = check_scored_lists(scores, labels, offsets)
    wanted = wanted_claims(names)
    scorings = [s, np.zeros_like(s), -lists.labels, 100.0 * s, 0.01 * s]
    scorings += [check_scored_lists(other, lists.labels, lists.offsets)[0] for other in more]
    return [_worst(CLAIMS[name], chosen, scorings, lists) for name in wanted]


def wanted_claims(names: Iterable[str] | None) -> list[str]:
    """The names of claims, all of them for None; an unknown one is an error.

    >>> wanted_claims(["shift"])
    ['shift']
    """
    return [choice("claim", name, tuple(CLAIMS)) for name in (CLAIMS if names is None else names)]


def _worst(subject: Claim, loss: Loss, scorings: Sequence[F64], lists: Lists) -> Outcome:
    tried = scorings[:1] if subject.once else scorings
    outcomes = [subject.check(loss, scores, lists.labels, lists.offsets) for scores in tried]
    return min(outcomes, key=lambda outcome: math.inf if math.isnan(outcome.margin) else outcome.margin)


def some_lists(scores: F64, lists: Lists, documents: int = 2000) -> tuple[F64, Lists]:
    """Queries at regular distances, about so many documents in all: for claims that look at many scores.

    Args:
        scores: one a document.
        lists: the labelled lists.
        documents: about how many.

    >>> scores, lists = some_lists(np.arange(6.0), Lists.of([1, 0, 0, 1, 1, 0], [0, 2, 4, 6], None), documents=4)
    >>> scores, lists.offsets
    (array([0., 1., 4., 5.]), array([0, 2, 4]))
    """
    stride = max(1, -(-scores.size // documents))
    return only_queries(scores, lists, np.arange(lists.sizes.size) % stride == 0)


def some_short_lists(scores: F64, lists: Lists) -> tuple[F64, Lists]:
    """`some_lists` of those with at most 200 documents: for claims whose time grows with the square of their number.

    Args:
        scores: one a document.
        lists: the labelled lists.

    >>> some_short_lists(np.zeros(302), Lists.of(np.ones(302), [0, 1, 302], None))[1].offsets
    array([0, 1])
    """
    return some_lists(*only_queries(scores, lists, lists.sizes <= _SHORT))


def only_queries(scores: F64, lists: Lists, queries: NDArray[np.bool_]) -> tuple[F64, Lists]:
    """The scores and the lists of some queries.

    Args:
        scores: one a document.
        lists: the labelled lists.
        queries: which ones.

    >>> only_queries(np.array([5.0, 6.0, 7.0]), Lists.of([1, 0, 2], [0, 2, 3], None), np.array([False, True]))[0]
    array([7.])
    """
    rows = np.repeat(queries, lists.sizes)
    offsets = offsets_from_sizes(lists.sizes[queries])
    return scores[rows], Lists.of(lists.labels[rows], offsets, None)


# Of any loss: some of its laws, on the lists at hand.


@claim(
    "derivative",
    "the gradient is the derivative of the loss with its weights, targets and noise held",
    silent_on=LAWS["derivative"].silent_on,
    sample=some_lists,
)
def _derivative(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    grad, slopes = (part["gradient"] for part in gradient_and_slopes(loss, scores, lists, places=_some_places(lists)))
    # Documents that were not moved have no slope to compare with.
    error = query_sums(np.where(np.isnan(slopes) & np.isfinite(grad), 0.0, np.abs(slopes - grad)), lists.offsets)
    # A difference has as many digits as the value has left after the width of the step took its share.
    values = loss.bind(lists.labels, lists.offsets).values(scores)
    worst = _largest(error / (1.0 + query_sums(np.abs(grad), lists.offsets) + 1e-4 * np.abs(values)))
    return 1e-5 - worst, f"the largest error is {worst:.2g} of the gradient, 1e-05 allowed"


def _unchanged(both: Callable[[Loss, F64, Lists], tuple[Results, Results]], allowed: float, *parts: str) -> Check:
    """The check that some of a loss's results are the same, but for rounding, under what a law says changes nothing."""

    def examine(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
        moved, plain = both(loss, scores, lists)
        worst = max(_largest((moved[part] - plain[part]) / (1.0 + np.abs(plain[part]))) for part in parts)
        return allowed - worst, f"the largest change is {worst:.2g}, {allowed:g} allowed"

    return examine


claim(
    "shift",
    "adding a constant to the scores of a query changes neither the loss nor its gradient",
    silent_on=LAWS["shift"].silent_on,
)(_unchanged(shifted, 1e-6, "gradient", "hessian", "value"))


@claim("zero-sum", LAWS["zero-sum"].statement, silent_on=LAWS["zero-sum"].silent_on)
def _zero_sum(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    grad = loss.bind(lists.labels, lists.offsets).gradients(scores)[0]
    worst = _largest(query_sums(grad, lists.offsets) / (1.0 + query_sums(np.abs(grad), lists.offsets)))
    return 1e-9 - worst, f"the largest sum is {worst:.2g} of the gradient, 1e-09 allowed"


claim("order", "the order in which documents are given does not matter", silent_on=LAWS["order"].silent_on)(
    _unchanged(reordered, 1e-9, "value")
)


@claim("no-relevant", "a query without a relevant document has value 0 and gradient 0", once=True)
def _no_relevant(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    found = without_relevant(loss, scores, Lists.of(np.zeros_like(lists.labels), lists.offsets, None))
    most = max(_largest(found["gradient"]), _largest(found["value"]))
    return -most, f"the largest number there is {most:g}"


@claim("finite", "values, gradients and hessians are finite, and no hessian is below 0")
def _finite(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    objective = loss.bind(lists.labels, lists.offsets)
    for scale in (1.0, 1e6):
        found = not_finite(results(objective, scale * scores))
        if found is not None:
            return -math.inf, f"{found} at scores of size {scale:g}"
    return 1.0, "all are, also at scores a million times as large"


@claim(
    "lipschitz",
    "the loss, its weights held, is Lipschitz: its slope does not grow with the scores",
    once=True,
    sample=some_short_lists,
)
def _lipschitz(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    if not lists.has_relevant.any():
        return math.nan, ""
    near, far = (measured_constant(loss, lists, 3, 0, (scale,)) for scale in (30.0, 3e4))
    proven = proven_constant(loss, lists)
    near_most, far_most = (float(part.max(initial=0.0)) for part in (near, far))
    if np.isnan(proven).any() or not np.isfinite(proven).all():
        detail = f"the steepest slope found is {near_most:.3g}, and {far_most:.3g} at scores a thousand times as large"
        return 1.5 * near_most + _ROUNDING - far_most, detail
    most = np.maximum(near, far)
    detail = f"the steepest slope found is {float(most.max(initial=0.0)):.3g}, the proven constant {proven.max():.3g}"
    return float((1.0 - (most - 1e-6) / np.maximum(proven, 1e-6)).min(initial=1.0)), detail


@claim(
    "m-step",
    "with its weights held, the loss falls along its derivative, and never rises",
    once=True,
    sample=some_short_lists,
)
def _m_step(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    if not lists.has_relevant.any():
        return math.nan, ""
    trace = majorise_minimise(loss, scores, lists.labels, lists.offsets, iterations=2, steps=2)
    rise = trace.largest_rise_in_a_step
    return -rise, f"the largest rise in a step is {rise:.2g}"


def _above(judge: str, cost: Callable[[F64], F64]) -> Check:
    """The check that a loss lies above a cost made from a metric, measured on the lists at hand."""

    def examine(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
        lower = cost(metric(judge).per_query(scores, lists.labels, lists.offsets))
        gap = loss.bind(lists.labels, lists.offsets).values(scores) - lower
        kept = np.flatnonzero(~np.isnan(lower))
        if kept.size == 0:
            return math.nan, ""
        at = int(kept[np.argmin(gap[kept])])
        below = int(np.count_nonzero(gap[kept] < -_ROUNDING))
        where = f"below it in {below} of {kept.size} queries, " if below else ""
        return float(gap[at]), f"{where}the smallest gap is {gap[at]:.4g}, at a cost of {lower[at]:.4g}"

    return examine


def _one_minus(values: F64) -> F64:
    return 1.0 - values


claim("above-ndcg-cost", "measured: the loss is at least 1 - NDCG")(_above("ndcg", _one_minus))
claim("above-mrr-cost", "measured: the loss is at least 1 - RR")(_above("mrr", _one_minus))
claim("above-log-ndcg", "measured: the loss is at least -log NDCG")(_above("ndcg", negative_log))
claim("above-log-mrr", "measured: the loss is at least -log RR")(_above("mrr", negative_log))


# Of cross entropy.


def _bounded(bound: Callable[[F64, F64, NDArray[np.int64], Any], Bound]) -> Check:
    """The check of a theorem's bound."""
    return lambda loss, scores, lists: _of_bound(bound(scores, lists.labels, lists.offsets, loss))


def _of(kinds: type[Loss] | tuple[type[Loss], ...], words: str) -> Callable[[Loss], str | None]:
    """Silent on all but some classes without noise."""
    return lambda loss: None if isinstance(loss, kinds) and sees_scores(loss) else f"it speaks of {words} without noise"


_XE_PAPER = "Bruch, An Alternative Cross Entropy Loss for Learning-to-Rank, 2020"
_BINARY_PAPER = "Bruch et al., An Analysis of the Softmax Cross Entropy Loss, ICTIR 2019"
_LAMBDA_PAPER = "Wang et al., The LambdaLoss Framework, CIKM 2018"


claim(
    "xe-ndcg",
    "XE >= -log(NDCG + 1/maxDCG), for each query and on average",
    paper=f"{_XE_PAPER}, Theorem 1",
    silent_on=_of(XENDCG, "xendcg"),
)(_bounded(xe_ndcg_bound))

claim(
    "xe-ndcg-refined",
    "XE >= -log(NDCG + sum (1 - gamma) rho / maxDCG), for each query and on average",
    paper=f"{_XE_PAPER}, from the proof of Theorem 1",
    silent_on=_of(XENDCG, "xendcg"),
)(_bounded(xe_ndcg_refined_bound))


def _below_paper_constant(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    asked = lists.has_relevant
    found, stated = measured_constant(loss, lists, 5, 0)[asked], paper_constant(loss, lists)[asked]
    if not found.size:
        return math.nan, ""
    at = int(np.argmax(found - stated))
    detail = f"the steepest slope found is {found[at]:.3g}, the constant {stated[at]:.3g}"
    return float(stated[at] - found[at]), detail


claim(
    "xe-lipschitz",
    "cross entropy is 2-Lipschitz",
    paper=f"{_XE_PAPER}, Proposition 2",
    silent_on=_of(SoftmaxLoss, "the softmax family"),
    once=True,
    sample=some_short_lists,
)(_below_paper_constant)


@claim(
    "hessian",
    "with epsilon the Hessian of cross entropy is positive definite, and the spectral radius of S is below 1",
    paper=f"{_XE_PAPER}, Claims 1 and 2",
    silent_on=_of(SoftmaxLoss, "the softmax family"),
)
def _hessian(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str] | str:
    epsilon = 1e-3
    rho = DampedSoftmax.of(scores, lists.offsets, epsilon).rho
    if (rho < 1e-290).any() or not rho.size:
        return "a probability is too small for a float"
    eigenvalue = float(np.nanmin(smallest_eigenvalue(scores, lists.offsets, epsilon)))
    gap = float(np.nanmin(spectral_gap(scores, lists.offsets, epsilon)))
    margin = min(eigenvalue, gap)
    detail = f"with epsilon {epsilon:g} the smallest eigenvalue is {eigenvalue:.2g}, the spectral radius 1 - {gap:.2g}"
    return (margin if margin > 0 else -1.0), detail


claim(
    "softmax-mrr",
    "XE >= -log RR, for each query and on average",
    paper=f"{_BINARY_PAPER}, Theorems 1 and 2; graded labels here",
    silent_on=_of(ListNet, "listnet"),
)(_bounded(softmax_mrr_bound))


@claim(
    "softmax-ndcg",
    "XE >= -log NDCG, for each query and on average, with binary labels",
    paper=f"{_BINARY_PAPER}, Theorem 3",
    silent_on=lambda loss: (
        None
        if isinstance(loss, ListNet) and loss.target == "linear" and sees_scores(loss)
        else "it speaks of listnet with the linear target and without noise"
    ),
)
def _softmax_ndcg(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str] | str:
    if np.unique(lists.labels[lists.labels > 0]).size > 1:
        return "it speaks of binary labels"
    return _of_bound(softmax_ndcg_bound(scores, lists.labels, lists.offsets, loss))


# Of the LambdaLoss family.


def _of_the_paper(*kinds: type[LambdaLoss]) -> Callable[[Loss], str | None]:
    """Silent on all but members of the family as the paper defines them."""

    def reason(loss: Loss) -> str | None:
        if not isinstance(loss, kinds) or not sees_scores(loss):
            return f"it speaks of {', '.join(kind.name for kind in kinds)} without noise"
        if loss.norm is not None:
            return "it speaks of losses without norm"
        return "it speaks of the hard assignment" if loss._draws_rankings else None

    return reason


@claim(
    "lambdaloss",
    "the loss and its constants are at least the cost it was derived from",
    paper=f"{_LAMBDA_PAPER}, sec. 5.1 to 5.3",
    silent_on=_of_the_paper(RankNet, ARPLoss1, ARPLoss2, NDCGLoss1, NDCGLoss2, NDCGLoss2PP, LambdaRank),
)
def _lambdaloss(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str] | str:
    if isinstance(loss, NDCGLoss1 | NDCGLoss2 | NDCGLoss2PP):
        reason = _not_full(loss, lists)
        if reason:
            return reason
        discounts = discount_values(lists.longest, loss.discount)
        if discounts.size and discounts[0] != 1.0:
            return "it speaks of discounts that start at 1"
        if isinstance(loss, NDCGLoss1) and (discounts * np.arange(1, discounts.size + 1) < 1.0).any():
            return "it speaks of discounts of at least 1/rank"
    return _of_bound(lambdaloss_bound(scores, lists.labels, lists.offsets, loss))


@claim(
    "ndcg-cost",
    "without constants the loss is at least 1 - NDCG",
    paper=f"{_LAMBDA_PAPER}, sec. 5, without its constants",
    silent_on=_of_the_paper(NDCGLoss1, NDCGLoss2, NDCGLoss2PP, LambdaRank),
)
def _ndcg_cost(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str] | str:
    assert isinstance(loss, NDCGLoss1 | NDCGLoss2 | NDCGLoss2PP | LambdaRank)
    reason = _not_full(loss, lists)
    if reason:
        return reason
    discounts = discount_values(lists.longest + 1, loss.discount)
    if isinstance(loss, NDCGLoss2) and (np.diff(discounts, 2) < 0).any():
        return "it speaks of discounts whose steps shrink"
    if isinstance(loss, NDCGLoss1) and (
        discounts[0] != 1.0 or (discounts[:-1] * np.arange(1, discounts.size) < 1.0).any()
    ):
        return "it speaks of discounts that start at 1 and are at least 1/rank"
    return _of_bound(ndcg_cost_bound(scores, lists.labels, lists.offsets, loss))


@claim(
    "lambdarank-metric",
    "the metric that LambdaRank bounds is at least the cost of NDCG",
    paper=f"{_LAMBDA_PAPER}, sec. 5.3",
    silent_on=_of(LambdaRank, "lambdarank"),
)
def _lambdarank_metric(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str] | str:
    assert isinstance(loss, LambdaRank)
    if discount_values(1, loss.discount)[0] != 1.0:
        return "it speaks of discounts that start at 1"
    y, cuts = lists.labels, lists.offsets
    return _of_bound(lambdarank_metric_bound(scores, y, cuts, gain=loss.gain, discount=loss.discount))


claim(
    "lambdarank-lipschitz",
    "LambdaRank, its weights held, is sigma m^2-Lipschitz (over log 2, for logarithms to base 2)",
    paper=f"{_XE_PAPER}, Proposition 1",
    silent_on=_of_the_paper(LambdaRank),
    once=True,
    sample=some_short_lists,
)(_below_paper_constant)


@claim(
    "em-descent",
    "the loss never rises from one M-step to the next",
    paper=f"{_LAMBDA_PAPER}, sec. 4.2",
    silent_on=lambda loss: None if descends(loss) else "nothing makes its EM descend",
    once=True,
    sample=some_short_lists,
)
def _em_descent(loss: Loss, scores: F64, lists: Lists) -> tuple[float, str]:
    if not lists.has_relevant.any():
        return math.nan, ""
    trace = majorise_minimise(loss, scores, lists.labels, lists.offsets, iterations=3, steps=2)
    # The tight gamma is found to one part in 10^12 of the loss.
    rise = float(np.diff(trace.objective, axis=0).max(initial=-math.inf))
    return -rise, f"from one iteration to the next the loss changes by at most {rise:.2g}"


def _largest(values: NDArray[np.floating[Any]]) -> float:
    """The largest size; infinity where there is a NaN, which is no small number."""
    size = float(np.abs(values).max(initial=0.0))
    return math.inf if math.isnan(size) else size


def _of_bound(bound: Bound) -> tuple[float, str]:
    if math.isnan(bound.margin):
        return math.nan, ""
    at = int(np.nanargmin(bound.gap / (1.0 + np.abs(bound.lower))))
    return bound.margin, (
        f"the smallest gap is {bound.gap[at]:.4g} between {bound.upper[at]:.4g} and {bound.lower[at]:.4g}"
    )


def _not_full(loss: LambdaLoss, lists: Lists) -> str | None:
    short = loss.k is not None and loss.k < lists.longest
    return f"it speaks of full lists: k is {loss.k}, the longest list has {lists.longest} documents" if short else None


def _some_places(lists: Lists) -> list[int] | None:
    """Places to differentiate by in long lists; None for all."""
    if lists.longest <= _MOST_PLACES:
        return None
    return sorted(set(np.linspace(0, lists.longest - 1, _MOST_PLACES).astype(int).tolist()))
