"""A discount as a sum of powers: ``D(r) = sum_q c_q x_q^r``, to any precision asked for.

``1/log2(2 + r)`` and ``1/(1 + r)`` are completely monotone: mixtures of ``x^r`` over ``x`` in (0, 1). A few dozen
powers, their ``-log x`` spaced evenly in the logarithm, are as good as the whole mixture.

Beylkin and Monzon, *On Approximation of Functions by Exponential Sums*, Applied and Computational Harmonic
Analysis 19(1), 2005.
"""

from __future__ import annotations

import functools

import numpy as np

from tautrank.arrays import F64, I64
from tautrank.metrics.gains import discount_values

_MOST_TERMS = 64
_SHORTEST = 64
_GROWTH = 4


@functools.lru_cache(maxsize=64)
def discount_powers(n: int, discount: str, tolerance: float, group: int) -> tuple[F64, F64]:
    """``1 - x_q`` and ``c_q`` for the 0-based ranks below ``n``.

    The coefficients are fitted to the relative error of the discount and of its steps from rank to rank, because a
    gradient is made of those.

    Args:
        n: ranks.
        discount: ``"log2"`` or ``"reciprocal"``.
        tolerance: the largest relative error of a step, unless 64 terms do not reach it.
        group: the number of terms is a multiple of this.

    >>> gaps, coefficients = discount_powers(256, "log2", 1e-6, 4)
    >>> gaps.size
    20
    >>> bool(abs(coefficients @ (1 - gaps) ** 6 - 1 / np.log2(2 + 6)) < 1e-7)
    True
    """
    # All low ranks, and of the others as many as matter.
    r = np.unique(np.concatenate((np.arange(min(n, 200)), np.rint(np.geomspace(1, n, 800)).astype(np.int64) - 1)))
    by_rank = discount_values(n + 1, discount)
    goal = by_rank[r]
    step = by_rank[r + 1] - goal
    for terms in range(group, _MOST_TERMS + 1, group):
        rates = np.geomspace(0.3 / n, 8.0, terms)
        powers = np.exp(-np.outer(r, rates))
        system = np.vstack((powers / goal[:, np.newaxis], powers * np.expm1(-rates) / step[:, np.newaxis]))
        coefficients = np.linalg.lstsq(system, np.ones(2 * r.size), rcond=1e-15)[0]
        if np.abs(system @ coefficients - 1.0).max() < tolerance:
            break
    gaps = -np.expm1(-rates)
    gaps.setflags(write=False)
    coefficients.setflags(write=False)
    return gaps, coefficients


def power_tables(longest: int, discount: str, tolerance: float, group: int) -> tuple[F64, F64, I64, I64]:
    """`discount_powers` for lists of up to 64, 256, 1024, ... documents, a row each, until ``longest`` is reached.

    Which row serves a list depends on its own length only, so that queries stay independent of each other.

    Args:
        longest: documents of the longest list.
        discount: ``"log2"`` or ``"reciprocal"``.
        tolerance: as in `discount_powers`, as is ``group``.
        group: see there.

    Returns:
        ``1 - x_q`` and ``c_q``, filled up with zeros; the number of terms and the longest list of each row.

    >>> gaps, coefficients, terms, reach = power_tables(300, "log2", 1e-6, 4)
    >>> terms, reach
    (array([16, 20, 24]), array([  64,  256, 1024]))
    """
    sizes = [_SHORTEST]
    while sizes[-1] < longest:
        sizes.append(sizes[-1] * _GROWTH)
    found = [discount_powers(size, discount, tolerance, group) for size in sizes]
    terms = np.array([gaps.size for gaps, _ in found], dtype=np.int64)
    gaps = np.zeros((len(found), int(terms.max())))
    coefficients = np.zeros_like(gaps)
    for row, (its_gaps, its_coefficients) in enumerate(found):
        gaps[row, : its_gaps.size] = its_gaps
        coefficients[row, : its_gaps.size] = its_coefficients
    return gaps, coefficients, terms, np.array(sizes, dtype=np.int64)
