"""The second derivative of cross entropy: is it positive definite, and does the paper's series invert it.

The paper takes a probability mass ``epsilon / (sum exp(s) + epsilon)`` away from the scores, so that the Hessian
``H = diag(rho) - rho rho^T`` can be inverted, writes ``H = D (I - S)`` with ``D_ii = rho_i (1 - rho_i)`` and
``S_ij = rho_j / (1 - rho_i)`` for ``i != j``, and cuts ``(I - S)^-1 = I + S + S^2 + ...`` after three terms.

No matrix is formed here: ``H`` is a diagonal minus a matrix of rank one, and ``S`` is similar to one (scale its rows by
``sqrt(rho_i (1 - rho_i))``), so that eigenvalues are roots of a sum over documents and the inverse is a formula.

Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, sec. 4.4 and appendices C and D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tautrank.arguments import real
from tautrank.metrics.ordering import F64, I64, query_maxima, query_sums
from tautrank.theory.distributions import check_scores

# A longer lead of the best document makes no difference to `spectral_gap`: probabilities below exp(-300) leave the sums
# that they are added to as they are, and exp(-708) is where floats end.
_FAR_AHEAD = 300.0
# Newton's method on these functions gains digits from the first step on; this many end it for any float64.
_MOST_ROUNDS = 200


@dataclass(frozen=True, eq=False)
class DampedSoftmax:
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
        """Return the distribution of given scores.

        Args:
            scores: one finite number per document.
            offsets: start of each query, and the number of documents at the end.
            epsilon: the constant of eq. 14, above 0.
        """
        e = real("epsilon", epsilon, 0.0, above=True)
        s, cuts = check_scores(scores, offsets)
        sizes = np.diff(cuts)
        top = query_maxima(s, cuts)
        ex = np.exp(s - np.repeat(top, sizes))
        # epsilon in units of the largest term; it may overflow when all scores are far below 0, and rho is 0 then.
        with np.errstate(over="ignore"):
            extra = e * np.exp(-top)
        best = _first_of(ex == 1.0, sizes)
        # Added up without the best document, next to which the others would lose their digits.
        others = ex.copy()
        others[best] = 0.0
        tail = query_sums(others, cuts)
        full = sizes > 0
        total = np.where(full, 1.0, 0.0) + tail + extra
        per_document = np.repeat(total, sizes)
        with np.errstate(invalid="ignore"):
            rho = np.where(np.isinf(per_document), 0.0, ex / per_document)
            rest = 1.0 - rho
            rest[best] = np.where(np.isinf(total[full]), 1.0, (tail + extra)[full] / total[full])
            missing = np.where(np.isinf(total), 1.0, extra / total)
        return cls(rho, rest, missing, cuts)


def smallest_eigenvalue(scores: ArrayLike, offsets: ArrayLike, epsilon: float = 1e-10) -> F64:
    """Return the smallest eigenvalue of the Hessian, one per query; if it is above 0, the Hessian is positive definite.

    It is the root below ``min rho`` of ``sum_i rho_i x / (rho_i - x) = missing``, the secular equation of
    ``diag(rho) - rho rho^T``; the proof's own floor, by Gershgorin's circles, is ``missing min rho``. Where the scores
    are so far apart that a ``rho`` underflows it is 0 in floating point. NaN for a query without documents.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Claim 1.

    Args:
        scores, offsets: the lists, see `tautrank.theory`.
        epsilon: the constant of eq. 14, above 0.

    >>> smallest_eigenvalue([0.0, 0.0], [0, 2], epsilon=2.0)  # [[3, -1], [-1, 3]]/16
    array([0.125])
    """
    damped = DampedSoftmax.of(scores, offsets, epsilon)
    rho, missing, cuts = damped.rho, damped.missing, damped.offsets
    sizes = np.diff(cuts)
    least = -query_maxima(-rho, cuts)
    positive = least > 0

    def value_and_slope(x: F64) -> tuple[F64, F64]:
        spread = np.repeat(x, sizes)
        distance = np.where(rho > spread, rho - spread, 1.0)
        share = rho / distance
        return query_sums(share * spread, cuts) - missing, query_sums(share * share, cuts)

    start = missing * np.divide(least, least + missing, out=np.zeros_like(least), where=positive)
    # Of a far smaller rho than what is missing the root rounds to that rho itself.
    root = np.minimum(_root_from_the_right(value_and_slope, np.minimum(start, least)), least)
    return np.where(sizes == 0, np.nan, np.where(positive, root, 0.0))


def spectral_gap(scores: ArrayLike, offsets: ArrayLike, epsilon: float = 1e-10) -> F64:
    """Return 1 minus the spectral radius of ``S``, one per query; if it is above 0, ``I + S + S^2 + ...`` converges.

    It is the root in (0, 1] of ``sum_i rho_i x (1 - rho_i) / (1 - x (1 - rho_i)) = missing``. After ``n`` terms the
    error of the series shrinks like ``(1 - gap)^n``; the gap is about ``epsilon / (sum exp(s) sum rho (1 - rho))``, so
    for a negligible ``epsilon`` the series converges in name only, along the direction that adds a constant to all
    scores. NaN for a query without documents.

    Bruch, *An Alternative Cross Entropy Loss for Learning-to-Rank*, 2020, Claim 2.

    Args:
        scores, offsets: the lists, see `tautrank.theory`.
        epsilon: the constant of eq. 14, above 0.

    >>> spectral_gap([0.0, 0.0], [0, 2], epsilon=2.0)  # S = [[0, 1], [1, 0]]/3
    array([0.66666667])
    >>> spectral_gap([0.0, 0.0], [0, 2], epsilon=1e-10)
    array([1.e-10])
    """
    s, cuts = check_scores(scores, offsets)
    sizes = np.diff(cuts)
    best = _first_of(s == np.repeat(query_maxima(s, cuts), sizes), sizes)
    others = s.copy()
    others[best] = -np.inf
    second = np.maximum(query_maxima(others, cuts), np.log(real("epsilon", epsilon, 0.0, above=True)))[sizes > 0]
    others[best] = np.minimum(s[best], second + _FAR_AHEAD)
    damped = DampedSoftmax.of(others, cuts, epsilon)
    rho, rest, missing = damped.rho, damped.rest, damped.missing

    def value_and_slope(x: F64) -> tuple[F64, F64]:
        left = 1.0 - np.repeat(x, sizes) * rest
        # Only a document with no probability at all has nothing left, and it counts nothing.
        share = np.divide(rho * rest, left, out=np.zeros_like(rho), where=left > 0)
        slope = np.divide(share, left, out=np.zeros_like(rho), where=left > 0)
        return query_sums(share * np.repeat(x, sizes), cuts) - missing, query_sums(slope, cuts)

    spread = query_sums(rho * rest, cuts)
    start = np.minimum(np.divide(missing, spread, out=np.ones_like(spread), where=spread > 0), 1.0)
    root = _root_from_the_right(value_and_slope, start)
    return np.where(sizes == 0, np.nan, root)


def _first_of(documents: NDArray[np.bool_], sizes: I64) -> I64:
    """Return the flat index of the first of these documents in each query that has one."""
    chosen = np.flatnonzero(documents)
    return chosen[np.unique(np.repeat(np.arange(sizes.size), sizes)[chosen], return_index=True)[1]]


def _root_from_the_right(value_and_slope: Callable[[F64], tuple[F64, F64]], start: F64) -> F64:
    """Return the root of an increasing convex function, one per query, by Newton's method from a point above it."""
    x = start
    for _ in range(_MOST_ROUNDS):
        value, slope = value_and_slope(x)
        step = np.divide(value, slope, out=np.zeros_like(x), where=slope > 0)
        moved = x - np.maximum(step, 0.0)
        if not (moved < x).any():
            break
        x = np.where(moved > 0, moved, x)
    return x
