"""Kernels that look for gammas: those a loss drew, and those with the smallest Jensen gap."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from tautrank.arrays import F64, I64
from tautrank.kernels.randomness import GAMMA_STREAM, fill_uniform


@njit(nogil=True, cache=True, error_model="numpy")
def drawn_gammas(offsets: I64, seed: np.uint64, step: int) -> F64:
    """Return the gammas that ``xendcg(gamma=uniform)`` draws, one per document.

    Args:
        offsets: start of each query, and the number of documents at the end.
        seed: the loss's seed.
        step: the loss's step.
    """
    gamma = np.empty(offsets[-1])
    for query in range(offsets.size - 1):
        fill_uniform(gamma[offsets[query] : offsets[query + 1]], seed, step, query, GAMMA_STREAM)
    return gamma


@njit(nogil=True, cache=True, error_model="numpy")
def smallest_jensen_gaps(log_rho: F64, least: F64, unit: F64, offsets: I64) -> tuple[F64, I64]:
    """Find the gammas of 0 and 1 that minimise ``log sum phi rho - sum phi log rho``.

    The gap is concave in the target ``phi``, so its minimum is a corner of the box of gammas, and there it also
    minimises its own linear part, whose slopes ``rho/A - log rho`` are convex in ``rho``: the documents with a gamma of
    0 are neighbours in the order of the scores. All such windows are tried with running sums.

    Args:
        log_rho: log of the softmax of the scores, from the highest to the lowest within each query.
        least: the target's numerator at a gamma of 1 in that order.
        unit: what a gamma of 0 adds to it, one per query.
        offsets: start of each query, and the number of documents at the end.

    Returns:
        The smallest gap of each query, infinity where no document has a numerator; and for each query the first place
        of the window and the one past its last.
    """
    gaps = np.empty(offsets.size - 1)
    windows = np.empty((gaps.size, 2), np.int64)
    for query in range(gaps.size):
        start, stop = offsets[query], offsets[query + 1]
        weight = 0.0
        likely = 0.0
        weighted = 0.0
        # Probabilities are measured by the highest one in the sum: next to a far better document all may underflow.
        top = -math.inf
        for p in range(start, stop):
            if least[p] > 0.0:
                top = max(top, log_rho[p])
        for p in range(start, stop):
            if least[p] > 0.0:
                weight += least[p]
                likely += least[p] * math.exp(log_rho[p] - top)
                weighted -= least[p] * log_rho[p]
        best = math.inf
        if weight > 0.0:
            best = math.log(likely / weight) + top + weighted / weight
        from_place, to_place = 0, 0
        for begin in range(start, stop):
            reference = max(top, log_rho[begin])
            w, c = weight, weighted
            x = likely * math.exp(top - reference)
            for end in range(begin, stop):
                w += unit[query]
                x += unit[query] * math.exp(log_rho[end] - reference)
                c -= unit[query] * log_rho[end]
                gap = math.log(x / w) + reference + c / w
                if gap < best:
                    best = gap
                    from_place, to_place = begin - start, end + 1 - start
        gaps[query] = best
        windows[query, 0] = from_place
        windows[query, 1] = to_place
    return gaps, windows
