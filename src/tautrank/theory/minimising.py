"""How the papers minimise their losses: Newton's method on cross entropy, expectation maximisation
of LambdaLoss.

**Cross entropy.** Is its second derivative positive definite, and does the paper's series invert
it? The paper takes a probability mass ``epsilon / (sum exp(s) + epsilon)`` away from the scores, so
that the Hessian ``H = diag(rho) - rho rho^T`` can be inverted, writes ``H = D (I - S)`` with
``D_ii = rho_i (1 - rho_i)`` and ``S_ij = rho_j / (1 - rho_i)`` for ``i != j``, and cuts
``(I - S)^-1 = I + S + S^2 + ...`` after three terms. No matrix is formed here: ``H`` is a diagonal
minus a matrix of rank one, and ``S`` is similar to one (scale its rows by
``sqrt(rho_i (1 - rho_i))``), so that eigenvalues are roots of a sum over documents and the inverse
is a formula.

Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.4 and appendices C and
D.

**LambdaLoss.** The E-step ranks the documents by their scores and takes the weights of the pairs
from that ranking; the M-step minimises the loss with those weights (Wang et al., CIKM 2018, sec.
4.2 and 4.3). Within an M-step the loss is convex and falls. Whether it falls from one M-step to the
next is another matter: the E-step of the paper puts the ranking that the scores give in the place
of the hidden one, whatever the labels say, and its M-step leaves out the probability of that
ranking under the new scores; so the argument that makes EM descend does not apply. `descends` says
which losses of this library descend anyway, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tautrank.arguments import real, whole
from tautrank.arrays import F64, I64, query_of
from tautrank.data import Lists
from tautrank.losses import MSE, REGISTRY, XENDCG, LambdaLoss, ListNet, Loss
from tautrank.metrics import NDCG
from tautrank.metrics.ordering import query_maxima, query_sums
from tautrank.theory.lipschitz import differences
from tautrank.theory.theorem import Labelled, check_list_scores, check_scored_lists

# A longer lead of the best document makes no difference to `spectral_gap`: probabilities below
# exp(-300) leave the sums that they are added to as they are, and exp(-708) is where floats end.
_FAR_AHEAD = 300.0
# Newton's method on these functions gains digits from the first step on; this many end it for any
# float64.
_MOST_ROUNDS = 200
# Armijo's rule: a step is taken when it gains at least this share of what the slope promises.
_SHARE = 1e-4
_MOST_HALVINGS = 60


class DampedSoftmax(NamedTuple):
    """The score distribution of eq. 14: ``rho_i = exp(s_i) / (sum_j exp(s_j) + epsilon)``.

    Args:
        rho: one per document.
        rest: ``1 - rho``, exact also where ``rho`` is nearly 1.
        missing: the mass taken away, ``epsilon / (sum_j exp(s_j) + epsilon)``, one per query.
        offsets: start of each query, and the number of documents at the end.

    >>> damped = DampedSoftmax.of([0.0, 0.0], [0, 2], epsilon=2.0)
    >>> damped.rho, damped.rest, damped.missing
    (array([0.25, 0.25]), array([0.75, 0.75]), array([0.5]))
    """

    rho: F64
    rest: F64
    missing: F64
    offsets: I64

    @classmethod
    def of(cls, scores: ArrayLike, offsets: ArrayLike, epsilon: float = 1e-10) -> DampedSoftmax:
        """Return the softmax of scores with ``epsilon`` added to its denominator, and what is left
        of the probability.

        Args:
            scores: one finite number per document.
            offsets: start of each query, and the number of documents at the end.
            epsilon: the constant of eq. 14, above 0.
        """
        log_epsilon = np.log(real("epsilon", epsilon, 0.0, above=True))
        scores, offsets = check_list_scores(scores, offsets)
        sizes = np.diff(offsets)
        # epsilon is as one more document, of score log epsilon; all are in units of the largest.
        top = np.maximum(query_maxima(scores, offsets), log_epsilon)
        exponentials = np.exp(scores - np.repeat(top, sizes))
        extra = np.exp(log_epsilon - top)

        # The documents below the best one are added up first: beside it they would lose digits.
        best = _find_best(scores, offsets)
        best_exponentials = np.zeros_like(exponentials)
        best_exponentials[best] = exponentials[best]
        sum_below_best = query_sums(exponentials - best_exponentials, offsets) + extra
        total = sum_below_best + query_sums(best_exponentials, offsets)

        rho = exponentials / np.repeat(total, sizes)
        one_minus_rho = 1.0 - rho
        one_minus_rho[best] = (sum_below_best / total)[sizes > 0]
        return cls(rho=rho, rest=one_minus_rho, missing=extra / total, offsets=offsets)


def smallest_eigenvalue(scores: ArrayLike, offsets: ArrayLike, epsilon: float = 1e-10) -> F64:
    """Return the smallest eigenvalue of the Hessian of cross entropy at some scores, one per query;
    if it is above 0, the Hessian is positive definite.

    The Hessian is ``diag(rho) - rho rho^T``, where ``rho`` is the softmax of the scores with
    ``epsilon`` added to its denominator, and ``missing`` is 1 less the sum of ``rho``. It is the root below ``min rho`` of ``sum_i rho_i x / (rho_i - x) = missing``, the secular
    equation of ``diag(rho) - rho rho^T``; the proof's own floor, by Gershgorin's circles, is
    ``missing min rho``. Where the scores are so far apart that a ``rho`` underflows it is 0 in
    floating point. NaN for a query without documents.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Claim 1.

    Args:
        scores, offsets: the lists, see `tautrank.theory`.
        epsilon: the constant of eq. 14, above 0.

    >>> smallest_eigenvalue([0.0, 0.0], [0, 2], epsilon=2.0)  # [[3, -1], [-1, 3]]/16
    array([0.125])
    """
    damped = DampedSoftmax.of(scores, offsets, epsilon)
    # The minimum is the negative of the maximum of the negatives.
    smallest = -query_maxima(-damped.rho, damped.offsets)
    # Newton's method needs a start above the root. Of the sum on the left the document with the
    # smallest rho alone reaches `missing` at x = missing rho / (rho + missing), and the others add
    # to it, so the root is not above this x. Without probability (rho is 0) x is 0.
    shares = np.zeros_like(smallest)
    np.divide(smallest, smallest + damped.missing, out=shares, where=smallest > 0)
    start = np.minimum(damped.missing * shares, smallest)
    # Of a far smaller rho than what is missing the root rounds to that rho itself.
    root = np.minimum(_solve_below_poles(damped.rho, damped, start), smallest)
    return np.where(np.diff(damped.offsets) == 0, np.nan, root)


def spectral_gap(scores: ArrayLike, offsets: ArrayLike, epsilon: float = 1e-10) -> F64:
    """Return 1 minus the spectral radius (the largest size of an eigenvalue) of ``S`` at some
    scores, one per query; if it is above 0, ``I + S + S^2 + ...`` converges.

    ``S_ij = rho_j / (1 - rho_i)`` off the diagonal, where ``rho`` is the softmax of the scores with
    ``epsilon`` added to its denominator; the series inverts the Hessian of cross entropy.

    It is the root in (0, 1] of ``sum_i rho_i x / (1/(1 - rho_i) - x) = missing``. After ``n`` terms
    the error of the series shrinks like ``(1 - gap)^n``; the gap is about
    ``epsilon / (sum exp(s) sum rho (1 - rho))``, so for a negligible ``epsilon`` the series
    converges in name only, along the direction that adds a constant to all scores. NaN for a query
    without documents.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Claim 2.

    Args:
        scores, offsets: the lists, see `tautrank.theory`.
        epsilon: the constant of eq. 14, above 0.

    >>> spectral_gap([0.0, 0.0], [0, 2], epsilon=2.0)  # S = [[0, 1], [1, 0]]/3
    array([0.66666667])
    >>> spectral_gap([0.0, 0.0], [0, 2], epsilon=1e-10)
    array([1.e-10])
    """
    log_epsilon = np.log(real("epsilon", epsilon, 0.0, above=True))
    scores, offsets = check_list_scores(scores, offsets)
    sizes = np.diff(offsets)
    # The best document of a query is moved to at most _FAR_AHEAD above the second best, or above
    # epsilon, so that no probability leaves the range of floats.
    best = _find_best(scores, offsets)
    limited = scores.copy()
    limited[best] = -np.inf
    second_scores = np.maximum(query_maxima(limited, offsets), log_epsilon)[sizes > 0]
    limited[best] = np.minimum(scores[best], second_scores + _FAR_AHEAD)

    damped = DampedSoftmax.of(limited, offsets, epsilon)
    # Newton's method starts above the root: at missing / sum rho (1 - rho), but at most at 1.
    spread = query_sums(damped.rho * damped.rest, offsets)
    start = np.ones_like(spread)
    np.divide(damped.missing, spread, out=start, where=damped.missing < spread)
    # A document of probability 1 has its pole 1/(1 - rho) at infinity, here 1e300.
    poles = np.full_like(limited, 1e300)
    np.divide(1.0, damped.rest, out=poles, where=damped.rest > 0)
    return np.where(sizes == 0, np.nan, _solve_below_poles(poles, damped, start))


def _find_best(scores: F64, offsets: I64) -> I64:
    """Return the index of the document with the highest score of each query that has documents."""
    query = query_of(offsets)
    best_first = np.lexsort((-scores, query))
    first_of_query = np.unique(query, return_index=True)[1]
    return best_first[first_of_query]


def _solve_below_poles(poles: F64, damped: DampedSoftmax, start: F64) -> F64:
    """Solve ``sum_i rho_i x / (p_i - x) = missing`` for ``x``, one number per query, by Newton's
    method.

    The sum runs over the documents ``i`` of a query, and the root is below all ``p_i``.

    Args:
        poles: ``p``, one per document.
        damped: the probabilities ``rho`` of the documents, and the mass that is missing to 1.
        start: where to start, above the root of each query; steps go down only.
    """
    x = start
    for _ in range(_MOST_ROUNDS):
        x_of_document = np.repeat(x, np.diff(damped.offsets))
        # A pole that x has reached by rounding counts as infinitely far: its term is then 0.
        distance = np.where(poles > x_of_document, poles - x_of_document, np.inf)
        ratio = damped.rho / distance
        value = query_sums(ratio * x_of_document, damped.offsets) - damped.missing
        # The derivative of rho x / (p - x) is rho p / (p - x)^2.
        slope = query_sums(ratio * (poles / distance), damped.offsets)
        step = np.zeros_like(x)
        with np.errstate(over="ignore"):
            np.divide(value, slope, out=step, where=slope > 0)
        # Above the root all steps go down; when rounding turns them upwards, the root is found.
        next_x = x - np.maximum(step, 0.0)
        if not (next_x < x).any():
            break
        x = np.where(next_x > 0, next_x, x)
    return x


def descends(loss: Loss) -> str | None:
    """Take a loss and return in words why it never rises from one M-step to the next; None where
    there is no such reason.

    `majorise_minimise` alternates between ranking the documents by their scores (E-step) and
    minimising the loss with the weights of that ranking held fixed (M-step). The new ranking brings
    new weights, which may raise the loss again, unless one of the reasons here rules that out.

    Args:
        loss: the loss.

    >>> from tautrank.losses import loss
    >>> descends(loss("arp-loss2"))
    'its weights do not depend on the ranking'
    >>> descends(loss("xendcg(gamma=tight)"))
    'it is the minimum over gamma, which the E-step takes again at the new scores'
    >>> descends(loss("lambdarank(k=none)")) is None
    True
    """
    if loss.is_random:
        return None
    if isinstance(loss, LambdaLoss):
        # A pair at the ranks i < j has the weight v_i - v_j + gap_(j - i). The first 8 ranks tell
        # whether the tables are constant; no pair has the distance 0, so gap[0] is left out.
        v, gap = loss._rank_weights(8)
        v_is_constant = np.ptp(v) == 0.0  # largest less smallest
        gap_is_constant = np.ptp(gap[1:]) == 0.0
        # A cutoff k and a norm depend on the ranking too.
        if v_is_constant and gap_is_constant and loss.k is None and not loss.norm:
            return "its weights do not depend on the ranking"
        return None
    if isinstance(loss, XENDCG) and loss.gamma == "tight":
        return "it is the minimum over gamma, which the E-step takes again at the new scores"
    if isinstance(loss, ListNet | XENDCG | MSE):
        return "nothing in it depends on the ranking"
    return None


class Iterations(NamedTuple):
    """The course of `majorise_minimise`; the first index is the iteration.

    Args:
        objective: the loss with the weights of its own ranking, ``[iterations + 1, queries]``.
        frozen: the loss with the weights of an M-step, before it and after each of its steps,
            ``[iterations, steps + 1, queries]``.
        metric: NDCG, ``[iterations + 1, queries]``; NaN where the query is skipped.
        scores: the final scores, one per document.

    >>> trace = majorise_minimise("ranknet", [0.0, 1.0], [1, 0], iterations=2, steps=1)
    >>> trace.objective.shape, trace.frozen.shape, trace.metric.shape
    ((3, 1), (2, 2, 1), (3, 1))
    """

    objective: F64
    frozen: F64
    metric: F64
    scores: F64


def majorise_minimise(
    loss: Loss | str,
    scores: ArrayLike,
    lists: Labelled,
    *,
    iterations: int = 10,
    steps: int = 5,
) -> Iterations:
    """Alternate between ranking the documents and minimising the loss with its weights held fixed,
    on the scores.

    An M-step is ``steps`` steps of gradient descent, each with a line search for every query, so
    the loss with fixed weights never rises. With the soft assignment the rankings are drawn anew
    for every iteration.

    Wang et al., *The LambdaLoss Framework for Ranking Metric Optimization*, CIKM 2018, sec. 4.2 and
    Figure 5, where a tree takes the place of each step.

    Args:
        loss: any loss, or its name.
        scores: where to start, one finite number per document.
        lists: the lists, see `tautrank.theory`.
        iterations: number of rankings.
        steps: steps of gradient descent per M-step.

    >>> trace = majorise_minimise("ndcg-loss2(k=none)", [2.0, 1.0, 0.0], [0, 1, 2], iterations=4)
    >>> trace.metric[:, 0].round(3)
    array([0.587, 1.   , 1.   , 1.   , 1.   ])
    >>> bool((np.diff(trace.frozen, axis=1) <= 0).all())
    True
    """
    scores, lists = check_scored_lists(scores, lists)
    iterations = whole("iterations", iterations, 0)
    steps = whole("steps", steps, 1)
    objective = REGISTRY.make(loss).bind(lists)
    ndcg = NDCG().bind(lists)

    losses = [objective.values(scores)]
    metrics = [ndcg.per_query(scores)]
    frozen = []
    lengths = np.ones(lists.n_queries)
    for iteration in range(iterations):
        values_with_held_weights = objective.frozen(scores, iteration).values
        search = _LineSearch(values_with_held_weights, lists, lengths)
        frozen.append(search.function(scores))
        for _ in range(steps):
            scores, value = search.step(scores, frozen[-1])
            frozen.append(value)
        losses.append(objective.values(scores, iteration + 1))
        metrics.append(ndcg.per_query(scores))
    return Iterations(
        objective=np.array(losses),
        frozen=np.array(frozen).reshape(iterations, steps + 1, lists.n_queries),
        metric=np.array(metrics),
        scores=scores,
    )


class _LineSearch(NamedTuple):
    """Gradient descent with a step of its own for every query.

    Attributes:
        function: from scores to one value per query.
        lists: the lists.
        lengths: the length of the last step, one per query; each step updates it.
    """

    function: Callable[[F64], F64]
    lists: Lists
    lengths: F64

    def step(self, scores: F64, value: F64) -> tuple[F64, F64]:
        """Take scores and their values per query, and return the scores after one step of gradient
        descent, and the values there.

        The step length of each query, kept in ``self.lengths`` between calls, is halved until the
        value falls by enough (Armijo's rule).
        """
        lists = self.lists
        slopes = differences(self.function, scores, lists.offsets)
        # The fall per unit of step length, if the function went on as steeply.
        promised = query_sums(slopes**2, lists.offsets)
        has_slope = promised > 0
        # A step may be as long as the last one was, and four times that.
        self.lengths[:] *= 4.0
        for _ in range(_MOST_HALVINGS):
            lengths = np.where(has_slope, self.lengths, 0.0)
            moved = scores - lengths[lists.query] * slopes
            reached = self.function(moved)
            # A small share of the promised fall is enough.
            asked = _SHARE * self.lengths * promised
            is_enough = reached <= value - asked
            is_too_long = has_slope & ~is_enough
            if not is_too_long.any():
                return moved, reached
            self.lengths[is_too_long] *= 0.5
        # Differences have no digits left to show the way down: such a query stays where it is.
        self.lengths[:] = np.maximum(self.lengths, 1e-6)
        moved = np.where(is_too_long[lists.query], scores, moved)
        return moved, np.where(is_too_long, value, reached)
