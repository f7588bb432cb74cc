"""The sums over pairs of documents that stand between a LambdaLoss and the metric it bounds."""

from __future__ import annotations

import numpy as np
from numba import njit

from tautrank.arrays import F64, I32, I64
from tautrank.kernels.ranking import longest_list


@njit(nogil=True, cache=True, error_model="numpy")
def pair_sums(ranks: I32, gains: F64, levels: F64, offsets: I64, v: F64, gap: F64, cap: float, k: int) -> F64:
    """Return sums over the pairs of each query, where ``w_ij`` is the rank part of the loss's weight.

    Args:
        ranks: 0-based, one per document, in the order of the arrangement as the arrays that follow.
        gains: weight of each document.
        levels: rank of the label among the distinct labels.
        offsets: start of each query, and the number of documents at the end.
        v: discount by rank.
        gap: weight by distance of ranks, entry ``d + 2`` for the distance ``d``.
        cap: the most that a difference of gains counts.
        k: pairs count when their upper rank is at most this.

    Returns:
        Three numbers per query: ``sum w_ij min(|u_i - u_j|, cap)`` over the pairs that are out of order; ``sum w_ij
        u_j`` over the pairs with equal labels; ``sum w_ij min(u_i, u_j)`` over the pairs with different labels.
    """
    sums = np.empty((offsets.size - 1, 3))
    longest = longest_list(offsets, 0, offsets.size - 1)
    u = np.empty(longest)
    level = np.empty(longest)
    for query in range(offsets.size - 1):
        start, stop = offsets[query], offsets[query + 1]
        for p in range(start, stop):
            u[ranks[p]] = gains[p]
            level[ranks[p]] = levels[p]
        wrong, alike, unlike = 0.0, 0.0, 0.0
        for i in range(min(k, stop - start - 1)):
            for j in range(i + 1, stop - start):
                w = v[i] - v[j] + gap[j - i + 2]
                if level[i] == level[j]:
                    alike += w * u[j]
                else:
                    unlike += w * min(u[i], u[j])
                    if level[i] < level[j]:
                        wrong += w * min(u[j] - u[i], cap)
        sums[query, 0] = wrong
        sums[query, 1] = alike
        sums[query, 2] = unlike
    return sums
