"""How steep a loss can be, and what that says about unseen queries: slopes, Lipschitz constants,
generalisation.

A loss whose value changes by at most ``L max_i |s_i - s'_i|`` is ``L``-Lipschitz with respect to
the infinity norm; for a differentiable loss the smallest such ``L`` is the largest
``sum_i |dl/ds_i|``.

The weights of ``lambdarank``, the NDCG losses and every loss with a cutoff jump when documents
change places, so as functions of the scores they have no Lipschitz constant at all; what is
bounded, here as in the paper, is the loss between such jumps, with its weights held fixed.

Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

import numpy as np

from tautrank.arguments import real, whole
from tautrank.arrays import F64, I64
from tautrank.data import Lists
from tautrank.errors import OptionError
from tautrank.losses import REGISTRY, LambdaLoss, LambdaRank, Loss, SoftmaxLoss
from tautrank.losses.base import TrainingLists
from tautrank.metrics.ordering import query_sums
from tautrank.theory.theorem import (
    Labelled,
    check_lists,
    document_pairs,
    float_labels,
    has_relevant,
)

LogCovering: TypeAlias = Callable[[float], float]
"""From a radius to the natural logarithm of the number of balls that cover a class of models."""

# Half the distance over which a score is moved: near the cube root of float64's precision.
WIDTH = 6e-6
# A jump of the slope at a kink is the same for every width; one that curvature makes grows with the
# width.
_WIDER = 8.0


def differences(
    function: Callable[[F64], F64],
    scores: F64,
    offsets: I64,
    between: tuple[float, float] = (-WIDTH, WIDTH),
    places: Iterable[int] | None = None,
) -> F64:
    """Return the derivative of each query's value by each of its scores, by finite differences.

    Queries are independent, so the documents at the same place of all queries are moved at once:
    two calls for each place of the longest list.

    Args:
        function: from scores to one value per query.
        scores: where to differentiate, one number per document.
        offsets: start of each query, and the number of documents at the end.
        between: the two distances from a score between which the slope is taken; central by
            default.
        places: places of the documents within their query, counted from 0; None for all. The others
            get NaN.

    >>> offsets = np.array([0, 2, 3])
    >>> differences(lambda s: np.add.reduceat(s**2, offsets[:-1]), np.array([1.0, 2.0, 3.0]), offsets).round(6)
    array([2., 4., 6.])
    """
    slopes = np.full_like(scores, np.nan)
    sizes = np.diff(offsets)
    if places is None:
        places = range(int(sizes.max(initial=0)))
    for place in places:
        queries = np.flatnonzero(sizes > place)
        documents = offsets[queries] + place
        down = scores.copy()
        up = scores.copy()
        down[documents] += between[0]
        up[documents] += between[1]
        # The true distance: next to a large score the width itself is rounded.
        moved = up[documents] - down[documents]
        with np.errstate(invalid="ignore"):  # two values may be infinite
            rise = function(up)[queries] - function(down)[queries]
            slopes[documents] = rise / moved
    return slopes


def slopes_at_kinks(
    function: Callable[[F64], F64], scores: F64, offsets: I64, places: list[int] | None = None
) -> tuple[F64, F64]:
    """Take a function of scores, and return for each score the smaller and the larger one-sided
    slope where the function has a kink, and NaN where it is smooth.

    At a kink every number between the two is a subgradient, and a central difference is only one of
    them. The arguments are those of `differences`.

    >>> low, high = slopes_at_kinks(lambda s: np.abs(s) + s**2, np.array([0.0, 1.0]), np.array([0, 1, 2]))
    >>> low.round(4), high.round(4)
    (array([-1., nan]), array([ 1., nan]))
    """

    def one_sided_slopes(width: float) -> tuple[F64, F64]:
        left = differences(function, scores, offsets, (-width, 0.0), places)
        right = differences(function, scores, offsets, (0.0, width), places)
        return left, right

    left, right = one_sided_slopes(WIDTH)
    wide_left, wide_right = one_sided_slopes(_WIDER * WIDTH)
    # The jump of the slope at a kink is the same for every width; curvature makes one that grows
    # with the width.
    jump = np.abs(right - left)
    wide_jump = np.abs(wide_right - wide_left)
    # A step 8 times as wide would make the jump of curvature 8 times as large: half tells them
    # apart.
    is_kink = jump > 0.5 * wide_jump
    low = np.where(is_kink, np.minimum(left, right), np.nan)
    high = np.where(is_kink, np.maximum(left, right), np.nan)
    return low, high


class Lipschitz(NamedTuple):
    """Lipschitz constants of a loss on given labels, one per query.

    Args:
        paper: what the paper states: 2 for cross entropy, ``sigma m^2 / log 2`` for LambdaRank (the
            losses of this library take logarithms to base 2, the paper's to base e); NaN for other
            losses.
        proven: a bound for these labels that needs no scores; NaN where none is known, infinity
            where there is none.
        measured: the largest ``sum_i |dl/ds_i|`` over the scores that were tried.

    >>> constants = lipschitz("lambdarank(k=none)", [1, 0, 0, 0])
    >>> constants.paper.round(2), constants.proven.round(2), constants.measured.round(2)
    (array([23.08]), array([5.31]), array([2.42]))
    """

    paper: F64
    proven: F64
    measured: F64


def lipschitz(loss: Loss | str, lists: Labelled, *, draws: int = 20, seed: int = 0) -> Lipschitz:
    """Measure how steep a loss is, next to the constants that are stated and proven.

    Proven for the softmax family: ``sum_i |rho_i - phi_i| <= 2`` (Proposition 2). For a LambdaLoss
    every pair pulls two documents by at most ``sigma w_ij / log 2``, so the constant is at most
    ``2 sigma / log 2`` times the sum of the weights; each weight is at most ``|u_i - u_j|`` (or
    ``u_i``) times the largest rank part. Proposition 1 replaces that sum by ``m^2 / 2``.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Propositions 1 and 2.

    Args:
        loss: any loss, or its name.
        lists: the lists, see `tautrank.theory`.
        draws: random scorings to try per scale, besides the labels upside down, the worst case of a
            pairwise loss, and all of the probability on the worst document, the worst case of cross
            entropy.
        seed: seed of the scores and of the loss.

    >>> constants = lipschitz("listnet", [1, 0, 0])
    >>> constants.paper, constants.measured
    (array([2.]), array([2.]))
    """
    loss = REGISTRY.make(loss)
    lists = check_lists(lists)
    draws = whole("draws", draws, 1)
    seed = whole("seed", seed, 0)
    return Lipschitz(
        paper=paper_constant(loss, lists),
        proven=proven_constant(loss, lists),
        measured=measured_constant(loss, lists, draws, seed),
    )


def paper_constant(loss: Loss, lists: Lists) -> F64:
    """Return the Lipschitz constant that Bruch (2020) states for a loss in Propositions 1 and 2, one
    per query; NaN for other losses.

    It bounds how steep the loss is: 2 for cross entropy, ``sigma m^2 / log 2`` for LambdaRank on a
    list of ``m`` documents.

    Args:
        loss: the loss.
        lists: the labelled lists.

    >>> from tautrank.losses import XENDCG
    >>> paper_constant(XENDCG(), Lists.of([1, 0]))
    array([2.])
    """
    if isinstance(loss, SoftmaxLoss):
        return proven_constant(loss, lists)
    if isinstance(loss, LambdaRank) and loss.norm is None and loss.assignment == "hard":
        # The paper's logarithms are to base e, those of the loss here to base 2: hence log 2.
        m = lists.sizes.astype(np.float64)
        constants = loss.sigma * m**2 / math.log(2.0)
        return np.where(has_relevant(lists), constants, 0.0)
    return np.full(lists.n_queries, np.nan)


def proven_constant(loss: Loss, lists: Lists) -> F64:
    """Return a bound on ``sum_i |dl/ds_i|`` for all scores, one per query; see `lipschitz`.

    Args:
        loss: the loss.
        lists: the labelled lists.

    >>> from tautrank.losses import RankNet
    >>> proven_constant(RankNet(), Lists.of([1, 0])).round(4)  # 2/log 2: one pair
    array([2.8854])
    """
    # The gradient of cross entropy is rho - phi, the difference of two distributions, whose sizes
    # add up to 2 at most; a query without a relevant document has no gradient.
    if isinstance(loss, SoftmaxLoss):
        return np.where(has_relevant(lists), 2.0, 0.0)
    # The slope of a square grows without limit.
    if loss.name == "mse":
        return np.full(lists.n_queries, np.inf)
    # A norm divides by the distance of scores, and sampled gains have no bound that is of use.
    if not isinstance(loss, LambdaLoss) or loss.norm is not None or loss._draws_rankings:
        return np.full(lists.n_queries, np.nan)
    # A pair pulls each of its two documents by at most sigma / log 2 times its weight, with the
    # loss in logarithms to base 2. _largest_weights bounds the sum of the weights of each query.
    weights = np.maximum(_largest_weights(loss, lists), 0.0)
    constants = 2.0 * loss.sigma / math.log(2.0) * weights
    return np.where(has_relevant(lists), constants, 0.0)


def _largest_weights(loss: LambdaLoss, lists: Lists) -> F64:
    """Return, for each query, a number that the weights of all its pairs never exceed in sum,
    whatever the ranking is.

    The weight of a pair is a document part (the difference of the labels or gains ``u`` of its two
    documents) times a rank part (made of the tables ``v`` by rank and ``gap`` by distance). The
    document parts are added up, and the rank part is taken at its largest.

    Args:
        loss: a member of the LambdaLoss family.
        lists: the labelled lists.
    """
    training_lists = TrainingLists.of(lists)
    u = loss._document_weights(training_lists)[training_lists.arrangement]
    v, gap = loss._rank_weights(lists.longest + 1)
    if loss.every_pair:
        # Each document has a pair with every other one, of weight u times v of its rank.
        largest_v = float(v.max(initial=0.0))
        n_pairs_of_document = lists.sizes - 1
        return np.asarray(largest_v * n_pairs_of_document * query_sums(u, lists.offsets))

    sums = np.zeros(lists.n_queries)
    for i, j in document_pairs(lists.offsets):
        # Some losses cap the difference of the document parts.
        differences_of_u = np.minimum(np.abs(u[i] - u[j]), loss._cap)
        np.add.at(sums, lists.query[i], differences_of_u)
    # v falls with the rank, so v_i - v_j is largest from the first to the last rank. No pair has the
    # distance 0, so gap[0] is left out.
    largest_rank_part = v[0] - v[-1] + gap[1:].max(initial=0.0)
    return np.asarray(sums * largest_rank_part)


def measured_constant(
    loss: Loss,
    lists: Lists,
    draws: int,
    seed: int,
    scales: tuple[float, ...] = (0.1, 1.0, 30.0),
) -> F64:
    """Return, for each query, the steepest slope ``sum_i |dl/ds_i|`` of a loss ``l`` that was found
    at random and worst-case scores ``s``: a lower bound of its Lipschitz constant.

    Where the loss returns a direction other than its derivative, the derivative is taken by
    finite differences.

    Args:
        loss: the loss.
        lists: the labelled lists.
        draws: random scorings per scale.
        seed: seed of the scores and of the loss.
        scales: standard deviations of the scores.

    >>> from tautrank.losses import RankNet
    >>> measured_constant(RankNet(), Lists.of([1, 0]), 3, 0).round(4)
    array([2.8854])
    """
    objective = loss.bind(lists, seed=seed)
    rng = np.random.default_rng(seed)
    # The worst cases: labels upside down for losses of pairs, and all of the probability on the
    # worst document for cross entropy.
    scorings = [-float_labels(lists), _worst_on_top(lists)]
    for _ in range(draws):
        scorings.append(rng.normal(size=lists.n_documents))

    steepest = np.zeros(lists.n_queries)
    for step, scoring in enumerate(scorings):
        for scale in scales:
            scores = scale * scoring
            if loss.gradient_is_derivative:
                slopes = np.asarray(objective.gradients(scores, step)[0], dtype=np.float64)
            else:
                # The loss is frozen: its weights, targets and noise stay as at these scores.
                slopes = differences(objective.frozen(scores, step).values, scores, lists.offsets)
            steepest = np.maximum(steepest, query_sums(np.abs(slopes), lists.offsets))
    return steepest


def _worst_on_top(lists: Lists) -> F64:
    """Return scores that put one document with the lowest label of each query on top: 1 for it,
    and 0 for the rest.
    """
    scores = np.zeros(lists.n_documents)
    # Sorted by query, and in each query from the lowest label on.
    lowest_label_first = np.lexsort((lists.labels, lists.query))
    query_starts = lists.offsets[:-1][lists.sizes > 0]
    worst_documents = lowest_label_first[query_starts]
    scores[worst_documents] = 1.0
    return scores


def generalisation_error(
    n: int,
    lipschitz: float,
    log_covering: LogCovering,
    confidence: float = 0.95,
    difference: float | None = None,
) -> float:
    """Return how far the expected loss can be above the mean loss of the training queries, for a
    class of models.

    It is the smallest ``epsilon`` with
    ``2 N(epsilon / (4 L)) exp(-n epsilon^2 / (2 d^2)) <= 1 - confidence``: with that confidence no
    model of the class, whose scores lie in [0, 1], is worse on unseen queries by more than
    ``epsilon``. ``N`` is the covering number of the class by balls of the given radius in the
    largest difference of scores.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Theorem 2, with the
    constant of its proof: Lemma B.2 leaves a deviation of ``epsilon / 2`` to McDiarmid's
    inequality, which squares it, where the statement in the paper has ``epsilon`` and so an
    exponent four times as large. The proof also counts a change of a query as a change of its
    scores alone, so that ``d = L``. For cross entropy over lists of one length this is right:
    scores in [0, 1] keep the loss within ``log((1 + (m-1) e) / (1 + (m-1)/e)) < 2``.

    Args:
        n: number of training queries.
        lipschitz: Lipschitz constant ``L`` of the loss, see `lipschitz`.
        log_covering: from a radius to the natural logarithm of the covering number, see
            `log_box_covering`.
        confidence: number above 0 and below 1.
        difference: largest difference ``d`` between the losses of two queries; None for the
            Lipschitz constant.

    >>> def ten_leaves(radius: float) -> float:
    ...     return log_box_covering(radius, 10)
    >>> round(generalisation_error(10_000, 2.0, ten_leaves), 3)
    0.168
    >>> round(generalisation_error(10_000, 100.0**2, ten_leaves), 1)  # proportional to the constant
    842.3
    """
    n = whole("n", n, 1)
    L = real("lipschitz", lipschitz, 0.0, above=True)
    d = L if difference is None else real("difference", difference, 0.0, above=True)
    confidence = real("confidence", confidence, 0.0, above=True, most=1.0)
    if confidence == 1.0:
        raise OptionError("confidence: found 1; expected a number above 0 and below 1")

    def excess(epsilon: float) -> float:
        """Return the logarithm of the left side of the inequality
        ``2 N(epsilon / (4 L)) exp(-n epsilon^2 / (2 d^2)) <= 1 - confidence`` over the right one:
        above 0 where ``epsilon`` is too small for it.

        ``N`` is the covering number of the models, ``L`` the Lipschitz constant of the loss, ``n``
        the number of queries and ``d`` the largest difference of two queries' losses.
        """
        log_n = real("log_covering", log_covering(epsilon / (4.0 * L)), 0.0)
        exponent = n * epsilon**2 / (2.0 * d**2)
        log_left_side = math.log(2.0) + log_n - exponent
        return log_left_side - math.log1p(-confidence)

    # The function falls with epsilon, by at least its quadratic part, so halving an interval finds
    # its root.
    low = 0.0
    excess_at_d = max(excess(d), 0.0)
    high = d * math.sqrt(1.0 + 2.0 * excess_at_d / n)
    if excess(high) > 1e-9 * (1.0 + excess(d)):
        raise OptionError(
            "log_covering: found a number that grows with the radius; expected one that falls"
        )
    for _ in range(200):
        middle = 0.5 * (low + high)
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    return high


def log_box_covering(radius: float, dimensions: int) -> float:
    """Return the log of the covering number of ``[0, 1]^d`` by balls of the infinity norm,
    ``d log ceil(1/(2r))``.

    The functions that are constant on each of ``d`` given parts of the documents (a tree with fixed
    splits and ``d`` leaves) form such a box. A ball of radius ``r`` is a cube of side ``2r``, so
    this is exact.

    Args:
        radius: radius of the balls, above 0.
        dimensions: ``d``.

    >>> round(math.exp(log_box_covering(0.25, 3)))
    8
    """
    r = real("radius", radius, 0.0, above=True)
    d = whole("dimensions", dimensions, 1)
    # A cube's side that divides 1 up to rounding does not need one cube more.
    n_cubes = math.ceil(1.0 / (2.0 * r) * (1.0 - 1e-12))
    return d * math.log(max(1, n_cubes))
